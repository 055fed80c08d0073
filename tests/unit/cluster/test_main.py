"""The command line: where each setting comes from, and what a bad installation file is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from tailguard_operator import main as module
from tailguard_operator.cluster.settings import Settings
from tailguard_operator.cluster.watching import CHILDREN, settings

INSTALLATION = {
    "profiles": {"vllm-test": {"type": "VLLM", "image": "local/vllm:1"}},
    "defaultProfile": "vllm-test",
    "runtimeImage": "local/runtime:1",
    "namespace": "tailguard-system",
}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Settings that an operator was run with."""
    found: list[Settings] = []

    def run(settings: Settings, **_: Any) -> int:
        found.append(settings)
        return 0

    monkeypatch.setattr(module, "run", run)
    for name in ("KUBECONFIG", "POD_NAME", "POD_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    path = tmp_path / "installation.yaml"
    path.write_text(json.dumps(INSTALLATION))
    return path


def test_options_come_before_variables_and_variables_before_defaults(
    started: list[Settings], installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given variables as the chart sets them
    monkeypatch.setenv("TAILGUARD_HEALTH_PORT", "8081")
    monkeypatch.setenv("TAILGUARD_WORKERS", "3")
    monkeypatch.setenv("POD_NAME", "operator-0")
    # When an operator is started with one option beside them
    assert module.main(["--installation", str(installation), "--workers", "5", "--lease-seconds", "6"]) == 0
    # Then
    (found,) = started
    assert (found.health_port, found.metrics_port, found.workers) == (8081, 9090, 5)
    assert (found.identity, found.namespace) == ("operator-0", None)
    assert (found.lease.namespace, found.lease.duration, found.lease.renew_deadline) == ("tailguard-system", 6, 4.0)


def test_two_processes_without_a_name_never_share_one(started: list[Settings], installation: Path) -> None:
    for _ in range(2):
        module.main(["--installation", str(installation)])
    assert started[0].identity != started[1].identity


def test_a_bad_installation_names_the_field_and_starts_nothing(
    started: list[Settings], installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given a profile of an unknown type
    wrong = INSTALLATION | {"profiles": {"vllm-test": {"type": "VLM", "image": "a"}}}
    installation.write_text(json.dumps(wrong))
    # When an operator is started
    assert module.main(["--installation", str(installation)]) == 2
    # Then the field, its value and what is allowed are told
    error = capsys.readouterr().err
    assert "installation.profiles.vllm-test.type" in error and "'VLM'" in error
    assert started == []


def test_a_missing_installation_is_told(started: list[Settings], capsys: pytest.CaptureFixture[str]) -> None:
    assert module.main(["--installation", "/nowhere/installation.yaml"]) == 2
    assert "/nowhere/installation.yaml" in capsys.readouterr().err


def test_kopf_writes_nothing_and_holds_no_strangers() -> None:
    """Peering, Events and finalizers of kopf would be writes beside the Lease."""
    chosen = settings()
    assert not chosen.posting.enabled
    assert chosen.scanning.disabled
    assert len(chosen.watching.label_selectors) == len(CHILDREN)
    assert set(chosen.watching.label_selectors.values()) == {"tailguard.dev/service"}
