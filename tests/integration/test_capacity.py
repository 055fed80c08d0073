"""No room for canary and twin: a clear condition, not a hang."""

from harness.dsl import BASE, FASTER, Scenario, uids

ROOM_FOR_TWO, ROOM_FOR_MANY = "2560Mi", "64Gi"  # an engine asks for 1Gi


def test_no_room_for_canary_and_twin_is_held_with_the_number_needed(s: Scenario) -> None:
    """The A/A pair had no room either: the Baseline comes from one pod and says so (rollout.md 5)."""
    # Given
    s.kubelet.resize_node(ROOM_FOR_TWO)
    s.given_stable()
    baseline = s.baseline()
    assert baseline is not None and baseline["spec"]["calibration"] == "Missing"
    served = uids(s.users_pods())
    s.then("the freeze has ended", lambda s: uids(s.pods()) == served)

    # When
    s.when_applied(FASTER)

    # Then
    s.then_condition("RolloutComplete", "False", "InsufficientCapacity", "2 more engine pods").then_state("Held")
    assert "memory" in s.condition("RolloutComplete")["message"]
    s.then_condition("Ready", "True")
    assert uids(s.pods()) == served


def test_a_held_change_goes_on_with_retry_when_there_is_room(s: Scenario) -> None:
    # Given
    s.kubelet.resize_node(ROOM_FOR_TWO)
    s.given_stable().when_applied(FASTER).then_state("Held", "InsufficientCapacity")

    # When
    s.kubelet.resize_node(ROOM_FOR_MANY)
    s.when_annotated("retry", "more-room")

    # Then
    s.then_state("Kept").then("users are on the change", lambda s: s.serves(FASTER))


def test_no_room_for_all_replicas_at_the_switch_is_held_and_users_stay(s: Scenario) -> None:
    """Without a gateway 2N pods must fit before users move."""
    # Given
    s.given_stable(replicas=3).given_measuring_paused()
    served = uids(s.users_pods())
    s.when_applied(FASTER, replicas=3).then_state("Benchmark")
    s.kubelet.resize_node("5632Mi")  # three stable ones, canary and twin

    # When
    s.when_measuring_goes_on()

    # Then
    s.then_state("Held", "InsufficientCapacity").then_condition("Ready", "True")
    assert uids(s.users_pods()) == served
    assert s.serves(BASE)
