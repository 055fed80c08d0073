"""Objectives: latency bounds checked on the last benchmark, told with their overrun, and gating only what is new."""

import math
from dataclasses import replace

import pytest
from plan_sim import ALARM, FREEZING, PROMOTE, Sim, measuring, serving, stable

from tailguard_operator.plan.slo import describe
from tailguard_operator.plan.world import ObjectiveResult

BOUND = {"metric": "Latency", "percentile": "99", "max": "1500ms"}
SPEC = {"model": {"uri": "file:///models/tiny"}, "slos": [{"name": "all", "objectives": [BOUND]}]}


def bounded() -> Sim:
    """A service with the hard bound P99 <= 1.5 s."""
    sim = Sim()
    sim.spec = sim.spec.parse(SPEC, "spec")
    return sim


def measured(arm: str, seconds: float, request_class: str = "all") -> ObjectiveResult:
    """P99 of Latency on one arm against 1.5 s."""
    return ObjectiveResult(arm, request_class, "Latency", "99", 1.5, seconds)


def frozen_with(seconds: float) -> Sim:
    """A bounded service whose freeze measured `seconds`."""
    sim = serving(bounded()).run(lambda s: any(b.jobs for b in s.benchmarks.values()))
    sim.slots(replace(FREEZING, objectives=(measured("canary", seconds),)))
    return sim.run(lambda s: s.status.baseline is not None)


def test_a_bound_that_is_passed_sets_the_condition_and_sends_an_event_with_both_numbers() -> None:
    """R-001: objective, bound and measured value; R-003: by how much."""
    # Given a bound of 1.5 s
    # When P99 is 2.8 s in the last benchmark
    sim = frozen_with(2.8)
    # Then the condition and the Event name objective, bound, value and overrun; serving and rollout are not touched
    within = sim.condition("WithinSLO")
    assert (within.status, within.reason) == ("False", "Benchmark")
    assert within.message == "Latency P99 of class all is 2800ms, 87 % over the bound of 1500ms"
    assert [e.message for e in sim.told if e.reason == "SLOViolated"] == [within.message]
    assert (sim.condition("Ready").status, sim.state) == ("True", "Stable")


def test_a_bound_that_is_met_keeps_the_service_healthy() -> None:
    """R-001: at 1.2 s it stays healthy."""
    # Given a bound of 1.5 s, when P99 is 1.2 s
    sim = frozen_with(1.2)
    # Then it is within
    assert sim.condition("WithinSLO").status == "True"
    assert "SLOViolated" not in sim.events


def test_the_overrun_of_the_given_pair() -> None:
    """R-003: 3268 ms against 1500 ms are 118 %."""
    assert describe(measured("canary", 3.268)) == "Latency P99 of class all is 3268ms, 118 % over the bound of 1500ms"


def test_a_percentile_lost_to_failures_is_unbounded_and_not_a_number() -> None:
    """R-003: too many failed requests leave no percentile to report."""
    assert "unbounded (too many requests failed), the bound is 1500ms" in describe(measured("canary", math.inf))


def test_without_a_bound_nothing_is_said() -> None:
    # Given a service without SLOs, when its Baseline is frozen
    sim = stable()
    # Then there is no WithinSLO
    assert sim.condition("WithinSLO") is None


def test_a_bound_gates_a_change_only_if_stable_meets_it() -> None:
    """R-006: the change breaks a bound that stable meets: held, with the sentence."""
    # Given a change that is proved against the twin
    sim = measuring(frozen_with(1.4))
    # When only the canary breaks the bound
    sim.slots(replace(PROMOTE, objectives=(measured("canary", 1.6), measured("twin", 1.45))))
    sim.run(lambda s: s.state == "Held")
    # Then a person decides
    assert sim.status.rollout.reason == "ObjectiveBroken"
    assert "1600ms, 7 % over the bound of 1500ms" in sim.status.rollout.message
    assert sim.routed == ["raaaa"]
    # And what users have is within
    assert sim.condition("WithinSLO").status == "True"


def test_a_bound_that_stable_breaks_as_well_gates_nothing() -> None:
    """R-006: the service is over its bound with either revision; that alerts and holds nothing up."""
    # Given a service that breaks its bound
    sim = measuring(frozen_with(2.8))
    # When a change that is no worse is proved
    sim.slots(replace(PROMOTE, objectives=(measured("canary", 2.0), measured("twin", 2.8))))
    sim.run(lambda s: s.state == "Kept")
    # Then it is promoted, and the condition speaks of the revision that users are on now
    assert sim.routed == ["raaaa", "rbbbb"]
    assert "2000ms" in sim.condition("WithinSLO").message


def test_each_class_has_its_own_bound() -> None:
    """R-006: two prompt lengths, two bounds, two verdicts."""
    # Given two classes, when one of them is over its bound
    sim = serving(bounded()).run(lambda s: any(b.jobs for b in s.benchmarks.values()))
    results = (measured("canary", 1.2, "short"), replace(measured("canary", 4.0, "long"), max_seconds=3.2))
    sim.slots(replace(FREEZING, objectives=results))
    sim.run(lambda s: s.status.baseline is not None)
    # Then only that one is named
    message = sim.condition("WithinSLO").message
    assert "class long is 4000ms, 25 % over the bound of 3200ms" in message
    assert "short" not in message


@pytest.mark.parametrize("outcome", ["Alarm", "GrossAlarm"])
def test_a_benchmark_that_refuses_a_change_still_tells_how_stable_does(outcome: str) -> None:
    """R-001: the twin's samples are the latest measurement of what users have."""
    # Given a service within its bound
    sim = measuring(frozen_with(1.4))
    # When the last benchmark sees stable over it, whatever the change does
    sim.slots(replace(ALARM, outcome=outcome, objectives=(measured("canary", 9.0), measured("twin", 1.8))))
    sim.step()
    # Then the condition has the twin's figure
    assert sim.condition("WithinSLO").message == "Latency P99 of class all is 1800ms, 20 % over the bound of 1500ms"


def test_after_a_promotion_the_column_shows_the_new_revisions_p99() -> None:
    # Given a service whose P99 is 250 ms
    sim = measuring(frozen_with(1.4))
    assert sim.status.p99 == "250ms"
    # When a change with 180 ms is promoted
    quantile = {"metric": "Latency", "requestClass": "all", "percentile": "99", "microseconds": 180_000}
    frozen = dict(PROMOTE.frozen or {}) | {"quantiles": [quantile | {"requests": 1000}]}
    sim.slots(replace(PROMOTE, frozen=frozen, objectives=(measured("canary", 0.18),)))
    sim.run(lambda s: s.state == "Kept")
    # Then the column follows
    assert sim.status.p99 == "180ms"
