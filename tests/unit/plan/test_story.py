"""The stories of the issue, told to `decide` alone."""

from dataclasses import replace

from plan_sim import FROZEN, measuring, stable

from tailguard_operator.plan.world import Evidence

PROMOTE = Evidence("Promote", "NonInferior", "within 8 %", slots=20, requests=2000, frozen=FROZEN)
ALARM = Evidence("Alarm", "Drift", "TTFT is 1.4 times the twin's", slots=12, requests=1200)
GROSS = replace(ALARM, outcome="GrossAlarm")


def test_a_gross_drift_is_rejected_at_once_and_users_never_move() -> None:
    # Given a change under measurement
    sim = measuring(stable())
    # When the benchmark shows a gross drift
    sim.slots(GROSS)
    sim.run(lambda s: s.status.rollout.state == "Rejected")
    # Then the hash is remembered, the arms go and the Service never left the stable revision
    assert [r.spec_hash for r in sim.status.remembered] == ["bbbb"]
    assert sim.routed == ["raaaa"]
    assert [key.revision for key in sim.pools] == ["raaaa"]
    assert sim.condition("Ready").status == "True"
    assert "1.4 times" in sim.condition("RolloutComplete").message


def test_a_promotion_moves_users_in_one_step_and_then_removes_the_previous() -> None:
    # Given a change under measurement
    sim = measuring(stable())
    # When it is proved
    sim.slots(PROMOTE)
    sim.run(lambda s: s.status.rollout.state == "Kept")
    # Then users are on it, the previous pods are a way back, and a new Baseline is written
    assert sim.routed == ["raaaa", "rbbbb"]
    assert {key.revision for key in sim.pools} == {"raaaa", "rbbbb"}
    # When keepPrevious is over
    sim.run(lambda s: s.status.rollout.state == "Stable", seconds=30)
    sim.step()
    # Then only the new revision is left and its Baseline is in force
    assert {key.revision for key in sim.pools} == {"rbbbb"}
    assert sim.baselines[sim.status.baseline.name].revision == "rbbbb"


def test_a_suspicion_is_confirmed_on_a_fresh_pair() -> None:
    # Given a suspicion
    sim = measuring(stable())
    sim.slots(ALARM)
    sim.run(lambda s: any(b.spec["purpose"] == "Confirm" and b.jobs for b in s.benchmarks.values()))
    # Then the suspected pair has gone
    assert {key.role for key in sim.pools} == {"serving", "confirm-canary", "confirm-twin"}
    # When the fresh pair alarms as well
    sim.slots(ALARM)
    sim.run(lambda s: s.status.rollout.state == "Rejected")
    # Then it is a rollback
    assert sim.status.verdict == "ROLLBACK"
