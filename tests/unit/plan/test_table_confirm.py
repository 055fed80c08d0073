"""State table, rows of Confirm: a suspicion is checked on a fresh pair."""

from dataclasses import replace

import pytest
from plan_sim import ALARM, GROSS, PROMOTE, SPENT, benchmark_runs, confirming, measuring, only, stable

from tailguard_operator.plan import decide
from tailguard_operator.plan.world import Evidence, Role


@pytest.mark.parametrize("evidence", [ALARM, GROSS])
def test_an_alarm_on_the_fresh_pair_is_a_rollback(evidence: Evidence) -> None:
    # Given a suspicion that is checked
    sim = confirming(measuring(stable()))
    # When the fresh pair alarms as well
    sim.slots(evidence)
    sim.run(lambda s: s.state == "Rejected")
    sim.step()
    # Then it is a rollback and only the stable pods are left
    assert sim.status.verdict == "ROLLBACK"
    assert sim.roles == {"serving"} and sim.routed == ["raaaa"]
    assert sim.status.remembered[0].benchmark == sim.status.rollout.benchmark


def test_promote_after_a_suspicion_removes_the_pair_and_goes_on_with_fresh_serving_pods() -> None:
    # Given a suspicion that is checked
    sim = confirming(measuring(stable()))
    # When the fresh pair proves the change
    sim.slots(PROMOTE)
    sim.run(lambda s: s.state == "Kept")
    # Then only serving pods ever get users, and the confirm pair is gone
    assert sim.roles == {"serving"}
    assert sim.status.rollout.confirmed
    assert sim.routed == ["raaaa", "rbbbb"] and sim.ready_when_routed[-1] == 1


def test_a_budget_spent_in_confirm_is_held_and_not_extended() -> None:
    # Given a suspicion that is checked
    sim = confirming(measuring(stable()))
    # When the budget is spent
    sim.slots(SPENT)
    sim.run(lambda s: s.state == "Held")
    # Then the suspicion is neither confirmed nor cleared
    assert (sim.status.rollout.reason, sim.status.verdict) == ("Unconfirmed", "INCONCLUSIVE")
    assert "BudgetExtended" not in sim.events


def test_the_extension_is_once_a_rollout_and_counts_for_the_confirmation() -> None:
    # Given a Benchmark that was extended and then alarmed
    sim = measuring(stable())
    sim.slots(SPENT)
    sim.step()
    sim.slots(replace(ALARM, slots=130, requests=13_000))
    sim.run(lambda s: s.state == "Confirm" and benchmark_runs(s))
    # Then the confirmation has the rest of both budgets
    assert sim.orders[-1].max_slots == (24_000 - 13_000) // 100


def test_a_confirmation_is_measured_by_its_suspicions_thresholds_though_the_baseline_went() -> None:
    """R-020: a baseline that somebody deleted never loosens a verdict."""
    # Given a suspicion
    sim = measuring(stable())
    first = sim.benchmarks[sim.status.rollout.benchmark].spec
    # When the Baseline is deleted before the confirmation starts
    sim.baselines.clear()
    confirming(sim)
    # Then the confirmation has the same thresholds
    second = sim.benchmarks[sim.status.rollout.benchmark].spec
    assert second["judge"]["thresholdsMicroseconds"] == first["judge"]["thresholdsMicroseconds"] != {}
    assert second["baseline"] == first["baseline"]


def test_a_canary_that_does_not_start_again_is_rejected() -> None:
    # Given a suspicion
    sim = measuring(stable())
    # When the canary cannot start a second time
    sim.behaviour = only("pull", "rbbbb", Role.CONFIRM_CANARY)
    sim.slots(ALARM)
    sim.run(lambda s: s.state == "Rejected")
    # Then the pod's own reason is given
    assert sim.status.rollout.reason == "ImagePullBackOff"


@pytest.mark.parametrize(
    ("kind", "role", "reason"),
    [
        ("pull", Role.CONFIRM_TWIN, "TwinUnavailable"),
        ("full", Role.CONFIRM_CANARY, "InsufficientCapacity"),
        ("refused", Role.CONFIRM_TWIN, "InsufficientCapacity"),
        ("evicted", Role.CONFIRM_TWIN, "Disrupted"),
    ],
)
def test_a_pair_that_cannot_start_holds_the_change(kind: str, role: Role, reason: str) -> None:
    # Given a suspicion
    sim = measuring(stable())
    revision = "rbbbb" if role == Role.CONFIRM_CANARY else "raaaa"
    sim.behaviour = only(kind, revision, role)
    # When the fresh pair cannot start for a reason that is not the canary's
    sim.slots(ALARM)
    sim.run(lambda s: s.state == "Held", seconds=30)
    # Then it is held
    assert (sim.status.rollout.reason, sim.status.remembered) == (reason, None)


def test_suspects_that_never_go_do_not_hold_up_the_rollout_for_ever() -> None:
    # Given a suspicion whose pods hang on a dead node
    sim = measuring(stable())
    sim.lingering = True
    sim.slots(ALARM)
    sim.run(lambda s: s.state == "Confirm")
    sim.step()
    assert "before a fresh one starts" in sim.status.rollout.message
    # When the deadline passes
    sim.run(lambda s: s.state == "Held", seconds=30)
    # Then it is held and says why
    assert "did not go away" in sim.status.rollout.message


def test_a_confirmation_that_was_killed_goes_on_where_it_was() -> None:
    # Given an operator that dies after the status of the suspicion was written
    sim = measuring(stable())
    sim.slots(ALARM)
    sim.apply(decide(sim.world(), sim.now), upto=1)
    # When another one starts
    sim.run(benchmark_runs)
    # Then it checks the suspicion
    assert sim.state == "Confirm"
