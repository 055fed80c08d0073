"""State table, rows of Benchmark: evidence, budgets, Jobs, and arms that go."""

from dataclasses import replace

import pytest
from plan_sim import ALARM, GROSS, PROMOTE, SPENT, Sim, benchmark_runs, confirming, measuring, only, ready, stable

from tailguard_operator.plan.jobs import PENDING_LIMIT
from tailguard_operator.plan.world import Evidence, Failure, Role, Workload


def test_promote_leads_to_the_switch() -> None:
    # Given a change under measurement
    sim = measuring(stable())
    # When it is proved
    sim.slots(PROMOTE)
    sim.step()
    # Then it is switched to, and the Job has ended
    assert (sim.state, sim.status.verdict) == ("Switch", "PROMOTE")
    assert all(not b.jobs for b in sim.benchmarks.values())


def test_a_gross_alarm_rejects_at_once() -> None:
    """R-022: the message carries the drift with both numbers as the judge wrote it."""
    # Given a change under measurement
    sim = measuring(stable())
    # When its drift is gross
    sim.slots(replace(GROSS, message="latency drift exceeds threshold: 3.2 s vs 1.1 s"))
    sim.step()
    # Then it is a rollback without a second look
    assert (sim.state, sim.status.verdict, sim.status.rollout.reason) == ("Rejected", "ROLLBACK", "GrossDrift")
    assert "3.2 s vs 1.1 s" in sim.condition("RolloutComplete").message
    assert not any(b.spec["purpose"] == "Confirm" for b in sim.benchmarks.values())


def test_an_alarm_is_a_suspicion_that_a_fresh_pair_checks() -> None:
    # Given a change under measurement
    sim = measuring(stable())
    suspects = {p for p in sim.pods if "serving" in p or "twin" in p}
    # When it alarms
    sim.slots(ALARM)
    sim.run(lambda s: s.state == "Confirm")
    # Then the suspects go before a fresh pair on other nodes starts, and users stay
    assert not any(k.role == Role.TWIN for k in sim.pools)
    sim.run(benchmark_runs)
    assert {sim.status.rollout.canary_pod, sim.status.rollout.twin_pod}.isdisjoint(suspects)
    confirm = sim.benchmarks[sim.status.rollout.benchmark].spec
    assert confirm["confirms"] == sim.status.rollout.suspected_by
    assert sim.routed == ["raaaa"]
    avoided = {pool.key.role.value: pool.avoid_nodes for pool in sim.last.pools}
    assert (avoided["confirm-canary"], avoided["confirm-twin"]) == (("node-1",), ("node-1",))


@pytest.mark.parametrize("kind", ["exit", "pull"])
def test_a_dead_canary_is_a_gross_alarm_whatever_the_latencies_say(kind: str) -> None:
    # Given a change under measurement whose latencies would promote it
    sim = measuring(stable())
    sim.slots(PROMOTE)
    # When its container ends by itself
    sim.behaviour = only(kind, "rbbbb")
    sim.kubelet()
    sim.step()
    # Then it is rejected with the pod's own words
    assert (sim.state, sim.status.verdict) == ("Rejected", "ROLLBACK")
    assert "the canary died while it was measured" in sim.status.rollout.message


@pytest.mark.parametrize("outcome", ["Alarm", "Promote", "GrossAlarm"])
def test_a_verdict_on_stored_slots_holds_though_a_pod_goes_in_the_same_moment(outcome: str) -> None:
    # Given a decided Benchmark
    sim = measuring(stable())
    sim.slots(replace(PROMOTE, outcome=outcome))
    # When the twin is evicted before the operator has looked
    sim.lose(sim.status.rollout.twin_pod, "Evicted")
    sim.step()
    # Then the verdict counts
    assert sim.state == {"Alarm": "Confirm", "Promote": "Switch", "GrossAlarm": "Rejected"}[outcome]


def test_the_budget_is_granted_once_more_and_then_the_change_is_held() -> None:
    # Given a change whose Job has used the budget without a decision
    sim = measuring(stable())
    sim.slots(SPENT)
    sim.step()
    # Then it goes on, once
    assert (sim.state, sim.status.rollout.extended) == ("Benchmark", True)
    assert sim.events.count("BudgetExtended") == 1
    # When the Job has ended
    sim.fail_job()
    sim.run(lambda s: s.orders[-1].number == 1)
    # Then the next one goes on behind the stored slots, up to twice the budget and one number for a manifest
    assert (sim.orders[-1].start_slot, sim.orders[-1].max_slots) == (120, 241)
    # When that is spent too
    sim.slots(replace(SPENT, slots=240, requests=24_000))
    sim.run(lambda s: s.state == "Held")
    # Then a person decides
    assert (sim.status.rollout.reason, sim.status.verdict) == ("Inconclusive", "INCONCLUSIVE")
    assert sim.events.count("BudgetExtended") == 1
    assert sim.condition("RolloutComplete").reason == "Inconclusive"


