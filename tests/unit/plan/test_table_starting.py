"""State table, rows of Starting: the baseline, the room, the two arms, and a stable revision that is down."""

from dataclasses import replace

import pytest
from plan_sim import ALARM, FREEZING, Sim, benchmark_runs, confirming, measuring, only, ready, serving, stable

from tailguard_operator.plan.world import Role, Workload


def test_no_rollout_starts_without_a_baseline() -> None:
    """R-017: the frozen baseline is an entry gate; without one the change waits, reason BaselineMissing."""
    # Given a service whose Baseline is being frozen
    sim = serving()
    sim.run(lambda s: any(b.jobs for b in s.benchmarks.values()))
    # When a change is applied
    sim.spec_is("bbbb")
    sim.slots(replace(FREEZING, slots=4, frozen=None))
    for _ in range(4):
        sim.step()
    # Then it waits and tells how far the freeze is
    assert (sim.state, sim.status.rollout.reason) == ("Starting", "BaselineMissing")
    assert "freezing, 4 of 10 slots" in sim.status.rollout.message
    assert all(key.revision == "raaaa" for key in sim.pools)
    # When it is frozen
    sim.slots(FREEZING)
    # Then the change goes on, judged with its thresholds
    sim.run(benchmark_runs)
    assert sim.benchmarks[sim.status.rollout.benchmark].spec["judge"]["thresholdsMicroseconds"] == {
        "Latency/all": {"p90": 200_000, "p99": 250_000}
    }


@pytest.mark.parametrize("when", ["before", "pods are starting"])
def test_a_baseline_deleted_by_hand_is_an_error_and_never_a_pass(when: str) -> None:
    """R-020: a missing baseline is an error; here the change waits until it is frozen again."""
    # Given a stable service, or a change whose pods are starting
    sim = stable()
    if when != "before":
        sim.behaviour = only("slow", "rbbbb")
        sim.spec_is("bbbb").run(lambda s: s.status.rollout.pair is not None)
    # When somebody deletes the Baseline and the change could go on
    sim.baselines.clear()
    sim.behaviour = ready
    sim.spec_is("bbbb")
    # Then the change waits for a new freeze, and no canary is measured without one
    sim.run(lambda s: s.status.rollout.reason == "BaselineMissing")
    assert sim.status.rollout.benchmark is None
    sim.run(lambda s: s.status.freeze is not None and any(b.jobs and not b.finished for b in s.benchmarks.values()))
    sim.slots(FREEZING)
    sim.run(benchmark_runs)


def test_a_baseline_that_cannot_be_frozen_holds_the_change() -> None:
    """R-017: the freeze respects its budget of 20 slots."""
    # Given a change that waits for a freeze whose slots are void
    sim = serving().spec_is("bbbb")
    sim.run(lambda s: any(b.jobs for b in s.benchmarks.values()))
    # When the slots of the freeze are spent
    sim.slots(replace(FREEZING, slots=20, void_slots=15, frozen=None, message="the generator fell behind"))
    sim.run(lambda s: s.state == "Held")
    # Then the change is held and says what went wrong
    assert sim.status.rollout.reason == "BaselineUnavailable"
    assert "only 5 of 20 slots were valid" in sim.status.rollout.message
    # And a retry freezes anew
    sim.command("retry").run(lambda s: s.status.freeze is not None and not s.status.freeze.failed)


@pytest.mark.parametrize(("kind", "reason"), [("pull", "ImagePullBackOff"), ("slow", "ProgressDeadlineExceeded")])
def test_a_canary_that_does_not_start_is_rejected_with_the_pods_own_reason(kind: str, reason: str) -> None:
    # Given a change whose canary cannot start
    sim = stable()
    sim.behaviour = only(kind, "rbbbb")
    # When it fails, or the progress deadline passes
    sim.spec_is("bbbb").run(lambda s: s.state == "Rejected", seconds=10)
    # Then it is rejected for that reason and remembered; users never left
    assert sim.status.rollout.reason == reason
    assert sim.condition("RolloutComplete").reason == "Rejected"
    assert (sim.status.remembered[0].reason, sim.routed) == (reason, ["raaaa"])
    assert sim.condition("Ready").status == "True"


