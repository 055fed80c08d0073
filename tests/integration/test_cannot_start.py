"""Changes that can't start, or die: rejected with the pod's own words, users unharmed."""

import pytest
from harness.behaviour import Mishap, Start, pods
from harness.dsl import Scenario, uids

BROKEN = "--max-num-seqs=7"


@pytest.mark.parametrize(
    ("start", "words", "reason"),
    [
        (Start.PULL_ERROR, 'Back-off pulling image "local/typo:1"', "ImagePullBackOff"),
        (Start.CRASH_LOOP, "ValueError: no such model /models/typo", "CrashLoopBackOff"),
        (Start.OUT_OF_MEMORY, "killed by the kernel", "OOMKilled"),
    ],
)
def test_a_failed_start_is_rejected_with_the_pods_own_reason(
    s: Scenario, start: Start, words: str, reason: str
) -> None:
    # Given
    s.given_stable().given_engine(pods(flag=BROKEN), start=start, message=words)
    served = uids(s.users_pods())

    # When
    s.when_applied(BROKEN)

    # Then
    s.then_condition("RolloutComplete", "False", "Rejected", words).then_state("Rejected", reason)
    s.then_condition("Ready", "True")
    assert uids(s.users_pods()) == served
    s.then("its pods are gone", lambda s: uids(s.pods()) == served)


def test_a_pod_that_never_becomes_ready_is_rejected_by_the_deadline(s: Scenario) -> None:
    # Given
    s.given_short_deadline().given_stable().given_engine(pods(flag=BROKEN), start=Start.NEVER_READY)

    # When
    s.when_applied(BROKEN)

    # Then
    s.then_state("Rejected", "ProgressDeadlineExceeded", "not Ready within").then_condition("Ready", "True")


def test_a_canary_that_dies_on_its_first_request_is_rejected(s: Scenario) -> None:
    """It passes readiness and exits when it is used: a dead canary is a gross alarm, not a disruption."""
    # Given
    s.given_stable().given_engine(pods(flag=BROKEN), mishap=Mishap.DIES, message="CUDA error: illegal access")
    served = uids(s.users_pods())

    # When
    s.when_applied(BROKEN)

    # Then
    s.then_state("Rejected", message="illegal access").then_condition("Ready", "True")
    assert s.status["verdict"] == "ROLLBACK"
    assert uids(s.users_pods()) == served


def test_an_invalid_spec_gets_a_clear_answer_and_nothing_is_lost(s: Scenario) -> None:
    """Bad input: a misspelt flag is told with the nearest one; the service goes on as it was."""
    # Given
    s.given_stable()
    served = uids(s.users_pods())

    # When
    s.when_applied("--max-num-seq=4")

    # Then
    s.then_condition("Stalled", "True", "InvalidSpec", "--max-num-seqs").then_condition("Ready", "True")
    assert "spec.engine.args" in s.condition("Stalled")["message"]
    assert uids(s.pods()) == served


def test_a_managed_flag_is_refused(s: Scenario) -> None:
    """Bad input: a flag that Tailguard sets itself, on the first spec already."""
    # Given
    s.given_operator()

    # When
    s.when_applied("--port=9000")

    # Then
    s.then_condition("Stalled", "True", "InvalidSpec", "--port").then_condition("Ready", "False", "InvalidSpec")
    assert not s.pods()


def test_a_broken_object_does_not_stop_the_others(s: Scenario) -> None:
    # Given
    s.given_operator()
    broken = {"metadata": {"name": "broken"}, "spec": {"model": {"uri": "file:///m"}, "engine": {"args": ["--nope"]}}}
    s.api.create("InferenceService", s.namespace, broken)

    # When
    s.when_applied("--max-num-seqs=8")

    # Then
    s.then_condition("Ready", "True")