def test_a_spent_budget_aborts_where_the_user_said_so() -> None:
    # Given onInconclusive: Abort
    sim = Sim()
    sim.spec = sim.spec.model_copy(update={"rollout": sim.spec.rollout.parse({"onInconclusive": "Abort"}, "r")})
    measuring(stable(sim))
    # When the budget is spent twice
    sim.slots(SPENT)
    sim.step()
    sim.slots(replace(SPENT, outcome="BudgetSpent", slots=240))
    sim.run(lambda s: s.state == "Aborted")
    # Then the arms go and the hash is remembered
    sim.step()
    assert sim.roles == {"serving"}
    assert (sim.status.remembered[0].verdict, sim.status.verdict) == ("Aborted", "INCONCLUSIVE")


def test_minutes_are_a_budget_too() -> None:
    """R-017: benchmark runs respect a declared cost budget."""
    # Given a change whose slots arrive too slowly
    sim = measuring(stable())
    sim.slots(Evidence(slots=2, requests=200))
    # When 60 minutes have gone by
    sim.now = sim.now.replace(hour=sim.now.hour + 1, minute=30)
    sim.step()
    # Then the budget is spent, though requests are left
    assert "BudgetExtended" in sim.events


def test_requests_of_all_benchmarks_of_a_rollout_count_together() -> None:
    # Given a change whose first pair was lost after 30 slots
    sim = measuring(stable())
    sim.slots(Evidence(slots=30, requests=3000))
    sim.lose(sim.status.rollout.canary_pod)
    sim.step()
    sim.run(benchmark_runs)
    # Then the next Benchmark has what is left, and the judge knows what was spent
    assert sim.status.rollout.spent_requests == 3000
    assert sim.orders[-1].max_slots == (12_000 - 3000) // 100
    assert sim.benchmarks[sim.status.rollout.benchmark].spec["judge"]["spentRequests"] == 3000
    # When it is suspected after 20 slots
    sim.slots(replace(ALARM, slots=20, requests=2000))
    sim.run(lambda s: s.state == "Confirm" and benchmark_runs(s))
    # Then the confirmation has what is left then
    assert sim.orders[-1].max_slots == (12_000 - 5000) // 100
    # When it is aborted before that stored a slot, nothing is counted twice
    sim.command("abort").step()
    assert sim.status.rollout.spent_requests == 5000


def test_an_abort_between_suspicion_and_confirmation_counts_nothing_twice() -> None:
    # Given a suspicion whose fresh pair is not measured yet
    sim = measuring(stable())
    sim.slots(ALARM)
    sim.run(lambda s: s.state == "Confirm")
    spent = sim.status.rollout.spent_requests
    # When it is aborted
    sim.command("abort").step()
    # Then the requests are those of the suspicion alone
    assert spent == sim.status.rollout.spent_requests == 1200


@pytest.mark.parametrize("how", ["deleted", "Evicted"])
@pytest.mark.parametrize("where", ["Benchmark", "Confirm"])
def test_three_lost_pairs_hold_the_change(where: str, how: str) -> None:
    # Given a change that is measured
    sim = measuring(stable())
    if where == "Confirm":
        confirming(sim)
    for lost in (1, 2):
        # When an arm's pod goes by disruption
        before = sim.status.rollout.benchmark
        sim.lose(sim.status.rollout.canary_pod, how)
        sim.step()
        # Then a fresh pair with fresh evidence takes its place
        sim.run(benchmark_runs)
        assert sim.status.rollout.benchmark != before
        assert (sim.status.rollout.disruptions, sim.state) == (lost, where)
    # When the third goes
    sim.lose(sim.status.rollout.twin_pod, how)
    sim.step()
    # Then it is held, and nobody is blamed
    assert (sim.state, sim.status.rollout.reason) == ("Held", "Disrupted")
    assert sim.status.remembered is None


def test_a_twin_that_dies_three_times_holds_the_change() -> None:
    # Given a change under measurement
    sim = measuring(stable())
    for _ in range(2):
        # When the twin dies of itself, a fresh pair starts
        _die(sim, sim.status.rollout.twin_pod)
        sim.step()
        sim.run(benchmark_runs)
    _die(sim, sim.status.rollout.twin_pod)
    sim.step()
    # Then the third time holds it, and the canary is not rejected
    assert (sim.state, sim.status.rollout.reason) == ("Held", "TwinUnavailable")
    assert "died 3 times" in sim.status.rollout.message and "exit code 137" in sim.status.rollout.message
    assert sim.status.remembered is None


def test_a_failed_job_goes_on_at_the_next_slot_and_three_hold_the_change() -> None:
    # Given a change under measurement with five stored slots
    sim = measuring(stable())
    sim.slots(Evidence(slots=5, requests=500))
    for number in (1, 2):
        # When the Job fails
        sim.fail_job("Evicted: the node was low on memory")
        sim.run(lambda s, n=number: s.orders[-1].number == n)
        # Then the next one goes on at the next slot with the same pods
        assert sim.orders[-1].start_slot == 5
    sim.fail_job("Evicted: the node was low on memory")
    sim.run(lambda s: s.state == "Held")
    # Then the third is the last, with its reason
    assert sim.status.rollout.reason == "BenchmarkFailed"
    assert "low on memory" in sim.status.rollout.message


