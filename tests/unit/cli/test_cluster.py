"""The command and the cluster: commands of people, unknown names, refusals, and kubeconfigs that can't be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("command", ["promote", "abort", "retry"])
def test_a_command_is_one_annotation_with_a_token_of_its_own(
    command: str, api: Any, tailguard: Any, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a service
    monkeypatch.setenv("LOGNAME", "ann")
    service()
    # When ann gives a command
    ended = tailguard(command, "chat")
    # Then one merge patch sets the annotation, with her name and the time, and nothing else
    ((path, kind, body),) = api.patched
    assert path.endswith("/namespaces/default/inferenceservices/chat")
    assert kind == "application/merge-patch+json"
    ((name, token),) = body["metadata"]["annotations"].items()
    assert body == {"metadata": {"annotations": {name: token}}}
    assert (name, token.startswith("ann-20")) == (f"tailguard.dev/{command}", True)
    # And it says where to look
    assert (ended.code, "`tailguard explain chat`" in ended.text) == (0, True)


def test_a_user_without_a_name_can_still_give_commands(
    api: Any, tailguard: Any, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a container whose user has no entry
    def nobody() -> str:
        raise KeyError("uid not found: 1234")

    monkeypatch.setattr("getpass.getuser", nobody)
    service()
    # When a command is given
    assert tailguard("abort", "chat").code == 0
    # Then it is somebody's
    assert api.patched[0][2]["metadata"]["annotations"]["tailguard.dev/abort"].startswith("somebody-20")


@pytest.mark.parametrize("args", [("explain", "chta"), ("promote", "chta"), ("abort", "chta"), ("retry", "chta")])
def test_an_unknown_service_is_a_clear_sentence(args: tuple[str, ...], api: Any, tailguard: Any, service: Any) -> None:
    # Given a service under another name
    service()
    # When a misspelt one is asked for
    ended = tailguard(*args)
    # Then it says what is not there, where it looked, and how to see what is
    assert ended.code == 3
    assert ended.text == (
        "error: there is no InferenceService chta in namespace default; see `tailguard get`, or say -n"
    )


def test_what_the_cluster_refuses_is_told_in_its_own_words(api: Any, tailguard: Any) -> None:
    # Given an API server that forbids
    api.refusal = (403, 'inferenceservices.tailguard.dev is forbidden: User "ann" cannot list')
    # When services are listed
    ended = tailguard("get")
    # Then its sentence is passed on
    assert (ended.code, 'User "ann" cannot list' in ended.text) == (1, True)


def test_a_cluster_that_does_not_answer_is_named(api: Any, tailguard: Any) -> None:
    # Given an API server that is gone
    api.close()
    # When services are listed
    ended = tailguard("get")
    # Then its address is told
    assert ended.code == 1
    assert f"the cluster at {api.url} does not answer" in ended.text


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "not: [a, kubeconfig",
        "just a text",
        "apiVersion: v1\nkind: Config\ncurrent-context: gone\nclusters: []\nusers: []\ncontexts: []\n",
    ],
)
def test_a_broken_kubeconfig_is_named_with_what_to_do(
    content: str | None, tmp_path: Path, tailguard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a kubeconfig that is missing, empty, no YAML, no mapping, or without its context
    path = tmp_path / "broken"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(path))
    # When services are listed
    ended = tailguard("get")
    # Then the file is named, and how to name another
    assert ended.code == 1
    assert "can't be used" in ended.text and "set KUBECONFIG" in ended.text
    assert "broken" in ended.text.replace(" ", "")


def test_an_unknown_context_is_a_clear_sentence(api: Any, tailguard: Any) -> None:
    # Given a kubeconfig without that context
    ended = tailguard("get", "--context", "prod")
    # Then it is named
    assert (ended.code, "prod" in ended.text) == (1, True)


def test_help_names_every_command(tailguard: Any) -> None:
    # When help is asked for
    ended = tailguard("--help")
    # Then every command is there
    assert all(name in ended.text for name in ("get", "explain", "replay", "promote", "abort", "retry"))
