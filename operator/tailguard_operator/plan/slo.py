"""Objectives, checked on the samples of the last benchmark (R-001, R-003, R-006)."""

import math
from collections.abc import Sequence

from tailguard_operator.api.conditions import set_condition
from tailguard_operator.plan.turn import Turn
from tailguard_operator.plan.world import BenchmarkView, Evidence, ObjectiveResult

REASON = "Benchmark"


def observe_objectives(turn: Turn, view: BenchmarkView, arm: str) -> Turn:
    """The turn with the condition WithinSLO by the samples of one arm; unchanged when no bound is declared."""
    results = [r for r in view.evidence.objectives if r.arm == arm]
    if not results:
        return turn
    broken = [r for r in results if not r.met]
    message = "; ".join(map(describe, broken)) or "every bound was met in the last benchmark"
    conditions = list(turn.status.conditions or ())
    condition = set_condition(
        conditions, "WithinSLO", not broken, REASON, message, generation=turn.world.generation, now=turn.now
    )
    others = [c for c in conditions if c.type != "WithinSLO"]
    turn = turn.update(conditions=[*others, condition])
    return turn.event("SLOViolated", message, warning=True) if broken else turn


def broken_by_canary_alone(evidence: Evidence) -> tuple[ObjectiveResult, ...]:
    """Bounds that the twin meets and the canary breaks: only these gate a rollout."""
    met = {_key(r) for r in evidence.objectives if r.arm == "twin" and r.met}
    return tuple(r for r in evidence.objectives if r.arm == "canary" and not r.met and _key(r) in met)


def describe(result: ObjectiveResult) -> str:
    """Objective, bound, measured value and overrun = (measured - bound) / bound, in a sentence (R-003)."""
    name = f"{result.metric} P{result.percentile} of class {result.request_class}"
    bound = milliseconds(result.max_seconds)
    if math.isinf(result.measured_seconds):
        return f"{name} is unbounded (too many requests failed), the bound is {bound}"
    overrun = (result.measured_seconds - result.max_seconds) / result.max_seconds * 100
    return f"{name} is {milliseconds(result.measured_seconds)}, {overrun:.0f} % over the bound of {bound}"


def p99(evidence: Evidence) -> str | None:
    """P99 of Latency over the widest class, for the column of `kubectl get`."""
    rows: Sequence[dict[str, object]] = (evidence.frozen or {}).get("quantiles", ())
    found = [r for r in rows if r["percentile"] == "99"]
    chosen = next((r for r in found if r["metric"] == "Latency"), found[0] if found else None)
    if chosen is None:
        return None
    value = chosen.get("microseconds")
    return milliseconds(value / 1e6) if isinstance(value, int) else "unbounded"


def milliseconds(value: float) -> str:
    """`value` seconds for people: 812ms, or 12.5s from ten seconds on."""
    return f"{value * 1000:.0f}ms" if value < 10 else f"{value:.1f}s"


def _key(result: ObjectiveResult) -> tuple[str, str, str]:
    return result.request_class, result.metric, result.percentile
