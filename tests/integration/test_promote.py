"""A change that proves itself: users move in one step, and the way back is kept for a while."""

from harness.dsl import BASE, FASTER, SLOWER, Scenario, uids


def test_users_move_in_one_step_to_pods_that_do_not_restart(s: Scenario) -> None:
    """PROMOTE: the pods that were measured serve; the Service changes once, from the old revision to the new one."""
    # Given
    s.given_stable().given_measuring_paused()
    old = s.route()
    users = s.users_service()
    assert users is not None
    s.when_applied(FASTER).then_state("Benchmark")
    measured = uids(s.pods(role="serving", revision=s.rollout["revision"]))
    assert len(measured) == 1

    # When
    s.when_measuring_goes_on()

    # Then
    s.then_state("Kept").then_condition("RolloutComplete", "True").then_event("TrafficMoved")
    new = s.route()
    assert s.routes_since(users["metadata"]["resourceVersion"]) == [new] != [old]
    assert uids(s.users_pods()) == measured
    assert s.status["verdict"] == "PROMOTE"
    assert s.status["stable"]["revision"] == new and s.status["previous"]["revision"] == old


def test_connections_to_the_pods_that_users_left_are_closed(s: Scenario) -> None:
    """rollout.md 7: a selector moves new connections only, so open ones are asked to end."""
    # Given
    s.given_stable()
    (left,) = s.users_pods()

    # When
    s.when_applied(FASTER).then_state("Kept")

    # Then
    s.then("the old pod was asked to close", lambda s: s.kubelet.ports.closed[left["status"]["podIP"]] >= 1)
    (new,) = s.users_pods()
    assert s.kubelet.ports.closed[new["status"]["podIP"]] == 0


def test_previous_is_kept_and_then_removed_with_a_new_baseline_in_force(s: Scenario) -> None:
    """After `keepPrevious` the old pods go; the Baseline of the promotion holds the canary's own samples."""
    # Given
    s.given_stable(keepPrevious="4s")
    before, old = s.baseline(), s.route()
    assert before is not None

    # When
    s.when_applied(FASTER, keepPrevious="4s").then_state("Kept")
    assert s.pods(revision=old)

    # Then
    s.then_stable(FASTER).then("the old pods are gone", lambda s: not s.pods(revision=old))
    s.then_baseline()
    after = s.baseline()
    assert after is not None
    assert after["spec"]["calibration"] == "Promoted" and after["spec"]["revision"] == s.route()
    assert len(s.benchmarks("Baseline")) == 1


def test_back_to_previous_is_instant_and_restarts_nothing(s: Scenario) -> None:
    """Kept: the old spec again moves users back at once, without a measurement."""
    # Given
    s.given_stable()
    served = uids(s.users_pods())
    s.when_applied(FASTER).then_state("Kept")
    measured = uids(s.benchmarks("Canary"))

    # When
    s.when_applied(BASE)

    # Then
    s.then("users are back", lambda s: uids(s.users_pods()) == served, seconds=5)
    s.then_stable(BASE).then_event("BackToPrevious")
    assert uids(s.benchmarks("Canary")) == measured
    s.then("the other pods are gone", lambda s: uids(s.pods()) == served)


def test_another_change_waits_until_the_window_ends(s: Scenario) -> None:
    """Kept: a third spec is queued with reason GuardRunning, until `promote` ends the window."""
    # Given
    s.given_stable().when_applied(FASTER).then_state("Kept")

    # When
    s.when_applied(SLOWER)

    # Then
    s.then_state("Kept", "GuardRunning")
    assert len(s.benchmarks("Canary")) == 1

    # When
    s.when_annotated("promote", "now")

    # Then
    s.then("the next change is measured", lambda s: len(s.benchmarks("Canary")) == 2).then_state("Rejected")
    assert s.serves(FASTER)