def test_a_crash_that_the_kubelet_still_retries_is_waited_for() -> None:
    # Given a canary whose first start exits
    sim = stable()
    sim.behaviour = only("exit", "rbbbb", Role.SERVING)
    sim.spec_is("bbbb").run(lambda s: s.status.rollout.pair is not None)
    sim.step()
    # Then it is not rejected for one exit
    assert sim.state == "Starting"
    # When it exits past the deadline
    sim.run(lambda s: s.state == "Rejected", seconds=30)
    assert sim.status.rollout.reason == "Error"


def test_a_twin_that_fails_is_never_the_canarys_fault() -> None:
    # Given a stable revision whose twin cannot start any more
    sim = stable()
    sim.behaviour = only("pull", "raaaa", Role.TWIN)
    # When a change starts
    sim.spec_is("bbbb").run(lambda s: s.state == "Held")
    sim.step()
    # Then it is held, nothing is remembered, the canary stays for inspection and the twin goes
    assert sim.status.rollout.reason == "TwinUnavailable"
    assert sim.status.remembered is None
    assert [(k.revision, k.role.value) for k in sim.pools] == [("raaaa", "serving"), ("rbbbb", "serving")]


def test_a_twin_whose_tag_means_another_image_now_is_not_used() -> None:
    # Given a twin that pulls another image than the revision's first pod ran
    sim = stable()
    sim.behaviour = only("moved", "raaaa", Role.TWIN)
    # When a change starts
    sim.spec_is("bbbb").run(lambda s: s.state == "Held")
    # Then the message names both images and the way out
    assert "sha256:2" in sim.status.rollout.message and "sha256:1" in sim.status.rollout.message
    assert "tailguard.dev/refresh" in sim.status.rollout.message


def test_a_pod_disrupted_while_it_starts_is_nobodys_fault() -> None:
    # Given a canary that is evicted before it is Ready
    sim = stable()
    sim.behaviour = only("evicted", "rbbbb")
    # When the deadline passes
    sim.spec_is("bbbb").run(lambda s: s.state == "Held", seconds=30)
    # Then it is held, not rejected
    assert (sim.status.rollout.reason, sim.status.remembered) == ("Disrupted", None)


def test_pods_that_a_quota_refuses_do_not_hang_the_rollout() -> None:
    # Given a quota that refuses the canary's pod
    sim = stable()
    sim.behaviour = only("refused", "rbbbb")
    # When the deadline passes
    sim.spec_is("bbbb").run(lambda s: s.state == "Held", seconds=30)
    # Then the change is held
    assert sim.status.rollout.reason == "InsufficientCapacity"


@pytest.mark.parametrize("room", [0, 1])
def test_no_room_for_canary_and_twin_is_a_clear_condition(room: int) -> None:
    # Given nodes with room for less than two engines
    sim = stable()
    sim.room = room
    # When a change starts
    sim.spec_is("bbbb").run(lambda s: s.state == "Held")
    # Then it is held before any pod starts, and names the number needed and the room there is
    assert sim.status.rollout.reason == "InsufficientCapacity"
    assert f"2 more engine pods are needed to compare, the nodes have room for {room}" in sim.status.rollout.message
    assert sim.roles == {"serving"}
    # When there is room and the user retries, it goes on
    sim.room = 2
    sim.command("retry").run(benchmark_runs)


def test_a_scheduler_that_finds_no_room_after_all_holds_the_change() -> None:
    # Given room by the numbers, and a scheduler that disagrees
    sim = stable()
    sim.behaviour = only("full", "rbbbb")
    # When the deadline passes
    sim.spec_is("bbbb").run(lambda s: s.state == "Held", seconds=30)
    # Then no pod of the pair is left waiting
    sim.step()
    assert sim.status.rollout.reason == "InsufficientCapacity"
    assert sim.roles == {"serving"}