def test_a_job_that_stays_pending_is_replaced_and_removed() -> None:
    # Given a benchmark pod without room
    sim = measuring(stable())
    view = sim.benchmarks[sim.status.rollout.benchmark]
    waiting = replace(view.jobs[0], pending_since=sim.now, reason="Unschedulable: 0/1 nodes")
    sim.benchmarks[view.name] = replace(view, jobs=(waiting,))
    # When it has waited for too long
    sim.now += PENDING_LIMIT
    sim.step(1)
    sim.step(1)
    # Then the next number takes its place
    assert [j.number for j in sim.benchmarks[view.name].jobs] == [1]


def test_a_job_that_ends_without_a_supported_decision_is_followed_by_the_next() -> None:
    # Given a Job that says it is done while its samples decide nothing
    sim = measuring(stable())
    sim.slots(Evidence(slots=7, requests=700))
    view = sim.benchmarks[sim.status.rollout.benchmark]
    sim.benchmarks[view.name] = replace(view, jobs=(replace(view.jobs[0], active=False, succeeded=True),))
    # When the operator looks
    sim.run(lambda s: s.orders[-1].number == 1)
    # Then a proposal is data, not an order
    assert sim.state == "Benchmark"


def test_samples_that_cannot_be_read_are_no_verdict() -> None:
    """R-020: unreadable evidence is an error, never a pass."""
    # Given a change under measurement
    sim = measuring(stable())
    # When a stored slot is broken
    sim.slots(Evidence(broken="slot 3: the SHA-256 is another", slots=4))
    sim.step()
    # Then it is held as inconclusive, with the reason
    assert (sim.state, sim.status.rollout.reason) == ("Held", "EvidenceUnreadable")
    assert sim.status.verdict == "INCONCLUSIVE"
    assert "slot 3" in sim.status.rollout.message


def test_no_data_is_neither_pass_nor_fail() -> None:
    """R-022: without samples the change stays measured until its Jobs have failed, then it is held."""
    # Given a change whose Jobs end without a single slot
    sim = measuring(stable())
    for _ in range(3):
        sim.fail_job("the engine did not answer")
        sim.step()
        sim.step()
    # Then it is held
    assert (sim.state, sim.status.remembered, sim.routed) == ("Held", None, ["raaaa"])


def test_requests_that_change_while_they_are_needed_hold_the_change() -> None:
    # Given a Benchmark with the user's requests, whose Job failed
    sim = measuring(stable(Sim(workload=Workload("w1", "wl", "{}"))))
    sim.fail_job()
    # When the ConfigMap is removed before the next Job
    sim.workload = Workload("", "wl", None, "'wl': no such ConfigMap")
    sim.run(lambda s: s.state == "Held")
    # Then no Job runs with other requests under the old hash
    assert sim.status.rollout.reason == "WorkloadChanged"
    assert "wl" in sim.status.rollout.message
    assert sim.orders[-1].number == 0


def test_a_workload_that_goes_while_its_job_runs_does_no_harm() -> None:
    # Given a Benchmark whose Job has its own copy of the requests
    sim = measuring(stable(Sim(workload=Workload("w1", "wl", "{}"))))
    # When the ConfigMap is removed
    sim.workload = Workload("", "wl", None, "'wl': no such ConfigMap")
    sim.step()
    # Then the measurement goes on to its verdict
    assert sim.state == "Benchmark"
    sim.slots(PROMOTE)
    sim.run(lambda s: s.state == "Kept")


def test_an_alarm_after_a_confirmation_that_cleared_the_first_is_held() -> None:
    # Given a change that was cleared of a suspicion and is measured again
    sim = measuring(stable())
    cleared = sim.status.rollout.model_copy(update={"confirmed": True})
    sim.status = sim.status.model_copy(update={"rollout": cleared})
    # When it alarms again
    sim.slots(ALARM)
    sim.run(lambda s: s.state == "Held")
    # Then neither is believed: a person decides
    assert sim.status.rollout.reason == "SuspectedTwice"
    assert sim.status.remembered is None


def test_a_benchmark_deleted_by_hand_is_made_again() -> None:
    # Given a Benchmark that somebody deletes
    sim = measuring(stable())
    sim.benchmarks.pop(sim.status.rollout.benchmark)
    # When the operator looks
    # Then it measures again
    sim.run(benchmark_runs, limit=5)


def test_a_clock_that_jumps_back_never_writes_a_negative_cost() -> None:
    # Given a change with stored slots
    sim = measuring(stable())
    sim.slots(Evidence(slots=5, requests=500))
    # When the operator's clock is set back by an hour and the pair is lost
    sim.now = sim.now.replace(hour=sim.now.hour - 1)
    sim.lose(sim.status.rollout.canary_pod)
    sim.step()
    # Then the status can still be written
    assert sim.status.rollout.spent_seconds == 0
    assert type(sim.status).model_validate(sim.status.to_object()) == sim.status


def _die(sim: Sim, name: str | None) -> None:
    assert name is not None
    sim.behaviour = ready
    sim.pods[name] = replace(sim.pods[name], failure=Failure("OOMKilled", "exit code 137", exited=True))
