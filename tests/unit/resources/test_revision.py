"""A revision is rendered once, deterministically, and holds everything that its pods need."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tailguard_operator.api.service import InferenceServiceSpec
from tailguard_operator.resources.owner import Owner
from tailguard_operator.resources.profile import Installation
from tailguard_operator.resources.revision import (
    Pins,
    Rendered,
    controller_revision,
    engine_image,
    render,
    spec_hash,
)

MakeSpec = Callable[..., InferenceServiceSpec]
MODEL = {"uri": "file:///models/tiny"}
PINS = Pins(image_digest="sha256:" + "ab" * 32)


def engine(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in data["template"]["spec"]["containers"] if c["name"] == "engine")
    return found


@pytest.fixture
def rendered(make_spec: MakeSpec, installation: Installation) -> Rendered:
    return render("chat", make_spec(engine={"args": ["--max-num-seqs=8"]}), installation, PINS, None)


def test_the_same_input_always_gives_the_same_revision(
    rendered: Rendered, make_spec: MakeSpec, installation: Installation
) -> None:
    again = render("chat", make_spec(engine={"args": ["--max-num-seqs=8"]}), installation, PINS, None)
    assert again == rendered


def test_a_revision_is_plain_json_of_moderate_size(rendered: Rendered) -> None:
    text = json.dumps(rendered.data)
    assert json.loads(text) == rendered.data
    assert len(text) < 100_000
    assert "null" not in text


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"uri": "file:///models/other"}},
        {"model": {**MODEL, "servedName": "other"}},
        {"engine": {"args": ["--max-num-seqs=9"]}},
        {"engine": {"profile": "vllm-cuda"}},
        {"engine": {"quantization": "fp8"}},
        {"engine": {"resources": {"requests": {"cpu": "1"}}}},
        {"engine": {"template": {"metadata": {"annotations": {"a": "b"}}}}},
        {"engine": {"template": {"spec": {"containers": [{"name": "engine", "image": "vllm/cpu:2"}]}}}},
    ],
)
def test_whatever_changes_the_server_makes_another_revision(
    change: dict[str, Any], make_spec: MakeSpec, installation: Installation
) -> None:
    # Given
    plain, changed = make_spec(), make_spec(**change)
    # Then
    assert spec_hash(changed, None) != spec_hash(plain, None)
    assert (
        render("chat", changed, installation, PINS, None).revision
        != render("chat", plain, installation, PINS, None).revision
    )


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": 5},
        {"slos": [{"name": "s", "objectives": [{"metric": "TTFT", "percentile": "99", "max": "1s"}]}]},
        {"rollout": {"tolerance": 20}},
        {"engine": {}},
        {"engine": {"kernels": [], "args": [], "resources": {}, "template": {}}},
    ],
)
def test_whatever_does_not_change_the_server_makes_none(
    change: dict[str, Any], make_spec: MakeSpec, installation: Installation
) -> None:
    changed, plain = make_spec(**change), make_spec()
    assert spec_hash(changed, None) == spec_hash(plain, None)
    assert render("chat", changed, installation, PINS, None) == render("chat", plain, installation, PINS, None)


def test_the_hash_of_a_spec_is_the_same_for_ever(make_spec: MakeSpec) -> None:
    """A changed algorithm would start a rollout of every running service at the operator's next upgrade."""
    assert spec_hash(make_spec(), None) == "b2e94fff"
    assert spec_hash(make_spec(engine={"args": ["--max-num-seqs=8"], "profile": "p"}), "t1") == "e0e43042"


def test_a_refresh_renders_again_even_when_nothing_else_changed(
    make_spec: MakeSpec, installation: Installation
) -> None:
    revisions = {render("chat", make_spec(), installation, PINS, token).revision for token in (None, "a", "b")}
    assert len(revisions) == 3


def test_another_digest_behind_the_same_tag_is_another_revision_of_the_same_spec(
    make_spec: MakeSpec, installation: Installation
) -> None:
    first = render("chat", make_spec(), installation, PINS, None)
    second = render("chat", make_spec(), installation, Pins(image_digest="sha256:" + "cd" * 32), None)
    assert first.revision != second.revision
    assert first.spec_hash == second.spec_hash


def test_the_image_is_pinned_where_the_registry_answered_and_kept_as_written_where_not(
    make_spec: MakeSpec, installation: Installation
) -> None:
    pinned = render("chat", make_spec(), installation, PINS, None).data
    unpinned = render("chat", make_spec(), installation, Pins(), None).data
    assert engine(pinned)["image"] == pinned["image"] == f"vllm/cpu:1@{PINS.image_digest}"
    assert engine(unpinned)["image"] == unpinned["image"] == "vllm/cpu:1"


@pytest.mark.parametrize(
    ("template", "image"),
    [
        ({}, "vllm/cpu:1"),
        ({"spec": {}}, "vllm/cpu:1"),
        ({"spec": {"containers": [{"name": "side", "image": "x"}]}}, "vllm/cpu:1"),
        ({"spec": {"containers": [{"name": "engine", "image": "mine:2"}]}}, "mine:2"),
    ],
)
def test_the_users_own_image_is_the_one_to_pin(
    template: dict[str, Any], image: str, make_spec: MakeSpec, installation: Installation
) -> None:
    spec = make_spec(engine={"template": template})
    assert engine_image(spec, installation) == image
    assert engine(render("chat", spec, installation, PINS, None).data)["image"] == f"{image}@{PINS.image_digest}"


def test_an_image_that_is_named_by_digest_stays_as_written(make_spec: MakeSpec, installation: Installation) -> None:
    image = "mine@sha256:" + "ef" * 32
    spec = make_spec(engine={"template": {"spec": {"containers": [{"name": "engine", "image": image}]}}})
    assert engine(render("chat", spec, installation, PINS, None).data)["image"] == image


