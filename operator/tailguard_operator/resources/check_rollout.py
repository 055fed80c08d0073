"""What the schema can't say of `rollout`, `traffic` and `slos`: what needs a gateway, and what a budget can decide."""

import math
from collections.abc import Iterator
from itertools import count

from tailguard_operator.api.base import FieldProblem
from tailguard_operator.api.objectives import Metric, Objective, ServiceLevel
from tailguard_operator.api.rollout import BenchmarkSettings, Rollout, Strategy
from tailguard_operator.api.service import InferenceServiceSpec

_BETS = (0.25, 0.5, 0.95)
"""The judge's grid of bets: evidence after n slots of the largest score is the mean of (1 + bet)^n."""
_NO_GATEWAY = "it needs spec.traffic.gateway; leave it out: without a gateway users are moved in one step"


def check_rollout(spec: InferenceServiceSpec) -> Iterator[FieldProblem]:
    """Every problem of `rollout`, `traffic` and `slos`."""
    yield from _check_traffic(spec)
    yield from _check_budget(spec.rollout)
    for number, level in enumerate(spec.slos or ()):
        yield from _check_level(level, f"spec.slos[{number}]")


def objective_warnings(spec: InferenceServiceSpec) -> Iterator[str]:
    """Bounds that never bind, since a higher percentile has a tighter one."""
    for number, level in enumerate(spec.slos or ()):
        for low in level.objectives:
            tighter = [o for o in level.objectives if _tighter(o, low)]
            if tighter:
                yield (
                    f"spec.slos[{number}]: {low.metric} P{low.percentile} within {low.max} never binds, because "
                    f"P{tighter[0].percentile} has to be within {tighter[0].max}; leave it out, or lower it"
                )


def least_slots(rollback_percent: int) -> int:
    """The least number of slots after which an alarm is possible at this bound of wrong alarms (six at 5 percent)."""
    wanted = 100 / rollback_percent
    return next(n for n in count(1) if sum((1 + bet) ** n for bet in _BETS) / len(_BETS) >= wanted)


def _check_traffic(spec: InferenceServiceSpec) -> Iterator[FieldProblem]:
    rollout, traffic = spec.rollout, spec.traffic
    if traffic and traffic.gateway:
        allowed = "gateways are not supported by this version; leave it out: users are moved in one step by the Service"
        yield FieldProblem("spec.traffic.gateway", repr(traffic.gateway.name), allowed)
        return
    if rollout.steps:
        yield FieldProblem("spec.rollout.steps", f"{len(rollout.steps)} steps", _NO_GATEWAY)
    if rollout.strategy == Strategy.SHADOW:
        yield FieldProblem("spec.rollout.strategy", "Shadow", f"{_NO_GATEWAY}, or write Canary or BlueGreen")
    if rollout.guard:
        yield FieldProblem("spec.rollout.guard", str(rollout.guard.to_object()), f"{_NO_GATEWAY}; see keepPrevious")
    if traffic and traffic.hostnames:
        yield FieldProblem("spec.traffic.hostnames", ", ".join(traffic.hostnames), _NO_GATEWAY)
    if traffic and traffic.preview:
        yield FieldProblem("spec.traffic.preview", traffic.preview.value, _NO_GATEWAY)


def _check_budget(rollout: Rollout) -> Iterator[FieldProblem]:
    settings, alarm = rollout.benchmark, least_slots(rollout.error_rates.rollback)
    slots = alarm + 1
    why = f"the least number of slots that can alarm is {alarm}, and one may be void"
    requests = 2 * settings.slot.requests * slots
    if settings.budget.requests < requests:
        allowed = f"{why}: write {requests} or more, or a smaller slot.requests than {settings.slot.requests}"
        yield FieldProblem("spec.rollout.benchmark.budget.requests", str(settings.budget.requests), allowed)
    minutes = math.ceil(2 * _half_seconds(settings) * slots / 60)
    if settings.budget.minutes < minutes:
        allowed = f"{why}, {slots} slots of this size and rate take {minutes} minutes: write {minutes} or more"
        yield FieldProblem("spec.rollout.benchmark.budget.minutes", str(settings.budget.minutes), allowed)


def _half_seconds(settings: BenchmarkSettings) -> float:
    """Least length of one arm's half of a slot."""
    return max(settings.slot.min_seconds, settings.slot.requests / settings.rate_per_second)


def _check_level(level: ServiceLevel, field: str) -> Iterator[FieldProblem]:
    seen: set[tuple[Metric, str | None]] = set()
    for number, objective in enumerate(level.objectives):
        where = f"{field}.objectives[{number}]"
        key = (objective.metric, objective.percentile)
        if key in seen:
            what = " P".join(filter(None, (objective.metric.value, objective.percentile)))
            yield FieldProblem(where, what, f"class {level.name!r} has a bound on it already; keep one of the two")
        seen.add(key)
        yield from _check_bounds(objective, where)


def _check_bounds(objective: Objective, field: str) -> Iterator[FieldProblem]:
    for name, bound in (("max", objective.max), ("min", objective.min)):
        if bound is None:
            continue
        if bound.endswith("%") and _amount(bound) > 100:
            yield FieldProblem(f"{field}.{name}", bound, "a percentage goes up to 100%")
        if _amount(bound) == 0 and objective.metric != Metric.ERROR_RATE:
            can = "no request can meet" if name == "max" else "nothing can break"
            yield FieldProblem(f"{field}.{name}", bound, f"it is a bound that {can}; write one above 0")


def _tighter(high: Objective, low: Objective) -> bool:
    if high.metric != low.metric or not (high.percentile and low.percentile and high.max and low.max):
        return False
    return float(high.percentile) > float(low.percentile) and _amount(high.max) < _amount(low.max)


def _amount(bound: str) -> float:
    """The number in `bound`; of a duration in seconds."""
    number = bound.rstrip("msh%")
    unit = bound[len(number) :]
    return float(number) * {"ms": 0.001, "m": 60, "h": 3600}.get(unit, 1)
