"""State table, rows about the spec: new hashes, remembered ones, stable's again, invalid ones, and replicas 0."""

import pytest
from plan_sim import PROMOTE, Sim, benchmark_runs, confirming, held, kept, measuring, only, rejected, stable

from tailguard_operator.api.status import REMEMBERED, RememberedHash


def test_a_new_hash_starts_and_a_changed_slo_does_not() -> None:
    # Given a stable service
    sim = stable()
    # When only replicas or SLOs change, nothing starts
    sim.spec_is("aaaa", replicas=2).step()
    assert sim.state == "Stable"
    # When model or engine change, a rollout starts
    sim.spec_is("bbbb").step()
    assert sim.state == "Starting"


def test_a_new_hash_after_a_rejection_starts() -> None:
    # Given a rejected change
    sim = rejected(measuring(stable()))
    # When the user applies another one
    measuring(sim, "cccc")
    # Then it is measured, and the first stays remembered
    assert sim.status.rollout.spec_hash == "cccc"
    assert [r.spec_hash for r in sim.status.remembered] == ["bbbb"]


def test_a_remembered_hash_starts_nothing() -> None:
    # Given a rejected change, and the stable spec applied again
    sim = rejected(measuring(stable()))
    sim.spec_is("aaaa").run(lambda s: s.state == "Stable")
    made = sim.made
    # When the rejected spec comes back
    sim.spec_is("bbbb")
    sim.run(lambda s: s.state == "Rejected")
    sim.run(lambda s: s.last.requeue_after is None)
    # Then it is refused with the old reason, and no pod and no Benchmark was made for it
    assert "1.4 times" in sim.condition("RolloutComplete").message
    assert (sim.made, len(sim.benchmarks), sim.routed) == (made, 2, ["raaaa"])


def test_a_rejected_service_is_stable_again_with_the_stable_spec() -> None:
    # Given a rejected change
    sim = rejected(measuring(stable()))
    # When the spec is stable's hash again
    sim.spec_is("aaaa").step()
    # Then the service is Stable and the message speaks of the rejection no more
    assert sim.state == "Stable"
    complete = sim.condition("RolloutComplete")
    assert (complete.status, complete.message) == ("True", "revision raaaa serves")


@pytest.mark.parametrize("where", ["Starting", "Benchmark", "Confirm", "Held"])
def test_the_stable_spec_again_removes_the_arms(where: str) -> None:
    # Given a change before its promotion
    sim = _at(where)
    # When the spec is stable's hash again
    sim.spec_is("aaaa").run(lambda s: s.state == "Stable")
    sim.step()
    # Then the arms are gone, the message is cleared, and the Benchmark is closed
    assert sim.roles == {"serving"} and {k.revision for k in sim.pools} == {"raaaa"}
    assert sim.status.rollout.message == "revision raaaa serves"
    assert all(b.finished and not any(j.active for j in b.jobs) for b in sim.benchmarks.values())


@pytest.mark.parametrize("where", ["Starting", "Benchmark", "Confirm", "Held"])
def test_another_new_hash_replaces_the_change_under_way(where: str) -> None:
    # Given a change before its promotion
    sim = _at(where)
    # When the user applies another one
    sim.spec_is("cccc").run(benchmark_runs)
    # Then only the new one has a canary, its costs start at nothing, and users never moved
    assert {k.revision for k in sim.pools if k.role == "serving"} == {"raaaa", "rcccc"}
    assert (sim.status.rollout.spec_hash, sim.status.rollout.spent_requests) == ("cccc", 0)
    assert sim.routed == ["raaaa"]


def test_a_switch_that_has_not_moved_users_is_replaced_too() -> None:
    # Given a proved change that waits for its second pod
    sim = measuring(stable().spec_is("aaaa", replicas=2))
    sim.behaviour = only("slow", "rbbbb")
    sim.slots(PROMOTE)
    sim.run(lambda s: s.state == "Switch")
    # When the user applies another spec
    sim.spec_is("cccc").run(benchmark_runs)
    # Then the proved one never got users
    assert sim.routed == ["raaaa"]


@pytest.mark.parametrize("where", ["Starting", "Benchmark", "Confirm", "Held"])
def test_an_invalid_spec_in_the_middle_drops_the_change_before_it(where: str) -> None:
    # Given a change before its promotion
    sim = _at(where)
    # When the user applies an invalid spec
    sim.spec_is("dddd").problems = ("spec.engine.args[0]: '--x' is unknown",)
    sim.step()
    sim.step()
    # Then users stay, the arms go, and Stalled names the field
    assert sim.state == "Stable"
    assert sim.roles == {"serving"}
    assert sim.condition("Stalled").message == "spec.engine.args[0]: '--x' is unknown"
    assert sim.condition("RolloutComplete").reason == "InvalidSpec"
    assert sim.condition("Ready").status == "True"
    # When the user puts it right
    sim.problems = ()
    sim.spec_is("cccc").run(benchmark_runs)
    # Then the rollout goes on with that
    assert sim.status.rollout.spec_hash == "cccc"


def test_a_change_that_cannot_be_carried_out_is_held_and_does_not_start_over_and_over() -> None:
    # Given a change that runs, and then an object of somebody else in its way (the spec is as it was)
    sim = measuring(stable())
    sim.problems = ("Deployment default/chat-x exists and belongs to nobody",)
    # When the operator looks
    sim.step()
    # Then it is held with the sentence, also after the object has gone
    assert (sim.state, sim.status.rollout.reason) == ("Held", "Blocked")
    assert "belongs to nobody" in sim.status.rollout.message
    sim.problems = ()
    begun = sim.events.count("RolloutStarted")
    for _ in range(5):
        sim.step()
    assert (sim.state, sim.events.count("RolloutStarted")) == ("Held", begun)


