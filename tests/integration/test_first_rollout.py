"""The first revision serves at once, and its Baseline is frozen beside it."""

import base64
import hashlib

import pytest
from harness.api import ApiError
from harness.behaviour import JobEnd, Start, pods
from harness.dsl import BASE, FASTER, MODEL, Scenario, is_ready

FREEZE_SLOTS = 10


def test_three_lines_become_a_ready_service_with_a_frozen_baseline(s: Scenario) -> None:
    """R-016: the Baseline is a snapshot of a controlled measurement, with the digest of every sample."""
    # Given
    s.given_operator()

    # When
    s.when_spec({"model": {"uri": MODEL}})

    # Then
    s.then_condition("Ready", "True", "Serving").then_baseline().then_condition("RolloutComplete", "True")
    baseline = s.baseline()
    assert baseline is not None
    spec = baseline["spec"]
    assert (spec["calibration"], spec["samples"]["slots"]) == ("Measured", FREEZE_SLOTS)
    assert spec["samples"]["sha256"] == [_stored_digest(s, number) for number in range(FREEZE_SLOTS)]
    assert {q["percentile"] for q in spec["quantiles"]} >= {"50", "90", "99"}
    assert [pod for pod in s.users_pods() if is_ready(pod)]
    s.then("the A/A pair is gone", lambda s: not s.pods(role="aa-a") and not s.pods(role="aa-b"))
    assert s.service["status"]["address"] == f"http://{s.name}.{s.namespace}.svc"
    assert s.service["status"]["observedGeneration"] == s.service["metadata"]["generation"]


def _stored_digest(s: Scenario, number: int) -> str:
    baseline = s.baseline()
    assert baseline is not None
    name = f"{baseline['spec']['samples']['benchmark']}-{number}"
    stored = s.api.get("ConfigMap", s.namespace, name)
    assert stored is not None and stored["immutable"]
    return hashlib.sha256(base64.b64decode(stored["binaryData"]["slot.arrow"])).hexdigest()


def test_a_baseline_never_changes(s: Scenario) -> None:
    """R-016: the snapshot is immutable for everybody."""
    # Given
    s.given_stable()
    baseline = s.baseline()
    assert baseline is not None

    # When
    with pytest.raises(ApiError) as refused:
        s.api.patch("Baseline", s.namespace, baseline["metadata"]["name"], {"spec": {"revision": "another"}})

    # Then
    assert refused.value.code == 422
    assert "must stay as it was created" in refused.value.message


def test_a_change_waits_for_the_baseline(s: Scenario) -> None:
    """R-017: no rollout starts without a Baseline; it goes on by itself when there is one."""
    # Given
    s.given_speeds().given_short_patience().given_jobs(pods(role="aa-a"), end=JobEnd.PENDING, times=1)
    s.given_operator().when_applied(BASE).then_condition("Ready", "True")

    # When
    s.when_applied(FASTER)

    # Then
    s.then_condition("RolloutComplete", "False", "BaselineMissing", "of 10 slots")
    assert not s.pods(role="twin")
    s.then_state("Kept").then("users are on the change", lambda s: s.serves(FASTER))


def test_a_deleted_baseline_is_never_a_pass(s: Scenario) -> None:
    """R-020: a Baseline that is gone and can't be frozen again holds the change; users stay where they are."""
    # Given
    s.given_stable()
    baseline, users = s.baseline(), s.users_service()
    assert baseline is not None and users is not None
    s.given_jobs(pods(role="aa-a"), end=JobEnd.EVICTED)

    # When
    s.api.delete("Baseline", s.namespace, baseline["metadata"]["name"])
    s.when_applied(FASTER)

    # Then
    s.then_state("Held", "BaselineUnavailable").then_condition("RolloutComplete", "False", "BaselineUnavailable")
    s.then_condition("Ready", "True")
    assert not s.benchmarks("Canary")
    assert s.users_service() == users


def test_the_first_revision_that_fails_is_told_and_replaced_at_once(s: Scenario) -> None:
    """Nothing serves yet: Ready=False with the pod's own reason, nothing is remembered, a new spec is tried at once."""
    # Given
    message = 'Back-off pulling image "local/typo"'
    s.given_engine(pods(flag="--max-num-seqs=3"), start=Start.PULL_ERROR, message=message).given_operator()
    s.when_applied("--max-num-seqs=3").then_condition("Ready", "False", "ImagePullBackOff", "local/typo")

    # When
    s.when_applied(BASE)

    # Then
    s.then_condition("Ready", "True")
    assert s.serves(BASE)
    assert not s.status.get("remembered")
    s.then("the failed pods are gone", lambda s: all(pods(flag=BASE)(pod) for pod in s.pods(role="serving")))
