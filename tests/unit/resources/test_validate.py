"""Everything about a spec that neither schema nor CEL can say."""

from collections.abc import Callable
from typing import Any

import pytest

from tailguard_operator.api.service import InferenceServiceSpec
from tailguard_operator.resources.profile import Installation
from tailguard_operator.resources.revision import Pins, render
from tailguard_operator.resources.validate import Findings, check

MakeSpec = Callable[..., InferenceServiceSpec]


def only(findings: Findings) -> str:
    assert len(findings.problems) == 1, findings.problems
    return findings.problems[0]


def test_three_lines_are_a_valid_service(make_spec: MakeSpec, installation: Installation) -> None:
    assert check("chat", make_spec(), installation) == Findings()


@pytest.mark.parametrize(("length", "valid"), [(36, True), (37, False)])
def test_a_name_so_long_that_derived_names_pass_63_characters(
    length: int, valid: bool, make_spec: MakeSpec, installation: Installation
) -> None:
    findings = check("s" * length, make_spec(), installation)
    assert (findings.problems == ()) is valid
    assert valid or ("metadata.name: " in only(findings) and "at most 36 characters" in only(findings))


def test_an_unknown_profile_names_the_known_ones(make_spec: MakeSpec, installation: Installation) -> None:
    found = only(check("chat", make_spec(engine={"profile": "vllm-gpu", "args": ["--nope"]}), installation))
    assert found == (
        "spec.engine.profile: 'vllm-gpu' is not allowed; this installation has trtllm, vllm-cpu, vllm-cuda; name one "
        "of them or leave it out"
    )


def test_a_type_that_is_not_the_profiles(make_spec: MakeSpec, installation: Installation) -> None:
    found = only(check("chat", make_spec(engine={"type": "TensorRTLLM"}), installation))
    assert found.startswith("spec.engine.type: 'TensorRTLLM' is not allowed; profile 'vllm-cpu' runs VLLM")


@pytest.mark.parametrize("engine", [{"profile": "trtllm"}, {"profile": "trtllm", "type": "TensorRTLLM"}])
def test_an_engine_that_this_version_does_not_run(
    engine: dict[str, Any], make_spec: MakeSpec, installation: Installation
) -> None:
    found = only(check("chat", make_spec(engine=engine), installation))
    assert "TensorRTLLM is not supported by this version; use a profile of type VLLM" in found


def test_a_misspelt_flag_names_the_nearest(make_spec: MakeSpec, installation: Installation) -> None:
    found = only(check("chat", make_spec(engine={"args": ["--max-num-seqs=4", "--max-num-seq=4"]}), installation))
    assert found.startswith("spec.engine.args[1]: ")
    assert "--max-num-seqs" in found


def test_a_flag_that_tailguard_manages(make_spec: MakeSpec, installation: Installation) -> None:
    found = only(check("chat", make_spec(engine={"args": ["--port=9000"]}), installation))
    assert found.startswith("spec.engine.args[0]: ")
    assert "8000" in found


def test_remote_code_is_a_warning(make_spec: MakeSpec, installation: Installation) -> None:
    """R-172: remote code runs foreign Python and needs an explicit opt-in."""
    findings = check("chat", make_spec(engine={"args": ["--trust-remote-code"]}), installation)
    assert findings.problems == ()
    assert ["trust-remote-code" in warning for warning in findings.warnings] == [True]


@pytest.mark.parametrize(
    ("model", "warned"),
    [
        ({"uri": "hf://a/b"}, True),
        ({"uri": "hf://a/b", "revision": "main"}, True),
        ({"uri": "hf://a/b", "revision": "0123456789abcdef0123456789abcdef01234567"}, False),
        ({"uri": "file:///models/tiny"}, False),
        ({"uri": "pvc://claim/tiny"}, False),
    ],
)
def test_a_model_without_a_commit_is_a_warning(
    model: dict[str, str], warned: bool, make_spec: MakeSpec, installation: Installation
) -> None:
    """R-172: a CR without revision warns."""
    findings = check("chat", make_spec(model=model), installation)
    assert findings.problems == ()
    assert any("spec.model.revision" in warning for warning in findings.warnings) is warned


def test_a_revision_of_a_model_that_has_none(make_spec: MakeSpec, installation: Installation) -> None:
    found = only(check("chat", make_spec(model={"uri": "file:///m", "revision": "main"}), installation))
    assert found.startswith("spec.model.revision: ")


def test_kernels_are_named_and_refused(make_spec: MakeSpec, installation: Installation) -> None:
    found = only(check("chat", make_spec(engine={"kernels": ["flash"]}), installation))
    assert found.startswith("spec.engine.kernels: flash is not allowed; no kernel is registered")