def test_no_rollout_starts_while_there_are_no_replicas() -> None:
    # Given a service scaled to 0
    sim = stable()
    sim.spec_is("aaaa", replicas=0).step()
    # When the spec changes
    sim.spec_is("bbbb").step()
    sim.step()
    # Then nothing starts, reason NoReplicas
    assert sim.condition("RolloutComplete").reason == "NoReplicas"
    assert sim.pods == {}
    # When it is scaled up it does
    sim.spec_is("bbbb", replicas=1).run(benchmark_runs)


def test_a_rejected_service_scaled_to_zero_says_why_the_next_change_waits() -> None:
    # Given a rejected change and no replicas
    sim = rejected(measuring(stable()))
    # When another change is applied
    sim.spec_is("cccc", replicas=0).step()
    # Then the message is about the replicas, not about the change before
    assert sim.condition("RolloutComplete").reason == "NoReplicas"


def test_a_new_spec_with_no_replicas_in_the_middle_never_mixes_two_changes() -> None:
    # Given a change whose pods start, and another one that was rendered before
    sim = measuring(stable(), "cccc")
    sim.spec_is("bbbb").run(lambda s: s.state == "Starting" and s.status.rollout.pair is not None)
    # When the user goes back to that one and scales to 0 in the same edit
    sim.spec_is("cccc", replicas=0).step()
    # Then no rollout carries one change's hash and the other's revision
    rollout = sim.status.rollout
    assert (rollout.state, rollout.reason) == ("Stable", "NoReplicas")
    assert sim.roles == {"serving"}


def test_at_most_ten_hashes_are_remembered_and_the_oldest_is_forgotten() -> None:
    # Given a service that remembers ten refused hashes
    sim = measuring(stable())
    at = sim.status.rollout.started_at
    old = [
        RememberedHash(spec_hash=f"h{i}", revision="r", verdict="Rejected", reason="Drift", message="m", at=at)
        for i in range(REMEMBERED)
    ]
    sim.status = sim.status.model_copy(update={"remembered": old})
    # When one more is rejected
    rejected(sim)
    # Then ten are remembered, without the oldest
    assert [r.spec_hash for r in sim.status.remembered] == [f"h{i}" for i in range(1, REMEMBERED)] + ["bbbb"]


def test_settings_are_copied_at_starting_and_later_ones_count_for_the_next_rollout() -> None:
    # Given a change that has just started with a tolerance of 8 %
    sim = stable()
    sim.spec_is("bbbb").step()
    # When the user sets another tolerance before the Benchmark exists
    looser = sim.spec.rollout.model_copy(update={"tolerance": 50})
    sim.spec_is("bbbb", rollout=looser).run(benchmark_runs)
    # Then this change is judged by 8 %
    assert sim.benchmarks[sim.status.rollout.benchmark].spec["judge"]["tolerance"] == 8
    # And the next one by 50 %
    measuring(sim, "cccc")
    assert sim.benchmarks[sim.status.rollout.benchmark].spec["judge"]["tolerance"] == 50


def test_a_rejection_is_healthy_for_gitops_tools_unless_told_otherwise() -> None:
    # Given a rejected change
    sim = rejected(measuring(stable()))
    # Then tools see no stall
    assert sim.condition("Stalled") is None
    # When onRejected is Stalled, they do
    sim.spec_is("bbbb", rollout=sim.spec.rollout.parse({"onRejected": "Stalled"}, "spec.rollout")).step()
    assert sim.condition("Stalled").reason == "Rejected"
    assert sim.condition("Ready").status == "True"


def _at(where: str) -> Sim:
    sim = stable()
    if where == "Held":
        return held(sim)
    if where == "Starting":
        sim.behaviour = only("slow", "rbbbb")
        return sim.spec_is("bbbb").run(lambda s: s.status.rollout.pair is not None)
    measuring(sim)
    return confirming(sim) if where == "Confirm" else sim


def test_a_queued_spec_starts_by_itself_after_the_window() -> None:
    # Given a promoted change whose previous revision is kept, and a third spec
    sim = kept(measuring(stable()))
    sim.spec_is("cccc").step()
    # Then it is queued and says so
    assert (sim.state, sim.status.rollout.reason) == ("Kept", "GuardRunning")
    assert sim.condition("RolloutComplete").reason == "GuardRunning"
    # When the window is over
    sim.run(lambda s: s.state == "Stable", seconds=30)
    # Then the operator looks again at once, and it starts
    assert sim.last.requeue_after is not None and sim.last.requeue_after <= 1
    sim.run(lambda s: s.state == "Starting" and s.status.rollout.spec_hash == "cccc", limit=2)


def test_a_queue_that_is_taken_back_leaves_no_message_behind() -> None:
    # Given a queued spec
    sim = kept(measuring(stable()))
    sim.spec_is("cccc").step()
    # When the user takes it back
    sim.spec_is("bbbb").step()
    # Then the message tells about the promotion again
    assert sim.condition("RolloutComplete").status == "True"
    assert sim.condition("RolloutComplete").message == ("users are on revision rbbbb, the previous one is kept for 10m")