def test_pods_on_their_way_out_are_waited_for_before_room_is_counted() -> None:
    # Given A/A pods that are still ending when a change starts, and no room beside them
    sim = Sim(lingering=True)
    stable(sim)
    sim.room = 0
    sim.spec_is("bbbb").run(lambda s: "leaving" in (s.status.rollout.message or ""))
    # When they have gone
    sim.gone()
    sim.room = 2
    # Then the pair starts
    sim.run(benchmark_runs)


def test_borrow_takes_the_twins_room_from_a_stable_replica() -> None:
    # Given two replicas, room for one more engine, and capacity Borrow
    rollout = Sim().spec.rollout.parse({"capacity": "Borrow"}, "spec.rollout")
    sim = stable(Sim().spec_is("aaaa", replicas=2, rollout=rollout))
    sim.room = 1
    # When a change is measured
    measuring(sim)
    # Then one stable replica has given its room to the twin
    assert sim.status.rollout.borrowed
    assert {(k.role.value, k.revision): p.replicas for k, p in sim.pools.items()} == {
        ("serving", "raaaa"): 1,
        ("serving", "rbbbb"): 1,
        ("twin", "raaaa"): 1,
    }
    # When it is suspected, the replica is not started for the moment between the pairs
    sim.slots(ALARM)
    sim.lingering = True
    sim.run(lambda s: s.state == "Confirm")
    sim.step()
    assert [p.replicas for k, p in sim.pools.items() if k.role == "serving"] == [1]
    # When the rollout ends, it comes back
    sim.gone()
    sim.spec_is("aaaa").run(lambda s: s.state == "Stable")
    sim.step()
    assert [p.replicas for p in sim.pools.values()] == [2]


def test_one_replica_lends_nothing() -> None:
    # Given one replica, room for one engine, and capacity Borrow
    rollout = Sim().spec.rollout.parse({"capacity": "Borrow"}, "spec.rollout")
    sim = stable(Sim().spec_is("aaaa", rollout=rollout))
    sim.room = 1
    # When a change starts, it is held
    sim.spec_is("bbbb").run(lambda s: s.state == "Held")
    assert sim.status.rollout.reason == "InsufficientCapacity"


@pytest.mark.parametrize("where", ["Starting", "Benchmark", "Confirm"])
def test_a_stable_revision_that_is_down_for_the_deadline_is_not_compared_with(where: str) -> None:
    # Given a change before its promotion
    sim = stable()
    if where != "Starting":
        measuring(sim)
    if where == "Confirm":
        confirming(sim)
    sim.spec_is("bbbb")
    # When stable has had no Ready pod for the progress deadline
    sim.behaviour = lambda key: "exit" if (key.revision, key.role) == ("raaaa", Role.SERVING) else "ready"
    if where == "Starting":
        sim.behaviour = lambda key: {"raaaa": "exit"}.get(key.revision, "slow")
        sim.run(lambda s: s.state == "Switch", seconds=60)
        sim.behaviour = only("exit", "raaaa")
    sim.run(lambda s: "NoStableToCompare" in s.events, seconds=30)
    sim.run(lambda s: s.state == "Stable", seconds=1)
    # Then the new revision, once Ready, is Stable at once, without a way back
    assert sim.routed == ["raaaa", "rbbbb"]
    assert (sim.status.stable.revision, sim.status.previous) == ("rbbbb", None)
    assert sim.ready_when_routed[-1] >= 1


def test_a_stable_revision_that_comes_back_before_the_move_is_compared_with_again() -> None:
    # Given a dead stable revision and a new one that is still starting
    sim = stable()
    sim.behaviour = lambda key: {"raaaa": "exit"}.get(key.revision, "slow")
    sim.spec_is("bbbb").run(lambda s: s.state == "Switch", seconds=60)
    # When stable is Ready again first
    sim.behaviour = only("slow", "rbbbb")
    sim.run(lambda s: s.state == "Starting")
    # Then the change has to prove itself
    sim.behaviour = ready
    sim.run(benchmark_runs)
    assert sim.routed == ["raaaa"]


