"""Several operators: one writes, and one that was away for too long does no harm when it comes back."""

from harness.dsl import BASE, FASTER, Scenario, uids


def _holder(s: Scenario) -> str:
    leases = s.api.find("Lease", s.namespace)
    return str(leases[0]["spec"]["holderIdentity"]) if leases else ""


def test_of_two_operators_started_at_once_one_works_and_the_other_takes_over(s: Scenario) -> None:
    # Given
    other = s.another_operator()
    s.given_stable()
    other.start()
    s.then_never("both write", lambda s: _holder(s) != s.operator.identity, seconds=2)

    # When
    s.operator.kill()
    s.when_applied(FASTER)

    # Then
    s.then("the other one leads", lambda s: _holder(s) == other.identity)
    s.then_state("Kept").then("users are on the change", lambda s: s.serves(FASTER))


def test_an_operator_that_ends_in_order_hands_the_lease_over_at_once(s: Scenario) -> None:
    # Given
    s.given_stable()
    s.another_operator().start()

    # When
    s.operator.stop()

    # Then
    s.then("the other one leads", lambda s: _holder(s) == "operator-b", seconds=2.5)


def test_a_leader_paused_before_the_switch_cannot_undo_the_way_back(s: Scenario) -> None:
    """rollout.md 6: paused between check and write; the new one moves users and back; the old one wakes: they stay."""
    # Given
    s.given_speeds().given_operator().when_applied(BASE).then_baseline()
    s.operator.kill()
    s.operator.start(stop_before=f"apply Service {s.name}")
    old = s.route()
    s.when_applied(FASTER)
    s.operator.wait_until_stopped(seconds=40)

    # When
    s.another_operator().start()
    s.then_state("Kept").when_applied(BASE).then_stable(BASE)
    served, users = uids(s.users_pods()), s.users_service()
    s.operator.wake()

    # Then
    s.operator.wait_until_ended(seconds=15)
    assert s.route() == old
    assert (uids(s.users_pods()), s.users_service()) == (served, users)
    assert '"failed": "apply Service' in s.operator.journal.read_text()


def test_a_leader_paused_before_removing_previous_cannot_remove_it_after_the_way_back(s: Scenario) -> None:
    """rollout.md 6: the window ends; the new leader goes back to previous; the old one wakes: pods live."""
    # Given
    s.given_stable(keepPrevious="5s")
    previous, served = s.route(), uids(s.users_pods())
    s.when_applied(FASTER, keepPrevious="5s").then_state("Kept")
    s.operator.kill()
    s.operator.start(stop_before=f"apply_status InferenceService {s.name}")
    s.operator.wait_until_stopped(seconds=20)
    assert s.rollout["state"] == "Kept"

    # When
    s.when_applied(BASE)
    s.another_operator().start()
    s.then_stable(BASE).then_event("BackToPrevious")
    s.operator.wake()

    # Then
    s.operator.wait_until_ended(seconds=15)
    s.then_never("the pods go", lambda s: uids(s.users_pods()) != served, seconds=2)
    assert s.route() == previous
    assert '"failed": "apply_status' in s.operator.journal.read_text()


def test_a_leader_paused_before_its_delete_does_not_hit_pods_that_serve_by_then(s: Scenario) -> None:
    """rollout.md 6: a later pool of the same revision has another name, and deletes carry the uid."""
    # Given
    s.given_stable(keepPrevious="1s")
    previous = s.route()
    s.operator.kill()
    s.operator.start(stop_before=f"delete Deployment {s.name}-{previous}-serving")
    s.when_applied(FASTER, keepPrevious="1s")
    s.operator.wait_until_stopped(seconds=40)

    # When
    s.kubelet.script.engines.clear()
    s.another_operator().start()
    s.when_applied(BASE, keepPrevious="1s").then_stable(BASE)
    served = uids(s.users_pods())
    s.operator.wake()

    # Then
    s.operator.wait_until_ended(seconds=15)
    s.then_never("the pods go", lambda s: uids(s.users_pods()) != served, seconds=2)
    assert s.route() == previous
