"""The judge's answer: what was decided, on what evidence, and how much the canary differs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

ERRORS = "errors"
"""Name of the statistic that compares shares of failed requests."""


class Outcome(StrEnum):
    """What follows from the slots so far."""

    CONTINUE = "Continue"
    ALARM = "Alarm"
    GROSS_ALARM = "GrossAlarm"
    PROMOTE = "Promote"
    BUDGET_SPENT = "BudgetSpent"


class VerdictFormatError(ValueError):
    """A stored verdict that can't be read."""


@dataclass(frozen=True)
class Estimate:
    """How one statistic of the canary compares with the twin's.

    Attributes:
        metric: TTFT, TPOT or Latency; "" for errors.
        request_class: The class's name; "" for errors, which count over all requests.
        statistic: "typical", "P90", "P99" or "errors".
        ratio: Canary over twin: the median of the pairs' ratios, or the ratio of the quantiles or of the shares;
            +inf = unbounded on the canary alone, None = unknown: no data, or unbounded on both arms.
        low: Ratios below this are excluded by the evidence, at whatever slot one stops; 0 = none are.
        high: Ratios above this are excluded; +inf = none are.
        canary_value: Seconds by nearest rank (typical: the median), or the share of failed requests; +inf =
            unbounded, None = no data.
        twin_value: The same of the twin.
        e_alarm: Evidence that the ratio is above the tolerance.
        e_promote: Evidence that it is within the proof; 1 for errors, which prove nothing.
    """

    metric: str
    request_class: str
    statistic: str
    ratio: float | None
    low: float
    high: float
    canary_value: float | None
    twin_value: float | None
    e_alarm: float
    e_promote: float


@dataclass(frozen=True)
class TrailPoint:
    """Evidence after one slot, for plots.

    Attributes:
        slot: The slot's number.
        void: Whether the slot was left out.
        requests: Requests of both arms so far.
        alarm: Evidence at the tolerance; an alarm needs 100 / errorRates.rollback.
        gross: Evidence at the gross tolerance; needs the same.
        errors: Evidence that the canary fails oftener; needs 1,000.
        promote: The weakest of all claims' evidence; needs 100 / errorRates.promote.
    """

    slot: int
    void: bool
    requests: int
    alarm: float
    gross: float
    errors: float
    promote: float


@dataclass(frozen=True)
class Verdict:
    """The outcome with its evidence.

    Attributes:
        outcome: What follows.
        decided_at_slot: Number of the deciding slot, None while there is no decision.
        slots: Slots taken, void ones included.
        void_slots: Slots left out of the evidence.
        requests: Requests of both arms in all slots taken, void ones included.
        reason: CamelCase: LatencyDrift, GrossLatencyDrift, ErrorRate, NonInferior, Inconclusive, NoData, Running.
        message: One sentence: what drifted by how much, with its interval and the number of requests.
        claim: What a promotion proves, in words; "" for other outcomes.
        estimates: One for each metric, class and statistic, then one for errors.
        flags: "AboutThesePods", "environmentChanged".
        notes: A sentence on the pods' offset, and one for each other flag.
        trail: Evidence after each slot taken.
    """

    outcome: Outcome
    decided_at_slot: int | None
    slots: int
    void_slots: int
    requests: int
    reason: str
    message: str
    claim: str
    estimates: tuple[Estimate, ...]
    flags: tuple[str, ...]
    notes: tuple[str, ...]
    trail: tuple[TrailPoint, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite value is "inf"."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain |= {"outcome": str(self.outcome), "flags": list(self.flags), "notes": list(self.notes)}
        plain["estimates"] = [_row(estimate) for estimate in self.estimates]
        plain["trail"] = [_row(point) for point in self.trail]
        return {_camel(name): value for name, value in plain.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        """The verdict that :meth:`to_json` wrote.

        Raises:
            VerdictFormatError: A field is missing or of the wrong kind.
        """
        try:
            plain = {f.name: data[_camel(f.name)] for f in fields(cls)}
            plain["outcome"] = Outcome(plain["outcome"])
            plain["estimates"] = tuple(Estimate(**_unrow(Estimate, row)) for row in plain["estimates"])
            plain["trail"] = tuple(TrailPoint(**_unrow(TrailPoint, row)) for row in plain["trail"])
            plain |= {"flags": tuple(plain["flags"]), "notes": tuple(plain["notes"])}
            return cls(**plain)
        except (KeyError, TypeError, ValueError) as problem:
            raise VerdictFormatError(f"the stored verdict can't be read: {problem!r}") from problem


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.title() for word in rest)


def _row(item: Estimate | TrailPoint) -> dict[str, Any]:
    return {_camel(f.name): _plain(getattr(item, f.name)) for f in fields(item)}


def _plain(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _unrow(kind: type[Estimate] | type[TrailPoint], row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f.name: _unplain(row[_camel(f.name)]) if "float" in str(f.type) else row[_camel(f.name)] for f in fields(kind)
    }


def _unplain(value: float | str | None) -> float | None:
    return None if value is None else float(value)