def test_a_users_flag_replaces_the_profiles(rendered: Rendered) -> None:
    """R-093: the flags that run are recorded with every result."""
    args = engine(rendered.data)["args"]
    assert "--max-num-seqs=8" in args
    assert "--max-num-seqs=2" not in args
    assert "--max-model-len=512" in args


def test_quantization_becomes_a_flag(make_spec: MakeSpec, installation: Installation) -> None:
    data = render("chat", make_spec(engine={"quantization": "fp8"}), installation, PINS, None).data
    assert "--quantization=fp8" in engine(data)["args"]


def test_the_context_comes_from_flags_then_from_the_model_and_is_left_out_when_unknown(
    make_spec: MakeSpec, installation: Installation
) -> None:
    config = Pins(model_config={"max_position_embeddings": 4096})
    cuda = make_spec(engine={"profile": "vllm-cuda"})
    assert render("chat", make_spec(), installation, config, None).data["contextLength"] == 512
    assert render("chat", cuda, installation, config, None).data["contextLength"] == 4096
    assert "contextLength" not in render("chat", cuda, installation, Pins(), None).data


def test_overlays_come_in_order_guard_profile_user(make_spec: MakeSpec, installation: Installation) -> None:
    # Given
    guard = {"spec": {"priorityClassName": "guard", "nodeSelector": {"from": "guard"}, "volumes": [{"name": "g"}]}}
    layered = installation.model_copy(update={"guard_template": guard})
    user = {"spec": {"nodeSelector": {"from": "user"}, "tolerations": [{"key": "user", "operator": "Exists"}]}}
    # When
    spec = render("chat", make_spec(engine={"template": user}), layered, PINS, None).data["template"]["spec"]
    # Then
    assert spec["priorityClassName"] == "guard"
    assert spec["nodeSelector"] == {"from": "user"}
    assert [t["key"] for t in spec["tolerations"]] == ["cpu", "user"]
    assert "g" in [v["name"] for v in spec["volumes"]]


def test_resources_are_merged_by_name(make_spec: MakeSpec, installation: Installation) -> None:
    spec = make_spec(engine={"resources": {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi"}}})
    resources = engine(render("chat", spec, installation, PINS, None).data)["resources"]
    assert resources == {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "4Gi"}}


def test_every_container_explains_its_end(make_spec: MakeSpec, installation: Installation) -> None:
    template = {"spec": {"containers": [{"name": "side", "image": "x", "terminationMessagePolicy": "File"}]}}
    spec = render("chat", make_spec(engine={"template": template}), installation, PINS, None).data["template"]["spec"]
    policies = {c["name"]: c["terminationMessagePolicy"] for c in (*spec["containers"], *spec["initContainers"])}
    assert policies == {"engine": "FallbackToLogsOnError", "guard": "FallbackToLogsOnError", "side": "File"}


def test_the_environment_goes_with_the_revision(rendered: Rendered) -> None:
    """R-171: the whole environment is pinned and recorded with each result."""
    assert rendered.data["manifest"]["engine_version"] == "0.32.0"
    assert rendered.data["manifest"]["image"] == f"vllm/cpu:1@{PINS.image_digest}"
    assert rendered.data["engine"] == {"type": "VLLM", "version": "0.32.0", "profile": "vllm-cpu"}
    assert rendered.data["pins"] == {"imageDigest": PINS.image_digest, "modelCommit": ""}


def test_a_model_commit_takes_the_place_of_a_branch(make_spec: MakeSpec, installation: Installation) -> None:
    """R-172: the model is pinned."""
    # Given
    spec = make_spec(model={"uri": "hf://Qwen/Qwen3-8B", "revision": "main"})
    commit = "0123456789abcdef0123456789abcdef01234567"
    # When
    data = render("chat", spec, installation, Pins(model_commit=commit), None).data
    # Then
    fetch = next(c for c in data["template"]["spec"]["initContainers"] if c["name"] == "fetch-model")
    assert commit in fetch["command"]
    assert data["pins"]["modelCommit"] == commit
    assert data["manifest"]["model_revision"] == commit


def test_the_start_is_sized_by_the_model(rendered: Rendered) -> None:
    probe = engine(rendered.data)["startupProbe"]
    assert rendered.data["startupSeconds"] == 610
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 610


def test_it_is_stored_under_its_name(rendered: Rendered, owner: Owner) -> None:
    stored = controller_revision(owner, rendered)
    assert stored["metadata"]["name"] == f"chat-{rendered.revision}"
    assert stored["metadata"]["labels"]["tailguard.dev/revision"] == rendered.revision
    assert stored["data"] == rendered.data
    assert stored["data"]["specHash"] == rendered.spec_hash
    assert isinstance(stored["revision"], int)


def test_names_are_eight_hex_digits(rendered: Rendered) -> None:
    assert all(len(name) == 8 and int(name, 16) >= 0 for name in (rendered.revision, rendered.spec_hash))


def test_labels_of_service_and_revision_are_stored_and_those_of_the_pool_are_not(rendered: Rendered) -> None:
    assert rendered.data["template"]["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "tailguard",
        "tailguard.dev/service": "chat",
        "tailguard.dev/revision": rendered.revision,
    }


def test_an_unknown_profile_is_an_error_of_the_caller(installation: Installation, make_spec: MakeSpec) -> None:
    spec: InferenceServiceSpec = make_spec(engine={"profile": "nope"})
    with pytest.raises(KeyError, match="nope"):
        render("chat", spec, installation, PINS, None)
