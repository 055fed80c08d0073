"""State table, rows of Switch and Kept: users move in one step, and the previous revision is a way back."""

from dataclasses import replace

import pytest
from plan_sim import FROZEN, PROMOTE, Sim, benchmark_runs, held, kept, measuring, only, ready, stable

from tailguard_operator.plan import decide
from tailguard_operator.plan.world import Role


def test_users_move_when_all_pods_are_ready_and_in_one_step() -> None:
    # Given a proved change of a service with three replicas
    sim = measuring(stable(Sim().spec_is("aaaa", replicas=3)))
    canary = sim.status.rollout.canary_pod
    sim.behaviour = lambda key: "ready" if key.revision == "raaaa" or len(sim.pods) < 99 else "slow"
    sim.slots(PROMOTE)
    # When the new revision has as many Ready pods
    sim.run(lambda s: s.state == "Kept")
    # Then the Service moved once, to three Ready pods, and the measured pod is one of them
    assert (sim.routed, sim.ready_when_routed[-1]) == (["raaaa", "rbbbb"], 3)
    assert sim.pods[canary].ready
    # And the previous pods stay, and are asked to end their connections
    assert {k.revision: p.replicas for k, p in sim.pools.items()} == {"raaaa": 3, "rbbbb": 3}
    sim.step()
    assert len(sim.last.close_connections) == 3


def test_the_baseline_of_the_promotion_becomes_current_at_the_windows_end() -> None:
    # Given a promoted change in its window
    sim = kept(measuring(stable()))
    old = sim.status.baseline.name
    promoted = sim.status.rollout.baseline
    # Then its Baseline is written, and stable's is still in force
    assert promoted in sim.baselines and sim.status.baseline.name == old
    # When the window is over
    sim.run(lambda s: s.state == "Stable", seconds=60)
    sim.step()
    # Then it is the one in force, nothing was run again, and the old one and its pods are gone
    assert sim.status.baseline.name == promoted
    assert sim.baselines[promoted].spec["calibration"] == "Promoted"
    assert list(sim.baselines) == [promoted]
    assert {k.revision for k in sim.pools} == {"rbbbb"}
    assert (sim.status.freeze, sim.status.previous) == (None, None)


def test_promote_ends_the_window_now() -> None:
    # Given a promoted change in its window
    sim = kept(measuring(stable()))
    # When a person says promote
    sim.command("promote").step()
    # Then it is over
    assert (sim.state, sim.status.previous) == ("Stable", None)


def test_the_previous_spec_brings_users_back_at_once() -> None:
    # Given a promoted change in its window
    sim = kept(measuring(stable()))
    # When the spec is previous's hash again
    sim.lease_transitions = 4
    sim.spec_is("aaaa").step()
    # Then users are back in that pass, marked against older leaders, and the other pods go after
    assert sim.routed == ["raaaa", "rbbbb", "raaaa"]
    assert (sim.state, sim.status.stable.revision, sim.status.stable.moved_by) == ("Stable", "raaaa", 4)
    sim.step()
    assert {k.revision for k in sim.pools} == {"raaaa"}
    assert sim.condition("RolloutComplete").status == "True"
    # And the Baseline that was frozen for it is still in force
    assert sim.baselines[sim.status.baseline.name].revision == "raaaa"


def test_users_do_not_go_back_to_pods_that_are_not_ready() -> None:
    # Given previous pods that crash
    sim = kept(measuring(stable()))
    sim.behaviour = only("exit", "raaaa")
    sim.kubelet()
    # When the spec is previous's hash again
    sim.spec_is("aaaa").step()
    # Then users stay, and it says why
    assert sim.routed[-1] == "rbbbb"
    assert sim.status.rollout.reason == "PreviousNotReady"
    # When they are Ready, users go back
    sim.behaviour = ready
    sim.run(lambda s: s.routed[-1] == "raaaa")


@pytest.mark.parametrize(
    ("kind", "state", "reason"),
    [
        ("pull", "Rejected", "ImagePullBackOff"),
        ("slow", "Held", "ProgressDeadlineExceeded"),
        ("full", "Held", "InsufficientCapacity"),
        ("refused", "Held", "InsufficientCapacity"),
        ("moved", "Held", "ImageMoved"),
    ],
)
def test_a_new_pod_that_does_not_get_ready_leaves_users_where_they_are(kind: str, state: str, reason: str) -> None:
    # Given a proved change of a service with two replicas
    sim = measuring(stable(Sim().spec_is("aaaa", replicas=2)))
    canary = sim.status.rollout.canary_pod
    sim.slots(PROMOTE)
    # When the second pod does not get Ready
    healthy = sim._behave

    def behave(pod):
        return healthy(pod) if pod.name == canary or kind != "refused" else pod

    sim._behave = behave
    sim.behaviour = lambda key: kind if key.revision == "rbbbb" and len(_of(sim, "rbbbb")) != 1 else "ready"
    if kind == "refused":
        sim.behaviour = only("refused", "rbbbb")
    sim.run(lambda s: s.state == state, seconds=20)
    # Then users stay, and the reason is told
    assert sim.status.rollout.reason == reason
    assert sim.routed == ["raaaa"]
    assert sim.condition("Ready").status == "True"


def test_no_room_for_twice_the_pods_is_held_with_the_number() -> None:
    # Given a proved change of a service with four replicas, and room for one more engine
    sim = measuring(stable(Sim().spec_is("aaaa", replicas=4)))
    sim.room = 1
    # When it is to be switched to
    sim.slots(PROMOTE)
    sim.run(lambda s: s.state == "Held")
    # Then it is held before anything is scaled, with the numbers (the twin's room counts)
    assert sim.status.rollout.reason == "InsufficientCapacity"
    assert "needs 3 more engine pods" in sim.status.rollout.message
    assert "room for 2" in sim.status.rollout.message
    # When there is room and a person promotes, the proof still counts
    sim.room = 9
    sim.command("promote").run(lambda s: s.state == "Kept")
    assert sim.status.rollout.baseline in sim.baselines


