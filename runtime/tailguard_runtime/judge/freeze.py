"""What a Baseline keeps of its samples: quantiles, thresholds, and what an A/A start says of the pods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailguard_runtime.judge.offset import StartOffset, start_offsets
from tailguard_runtime.judge.pairs import pooled
from tailguard_runtime.judge.quantiles import Quantile, exact_percentile, measure, nearest_rank
from tailguard_runtime.judge.samples import ARMS, Arm, FloatArray, Slot
from tailguard_runtime.judge.series import alarm_evidence
from tailguard_runtime.judge.spec import ALL_REQUESTS, JudgeSpec, Metric, RequestClass

PERCENTILES = ("50", "90", "95", "99")
_THRESHOLDS = ("50", "90", "99")
_MICRO = 1_000_000


class FrozenFormatError(ValueError):
    """A stored baseline that can't be read; it is never taken for a pass."""


@dataclass(frozen=True)
class FrozenQuantile:
    """One quantile of the baseline with its 95 % order-statistic interval, in seconds."""

    metric: Metric
    request_class: str
    percentile: str
    quantile: Quantile


@dataclass(frozen=True)
class Frozen:
    """A baseline's figures; times are rounded to microseconds, so that JSON gives back exactly this object.

    Attributes:
        quantiles: P50, P90, P95 and P99 of every metric and class.
        thresholds: For `JudgeSpec.thresholds`: p50, p90, p99 in seconds; a quantile that is unbounded is the largest
            finite latency, and one without any is left out.
        requests: Requests behind it, over the arms taken and the valid slots.
        aa_alarm: Whether two identical pods differed beyond the tolerance; None = no A/A samples.
        offsets: The start's offset for each metric; empty = no A/A samples.
    """

    quantiles: tuple[FrozenQuantile, ...]
    thresholds: Mapping[str, Mapping[str, float]]
    requests: int
    aa_alarm: bool | None
    offsets: tuple[StartOffset, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON: integers and strings; null = unbounded."""
        return {
            "quantiles": [_quantile_json(row) for row in self.quantiles],
            "thresholdsMicroseconds": {
                key: {name: round(seconds * _MICRO) for name, seconds in row.items()}
                for key, row in self.thresholds.items()
            },
            "requests": self.requests,
            "aaAlarm": self.aa_alarm,
            "offsets": [_offset_json(offset) for offset in self.offsets],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Frozen:
        """The baseline that :meth:`to_json` wrote.

        Raises:
            FrozenFormatError: A field is missing or of the wrong kind (R-020: an error, never a pass).
        """
        try:
            return cls(
                quantiles=tuple(_quantile_from_json(row) for row in data["quantiles"]),
                thresholds={
                    key: {name: micros / _MICRO for name, micros in row.items()}
                    for key, row in data["thresholdsMicroseconds"].items()
                },
                requests=data["requests"],
                aa_alarm=data["aaAlarm"],
                offsets=tuple(_offset_from_json(row) for row in data["offsets"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise FrozenFormatError(f"the stored baseline can't be read: {problem!r}") from problem


def freeze(
    slots: Sequence[Slot],
    *,
    metrics: Sequence[Metric] = tuple(Metric),
    classes: Sequence[RequestClass] = (ALL_REQUESTS,),
    arms: Sequence[Arm] = ARMS,
    tolerance: int = 8,
) -> Frozen:
    """The figures of a new Baseline; void slots are left out.

    Args:
        slots: Of an A/A start (both arms), or of the deciding benchmark (the canary's arm only).
        metrics: Metrics to freeze.
        classes: Request classes to freeze.
        arms: Arms whose samples make up the baseline. Both arms mean an A/A start.
        tolerance: Percent, for the A/A alarm.
    """
    valid = [slot for slot in slots if not slot.void]
    samples = {(m, c.name): pooled(valid, arms, m, c) for m in metrics for c in classes}
    both = set(arms) == set(ARMS)
    return Frozen(
        quantiles=tuple(
            FrozenQuantile(metric, name, percentile, _rounded_quantile(measure(values, percentile)))
            for (metric, name), values in samples.items()
            for percentile in PERCENTILES
        ),
        thresholds={f"{metric}/{name}": _thresholds(values) for (metric, name), values in samples.items()},
        requests=sum(len(slot.half(arm)) for slot in valid for arm in arms),
        aa_alarm=_aa_alarm(valid, JudgeSpec(tuple(metrics), tuple(classes), tolerance)) if both else None,
        offsets=tuple(_rounded_offset(o) for o in start_offsets(valid, metrics)) if both else (),
    )


def _thresholds(values: FloatArray) -> dict[str, float]:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return {}
    found = {f"p{p}": min(nearest_rank(values, exact_percentile(p)), float(finite.max())) for p in _THRESHOLDS}
    return {name: _rounded(seconds) for name, seconds in found.items() if seconds >= 1 / _MICRO}


def _aa_alarm(valid: Sequence[Slot], spec: JudgeSpec) -> bool:
    """Whether the mean of the evidence in both directions ever reaches the threshold: one test, two sides."""
    evidence = alarm_evidence(valid, spec) + alarm_evidence([slot.swapped() for slot in valid], spec)
    return bool(evidence.max(initial=0.0) / 2 >= spec.alarm_threshold)


def _rounded(seconds: float) -> float:
    return round(seconds * _MICRO) / _MICRO if math.isfinite(seconds) else seconds


def _rounded_quantile(q: Quantile) -> Quantile:
    return Quantile(None if q.value is None else _rounded(q.value), _rounded(q.low), _rounded(q.high), q.requests)


def _rounded_offset(o: StartOffset) -> StartOffset:
    return StartOffset(o.metric, _rounded(o.mean), _rounded(o.slot_variance), o.slots)


def _quantile_json(row: FrozenQuantile) -> dict[str, Any]:
    q = row.quantile
    times = {"value": q.value, "low": q.low, "high": q.high}
    micros = {f"{name}Microseconds": _micros(seconds) for name, seconds in times.items()}
    about = {"metric": str(row.metric), "class": row.request_class, "percentile": row.percentile}
    return about | micros | {"requests": q.requests}


def _quantile_from_json(row: Mapping[str, Any]) -> FrozenQuantile:
    value, low, high = (_seconds(row[f"{name}Microseconds"]) for name in ("value", "low", "high"))
    quantile = Quantile(value if row["requests"] else None, low, high, row["requests"])
    return FrozenQuantile(Metric(row["metric"]), row["class"], row["percentile"], quantile)


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None or math.isinf(seconds) else round(seconds * _MICRO)


def _seconds(micros: int | None) -> float:
    return math.inf if micros is None else micros / _MICRO


def _offset_json(offset: StartOffset) -> dict[str, Any]:
    return {
        "metric": str(offset.metric),
        "meanMillionths": round(offset.mean * _MICRO),
        "slotVarianceMillionths": round(offset.slot_variance * _MICRO),
        "slots": offset.slots,
    }


def _offset_from_json(row: Mapping[str, Any]) -> StartOffset:
    mean, variance = row["meanMillionths"] / _MICRO, row["slotVarianceMillionths"] / _MICRO
    return StartOffset(Metric(row["metric"]), mean, variance, row["slots"])