@pytest.mark.parametrize("args", [["--quantization=int8"], ["--quantization", "int8"], ["-q", "int8"], ["-q=int8"]])
def test_quantization_said_twice(args: list[str], make_spec: MakeSpec, installation: Installation) -> None:
    found = only(check("chat", make_spec(engine={"quantization": "fp8", "args": args}), installation))
    assert found.startswith(f"spec.engine.args[0]: {args[0]!r} is not allowed; spec.engine.quantization is 'fp8'")


def test_a_version_without_a_flag_table_is_one_warning(make_spec: MakeSpec, installation: Installation) -> None:
    # Given
    profile = installation.profile(None).model_copy(update={"version": "9.9.9"})
    newer = installation.model_copy(update={"profiles": {"vllm-cpu": profile}})
    # When
    findings = check("chat", make_spec(engine={"args": ["--max-num-seqs=4"]}), newer)
    # Then
    assert findings.problems == ()
    assert ["9.9.9" in warning for warning in findings.warnings] == [True]


def test_a_request_above_its_limit(make_spec: MakeSpec, installation: Installation) -> None:
    resources = {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1024Mi"}}
    found = only(check("chat", make_spec(engine={"resources": resources}), installation))
    assert found == (
        "spec.engine.resources.requests[cpu]: 1500m is not allowed; the limit is 1; a request may not be larger"
    )


def test_a_quantity_that_is_none(make_spec: MakeSpec, installation: Installation) -> None:
    spec = make_spec()
    broken = spec.model_copy(update={"engine": make_spec(engine={"resources": {"limits": {"memory": "1Gi"}}}).engine})
    object.__setattr__(broken.engine.resources, "limits", {"memory": "lots"})  # type: ignore[union-attr]
    found = only(check("chat", broken, installation))
    assert found.startswith("spec.engine.resources.limits[memory]: 'lots' is not allowed; it has to be a quantity")


def test_a_template_that_cannot_be_merged(make_spec: MakeSpec, installation: Installation) -> None:
    found = only(check("chat", make_spec(engine={"template": {"spec": {"volumes": {"a": {}}}}}), installation))
    assert found.startswith("spec.engine.template.spec.volumes: ")
    assert "has to be a list" in found


def test_an_image_of_ones_own_is_a_warning(make_spec: MakeSpec, installation: Installation) -> None:
    template = {"spec": {"containers": [{"name": "engine", "image": "mine:1"}]}}
    findings = check("chat", make_spec(engine={"template": template}), installation)
    assert findings.problems == ()
    assert "checked against version 0.32.0" in findings.warnings[0]


def test_an_unknown_context_is_a_warning_unless_the_user_brings_a_workload(
    make_spec: MakeSpec, installation: Installation
) -> None:
    # Given
    engine = {"profile": "vllm-cuda"}
    own = {"benchmark": {"workloadRef": {"name": "wl"}}}
    # Then
    assert "scaled to 1024 tokens" in check("chat", make_spec(engine=engine), installation).warnings[0]
    assert check("chat", make_spec(engine=engine, rollout=own), installation) == Findings()


def test_a_profile_with_a_bad_flag_is_named(make_spec: MakeSpec, installation: Installation) -> None:
    profile = installation.profile(None).model_copy(update={"args": ("--max-num-seq=1",)})
    broken = installation.model_copy(update={"profiles": {"vllm-cpu": profile}})
    assert only(check("chat", make_spec(), broken)).startswith("profile vllm-cpu.args[0]: ")


def test_everything_that_is_wrong_is_told_at_once(make_spec: MakeSpec, installation: Installation) -> None:
    # Given
    spec = make_spec(
        engine={"args": ["--prot=1"], "template": {"spec": {"hostPID": True}}},
        rollout={"strategy": "Shadow", "benchmark": {"budget": {"requests": 100}}},
    )
    # When
    findings = check("s" * 40, spec, installation)
    # Then
    fields = [problem.split(":")[0] for problem in findings.problems]
    assert fields == [
        "metadata.name",
        "spec.engine.template.spec.hostPID",
        "spec.rollout.strategy",
        "spec.rollout.benchmark.budget.requests",
        "spec.engine.args[0]",
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"model": {"uri": "hf://a/b"}},
        {"model": {"uri": "pvc://claim"}},
        {"engine": {"profile": "vllm-cuda", "quantization": "fp8"}},
        {"engine": {"template": {"spec": {"volumes": [{"name": "x", "emptyDir": {}}]}}}},
    ],
)
def test_a_spec_without_problems_can_be_rendered(
    fields: dict[str, Any], make_spec: MakeSpec, installation: Installation
) -> None:
    spec = make_spec(**fields)
    assert check("chat", spec, installation).problems == ()
    assert render("chat", spec, installation, Pins(), None).data["template"]