def test_a_promotion_by_hand_says_by_whom_and_against_what() -> None:
    # Given a held change
    sim = held(stable())
    # When ann promotes it
    sim.command("promote", "ann-20261201").run(lambda s: s.state == "Kept")
    # Then the verdict is Overridden with her name, and no Baseline is claimed for it
    assert sim.status.verdict == "Overridden"
    event = next(e for e in sim.told if e.reason == "Promoted")
    assert "ann-20261201" in event.message and "twin" in event.message
    assert sim.status.rollout.baseline is None
    # And at the window's end one is frozen
    sim.run(lambda s: s.state == "Stable", seconds=60)
    sim.run(lambda s: s.status.freeze is not None)


def test_a_route_decided_before_the_pods_were_lost_is_taken_back() -> None:
    # Given a proved change whose route is decided, and an operator that dies before the Service is written
    sim = measuring(stable())
    sim.slots(PROMOTE)
    sim.run(lambda s: s.state == "Switch")
    sim.apply(decide(sim.world(), sim.now), upto=1)
    assert sim.status.route == "rbbbb" and sim.service.revision == "raaaa"
    # When the new pods have crashed by the time that another one starts
    sim.behaviour = only("exit", "rbbbb")
    sim.kubelet()
    for _ in range(5):
        sim.step()
    # Then users are not moved to dead pods
    assert sim.routed == ["raaaa"]
    # When they are Ready again, they are
    sim.behaviour = ready
    sim.run(lambda s: s.state == "Kept")
    assert sim.ready_when_routed[-1] == 1


def test_the_baseline_is_the_one_that_is_named_though_more_slots_were_stored_after_the_verdict() -> None:
    # Given a promotion whose Baseline was not written when the operator died
    sim = measuring(stable())
    sim.slots(PROMOTE)
    sim.apply(decide(sim.world(), sim.now), upto=1)
    # When the Job has stored one more slot
    sim.now = sim.now.replace(second=sim.now.second + 5)
    sim.slots(replace(PROMOTE, slots=21, requests=2100))
    sim.run(lambda s: s.state == "Kept")
    # Then status names the Baseline that is there
    assert sim.status.rollout.baseline in sim.baselines


def test_scaling_in_the_middle_of_a_switch_is_followed() -> None:
    # Given a proved change
    sim = measuring(stable())
    sim.slots(PROMOTE)
    sim.step()
    # When the service is scaled to 3 before users have moved
    sim.spec_is("bbbb", replicas=3).run(lambda s: s.state == "Kept")
    # Then they move to three Ready pods
    assert sim.ready_when_routed[-1] == 3


def test_a_revision_comes_and_goes_and_comes_back_as_a_change_like_any_other() -> None:
    # Given a service that moved from one revision to the next
    sim = kept(measuring(stable()))
    sim.run(lambda s: s.state == "Stable", seconds=60)
    sim.step()
    # When the first one is applied again after its window
    sim.spec_is("aaaa").run(benchmark_runs)
    # Then it has to prove itself against the second
    spec = sim.benchmarks[sim.status.rollout.benchmark].spec
    assert (spec["arms"]["canary"]["revision"], spec["arms"]["twin"]["revision"]) == ("raaaa", "rbbbb")


def test_pair_numbers_that_come_round_never_meet_pods_that_exist() -> None:
    # Given a service whose pairs are about to come round to the slot of its stable pool
    sim = kept(measuring(stable()))
    sim.run(lambda s: s.state == "Stable", seconds=60)
    slot = sim.status.stable.slot
    sim.status = sim.status.model_copy(update={"pairs": slot + 99})
    stable_pool = next(iter(sim.pools))
    # When a change is measured under the same number
    measuring(sim, "cccc")
    # Then its pools are others than stable's
    assert sim.status.rollout.pair == slot
    assert stable_pool in sim.pools and len({*sim.pools}) == 3
    sim.slots(replace(PROMOTE, frozen=FROZEN))
    sim.run(lambda s: s.state == "Kept")
    assert {k.revision for k in sim.pools} == {"rbbbb", "rcccc"}
    assert Role.TWIN not in {k.role for k in sim.pools}


def _of(sim: Sim, revision: str) -> list[str]:
    return [n for n, p in sim.pods.items() if p.pool.revision == revision]


def test_a_way_back_decided_before_its_pods_were_lost_waits_for_them() -> None:
    # Given a way back whose status is written, and an operator that dies before the Service is
    sim = kept(measuring(stable()))
    sim.spec_is("aaaa")
    sim.apply(decide(sim.world(), sim.now), upto=1)
    assert sim.status.stable.revision == "raaaa" and sim.service.revision == "rbbbb"
    # When the previous pods have crashed by the time that another one starts
    sim.behaviour = only("exit", "raaaa")
    sim.kubelet()
    for _ in range(5):
        sim.step()
    # Then users stay on the Ready pods that they have, which are kept, and the operator looks again
    assert sim.routed == ["raaaa", "rbbbb"]
    assert {k.revision for k in sim.pools} == {"raaaa", "rbbbb"}
    assert sim.last.requeue_after is not None
    # When the previous pods are Ready, users go back
    sim.behaviour = ready
    sim.run(lambda s: s.routed[-1] == "raaaa", limit=3)
    sim.step()
    assert {k.revision for k in sim.pools} == {"raaaa"}
