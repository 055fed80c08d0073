"""A change that harms the tail: users never leave the stable revision, and everyone can see why."""

import re

from harness.behaviour import pods
from harness.dsl import BASE, FASTER, SLIGHTLY_SLOWER, SLOWER, Scenario, uids


def test_gross_drift_is_rejected_at_once(s: Scenario) -> None:
    """R-022: drift against the re-measured twin is told with both numbers; users' Service is never touched."""
    # Given
    s.given_stable()
    users, served = s.users_service(), uids(s.users_pods())

    # When
    s.when_applied(SLOWER)

    # Then
    s.then_state("Rejected", "GrossDrift").then_condition("RolloutComplete", "False", "Rejected")
    s.then_condition("Ready", "True").then_event("Rejected")
    assert s.status["verdict"] == "ROLLBACK"
    assert not s.benchmarks("Confirm")
    assert s.users_service() == users and uids(s.users_pods()) == served
    assert [row["specHash"] for row in s.status["remembered"]] == [s.rollout["specHash"]]
    s.then("canary and twin are gone", lambda s: not s.pods(role="twin") and uids(s.pods()) == served)


def test_the_message_says_what_drifted_by_how_much(s: Scenario) -> None:
    """R-022: one sentence with the drift, its interval and the number of requests."""
    # Given
    s.given_stable()

    # When
    s.when_applied(SLOWER).then_state("Rejected")

    # Then
    message = s.condition("RolloutComplete")["message"]
    assert re.search(r"(TTFT|TPOT|Latency|latency)", message), message
    assert re.search(r"\d+(\.\d+)? ?%", message), message
    assert re.search(r"[\d,]+ requests", message), message


def test_a_suspicion_is_confirmed_on_a_fresh_pair_before_it_rejects(s: Scenario) -> None:
    """R-022: a drift near the tolerance is measured again on two new pods; only the second alarm rejects."""
    # Given
    s.given_stable()
    users = s.users_service()

    # When
    s.when_applied(SLIGHTLY_SLOWER)

    # Then
    s.then_state("Confirm").then_event("Suspected")
    suspect = s.rollout["suspectedBy"]
    s.then_state("Rejected", "Drift").then_condition("Ready", "True")
    assert [each["spec"]["confirms"] for each in s.benchmarks("Confirm")] == [suspect]
    assert s.users_service() == users
    s.then("all pods of the rollout are gone", lambda s: len(s.pods()) == 1)


def test_a_suspicion_that_a_fresh_pair_clears_promotes(s: Scenario) -> None:
    """The first pair of pods was unlucky: the confirmation says PROMOTE, and users move to pods with role serving."""
    # Given
    s.given_stable().given_engine(pods(flag=SLIGHTLY_SLOWER, role="confirm-canary"), slowdown=1.0)

    # When
    s.when_applied(SLIGHTLY_SLOWER)

    # Then
    s.then_event("Suspected").then_state("Kept").then_event("TrafficMoved")
    assert s.rollout["confirmed"]
    assert {pod["metadata"]["labels"]["tailguard.dev/role"] for pod in s.users_pods()} == {"serving"}
    assert s.serves(SLIGHTLY_SLOWER)


def test_a_rejected_spec_is_not_tried_again_by_itself(s: Scenario) -> None:
    """The hash is remembered: going away and coming back starts nothing."""
    # Given
    s.given_stable().when_applied(SLOWER).then_state("Rejected")
    s.when_applied(BASE).then_stable(BASE)
    measured = uids(s.benchmarks("Canary"))

    # When
    s.when_applied(SLOWER)

    # Then
    s.then_state("Rejected", "GrossDrift", "not tried again").then_condition("Ready", "True")
    s.then_never("a pod starts", lambda s: len(s.pods()) > 1, seconds=2)
    assert uids(s.benchmarks("Canary")) == measured


def test_retry_tries_again_once_for_each_token(s: Scenario) -> None:
    """`tailguard.dev/retry`: the hash is forgotten and measured again; a token that stays does not act twice."""
    # Given
    s.given_stable().when_applied(SLOWER).then_state("Rejected")
    first = uids(s.benchmarks("Canary"))

    # When
    s.when_annotated("retry", "one")

    # Then
    s.then("it is measured again", lambda s: uids(s.benchmarks("Canary")) > first)
    s.then_state("Rejected", "GrossDrift")
    again = uids(s.benchmarks("Canary"))
    assert s.status["handled"]["retry"] == "one"
    s.then_never("a third measurement", lambda s: uids(s.benchmarks("Canary")) != again, seconds=2)


def test_both_arms_get_the_same_requests_and_only_the_declared_change_differs(s: Scenario) -> None:
    """R-175, R-178, R-093: one seed and one plan for both arms, whose engines differ in the flag alone."""
    # Given
    s.given_stable().given_measuring_paused()

    # When
    s.when_applied(FASTER).then_state("Benchmark")

    # Then
    s.then("both arms run", lambda s: s.pods(role="twin") and s.pods(revision=s.rollout["revision"]))
    (twin,) = s.pods(role="twin")
    (canary,) = s.pods(role="serving", revision=s.rollout["revision"])
    flags = [set(pod["spec"]["containers"][0]["args"]) for pod in (canary, twin)]
    assert flags[0] ^ flags[1] == {BASE, FASTER}
    (measured,) = s.benchmarks("Canary")
    assert "seed" in measured["spec"]
    assert measured["spec"]["environment"]["kernel"]
