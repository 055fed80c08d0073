"""Bad input gets a clear answer: the field, its value, what is allowed, what to do. No engine is ever started."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from e2e.demo.kube import KubeError
from e2e.tests.scenario import TINY, Scenario

pytestmark = [pytest.mark.e2e, pytest.mark.smoke]

URI_FORMS = "must be hf://ORG/NAME, pvc://CLAIM/PATH or file:///PATH"


def _objective(percentile: str) -> dict[str, Any]:
    return {"slos": [{"name": "all", "objectives": [{"metric": "TTFT", "percentile": percentile, "max": "1s"}]}]}


REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "empty uri": ({"model": ""}, ("spec.model.uri", 'found ""', URI_FORMS, "write where the model is")),
    "malformed uri": ({"model": "hf:/Qwen"}, ("spec.model.uri", 'found "hf:/Qwen"', URI_FORMS)),
    "tolerance 0": ({"rollout": {"tolerance": 0}}, ("spec.rollout.tolerance", "0", "greater than or equal to 1")),
    "tolerance below 0": ({"rollout": {"tolerance": -8}}, ("spec.rollout.tolerance", "-8", "greater than or equal to")),
    "percentile 100": (
        _objective("100"),
        ("spec.slos[0].objectives[0].percentile", '"100"', 'from "50" to "99.9"', 'use "99" or "99.9"'),
    ),
    "steps out of order": (
        {"rollout": {"steps": [{"weight": 25}, {"weight": 1}]}},
        ("spec.rollout.steps", "ascending order of weight", "sort them"),
    ),
    "negative replicas": ({"replicas": -1}, ("spec.replicas", "-1", "greater than or equal to 0")),
    "misspelt field": ({"replica": 2}, ("spec.replica", "unknown field")),
}

STALLED: dict[str, tuple[str, tuple[str, ...]]] = {
    "misspelt-flag": (
        "--max-nun-seqs=8",
        ("spec.engine.args[0]", "'--max-nun-seqs'", "is not a flag", "flags of vLLM", "Did you mean --max-num-seqs?"),
    ),
    "managed-flag": ("--port=9000", ("spec.engine.args[0]", "'--port'", "is set by Tailguard", "port 8000")),
    "wrong-value": ("--max-num-seqs=many", ("spec.engine.args[0]", "'many'", "--max-num-seqs", "Correct the value")),
}


def test_bad_input_is_refused_by_the_api_server_with_the_field_and_what_is_allowed(s: Scenario) -> None:
    for case, (spec, parts) in REFUSED.items():
        # When a user applies it
        with pytest.raises(KubeError) as refusal:
            s.kube.apply(s.manifest(**spec))
        # Then the answer says what is wrong
        missing = [part for part in parts if part not in str(refusal.value)]
        assert not missing, f"{case}: {missing} not in: {refusal.value}"
    # And nothing was stored
    assert s.kube.list("inferenceservices") == []


def test_a_name_too_long_for_derived_names_is_refused(s: Scenario) -> None:
    # When
    with pytest.raises(KubeError) as refusal:
        replace(s, name="n" * 60).when_applied()
    # Then
    assert "metadata.name must have at most 36 characters" in str(refusal.value)
    assert "choose a shorter name" in str(refusal.value)


def test_bad_flags_stall_the_service_and_start_nothing(s: Scenario) -> None:
    # When
    services = {case: replace(s, name=case) for case in STALLED}
    for case, service in services.items():
        service.when_applied(engine={"args": [STALLED[case][0]]})
    # Then
    for case, service in services.items():
        service.then_condition("Stalled", "True", "InvalidSpec").then_condition("Ready", "False", "InvalidSpec")
        message = service.condition("Stalled")["message"]
        missing = [part for part in STALLED[case][1] if part not in message]
        assert not missing, f"{case}: {missing} not in: {message}"
    assert s.kube.list("deployments") == s.kube.list("controllerrevisions") == []


def test_a_foreign_service_of_the_same_name_is_never_taken_over(s: Scenario) -> None:
    """Two want the same child: the conflict is named, and whoever came first keeps it."""
    # Given
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "taken"},
        "spec": {"selector": {"app": "somebody-elses"}, "ports": [{"port": 80}]},
    }
    s.kube.apply(foreign)
    before = s.kube.get("service", "taken")
    # When
    service = replace(s, name="taken").when_applied()
    # Then
    service.then_condition("Stalled", "True")
    message = service.condition("Stalled")["message"]
    assert f"Service {s.namespace}/taken exists and belongs to" in message
    assert "delete it, or give the service another name" in message
    assert s.kube.get("service", "taken") == before
    assert service.pods() == []


def test_a_valid_spec_is_accepted_with_three_lines(s: Scenario) -> None:
    # When
    manifest = s.manifest() | {"spec": {"model": {"uri": TINY}}}
    checked = s.kube.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest))
    # Then
    assert "created (server dry run)" in checked


def test_every_field_that_a_user_meets_is_explained(s: Scenario) -> None:
    # Given
    expected = {
        "isvc": "every change has to prove its tail first",
        "isvc.spec.model.uri": "hf://ORG/NAME",
        "isvc.spec.engine.args": "Flags of the model server",
        "isvc.spec.rollout.tolerance": "How much worse a change may be",
        "isvc.spec.rollout.proof": "What PROMOTE has to prove",
        "isvc.status.rollout.state": "Where the change is",
        "baseline.spec": "DESCRIPTION",
        "benchmark.spec.arms": "DESCRIPTION",
    }
    for path, words in expected.items():
        # When
        text = " ".join(s.kube.kubectl("explain", path).split())
        # Then
        assert words in text and "<empty>" not in text, f"{path}: {text}"