def test_a_service_that_was_scaled_to_zero_for_long_is_not_down() -> None:
    # Given a service without replicas for an hour
    sim = stable()
    sim.spec_is("aaaa", replicas=0)
    for _ in range(4):
        sim.step(1200)
    # When it is scaled up and changed in one edit, and its pods take a moment
    sim.behaviour = only("slow", "raaaa", Role.SERVING)
    sim.spec_is("bbbb", replicas=1)
    for _ in range(10):
        sim.step()
    sim.behaviour = ready
    # Then the change is compared as always
    sim.run(benchmark_runs)
    assert "NoStableToCompare" not in sim.events


def test_a_service_scaled_to_zero_in_the_middle_promotes_nothing_unproved() -> None:
    # Given a change under measurement
    sim = measuring(stable())
    # When the service is scaled to 0 for longer than any deadline
    sim.spec_is("bbbb", replicas=0)
    for _ in range(30):
        sim.step(60)
    # Then users are not moved without a verdict
    assert sim.routed == ["raaaa"]


def test_a_workload_that_is_missing_stalls_the_rollout_and_is_looked_for_again() -> None:
    # Given a stable service whose workload ConfigMap is removed
    sim = stable(Sim(workload=Workload("w1", "wl", "{}")))
    sim.workload = Workload("", "wl", None, "spec.rollout.benchmark.workloadRef.name: 'wl': no such ConfigMap")
    # When a change is applied
    sim.spec_is("bbbb").step()
    sim.step()
    # Then it waits, says why, and the operator looks again though ConfigMaps are not watched
    assert sim.status.rollout.reason == "WorkloadUnusable"
    assert sim.condition("Stalled").reason == "WorkloadUnusable"
    assert sim.last.requeue_after is not None
    # When it is back, the change goes on
    sim.workload = Workload("w1", "wl", "{}")
    sim.run(benchmark_runs)


def test_a_changed_workload_means_a_fresh_freeze_before_the_next_rollout() -> None:
    # Given a Baseline frozen with one workload
    sim = stable(Sim(workload=Workload("w1", "wl", "{}")))
    first = sim.status.baseline.key
    # When the workload changes and then the spec
    sim.workload = Workload("w2", "wl", "{}")
    sim.spec_is("bbbb").run(lambda s: s.status.rollout.reason == "BaselineMissing")
    sim.run(lambda s: s.status.freeze is not None and any(b.jobs and not b.finished for b in s.benchmarks.values()))
    sim.slots(FREEZING)
    sim.run(benchmark_runs)
    # Then what is compared was measured with the new one
    assert sim.status.baseline.key != first
    assert sim.benchmarks[sim.status.rollout.benchmark].spec["workload"]["hash"] == "w2"


def test_a_workload_that_changes_while_the_change_waits_is_taken_as_it_is_then() -> None:
    # Given a change that waits for its Baseline
    sim = serving(Sim(workload=Workload("w1", "wl", "{}"))).spec_is("bbbb")
    sim.run(lambda s: any(b.jobs for b in s.benchmarks.values()))
    # When its requests change
    sim.workload = Workload("w2", "wl", "{}")
    sim.run(lambda s: any(b.spec["workload"]["hash"] == "w2" and b.jobs for b in s.benchmarks.values()))
    sim.slots(FREEZING)
    # Then everything is measured with the new ones
    sim.run(benchmark_runs)
    assert sim.benchmarks[sim.status.rollout.benchmark].spec["workload"]["hash"] == "w2"


def test_another_environment_means_a_fresh_freeze() -> None:
    # Given a Baseline frozen on one kind of node
    sim = stable()
    # When stable moves to another kind and a change is applied
    sim.environment = {"kernel": "7"}
    sim.spec_is("bbbb").run(lambda s: s.status.rollout.reason == "BaselineMissing")
    # Then it is frozen anew
    sim.run(lambda s: s.status.freeze is not None)
