"""What a verdict is asked: metrics, request classes, tolerance, proof, error rates and budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

THRESHOLDS = ("p50", "p90", "p99")
_MICRO = 1_000_000


class SpecError(ValueError):
    """A field of the specification that can't be used; the message names it, its value and what is allowed."""


def _rounded(value: float) -> float:
    return round(value * _MICRO) / _MICRO


def _within(name: str, value: object, low: int, high: int | None) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
        allowed = f"{low} or more" if high is None else f"{low} to {high}"
        raise SpecError(f"{name} is {value!r}, wanted an integer of {allowed}")


class Metric(StrEnum):
    """A latency that is judged, always from the intended send."""

    TTFT = "TTFT"
    TPOT = "TPOT"
    LATENCY = "Latency"


@dataclass(frozen=True)
class RequestClass:
    """Requests whose prompt has from `min_prompt_tokens` to `max_prompt_tokens` tokens, both included."""

    name: str
    min_prompt_tokens: int = 0
    max_prompt_tokens: int | None = None

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name:
            raise SpecError(f"classes: name is {self.name!r}, wanted a word without '/'")
        if self.max_prompt_tokens is not None and self.max_prompt_tokens < self.min_prompt_tokens:
            raise SpecError(
                f"classes: {self.name} goes from {self.min_prompt_tokens} to {self.max_prompt_tokens} prompt tokens"
            )


ALL_REQUESTS = RequestClass("all")


@dataclass(frozen=True)
class Proof:
    """What PROMOTE proves, in percent: each statistic is no more than this above the twin's."""

    typical: int = 8
    p90: int = 8
    p99: int = 25

    def __post_init__(self) -> None:
        for name in ("typical", "p90", "p99"):
            _within(f"proof.{name}", getattr(self, name), 1, 100)


@dataclass(frozen=True)
class ErrorRates:
    """Upper bounds of a wrong alarm and of a wrong promotion at the boundary, in percent."""

    rollback: int = 5
    promote: int = 5

    def __post_init__(self) -> None:
        _within("errorRates.rollback", self.rollback, 1, 50)
        _within("errorRates.promote", self.promote, 1, 50)


@dataclass(frozen=True)
class JudgeSpec:
    """All that a verdict depends on beside the samples.

    Floats are rounded to millionths on construction, so that the JSON form (integers only) gives back exactly this
    object and the benchmark's judge and the operator's can't differ.

    Attributes:
        metrics: The latencies judged.
        classes: Request classes; each is judged for each metric.
        tolerance: Percent; an alarm is evidence that typical, P90 or P99 is worse than this.
        proof: What PROMOTE must prove.
        error_rates: Bounds of the two errors; the evidence needed is 100 over the rate.
        slot_requests: Requests of one arm in one slot, as planned.
        max_requests: Budget of both arms, `spent_requests` included.
        spent_requests: Requests that earlier benchmarks of the same rollout used.
        offset_sd: s, the sd of the log offset between identical pods from start to start.
        offset_starts: A/A starts behind `offset_sd`.
        thresholds: Quantiles of the frozen baseline in seconds, by "METRIC/CLASS" and "p50", "p90", "p99"; not yet
            multiplied by a tolerance. What is missing is taken from the run itself after 200 requests an arm.

    Raises:
        SpecError: A field outside its range.
    """

    metrics: tuple[Metric, ...] = tuple(Metric)
    classes: tuple[RequestClass, ...] = (ALL_REQUESTS,)
    tolerance: int = 8
    proof: Proof = Proof()
    error_rates: ErrorRates = ErrorRates()
    slot_requests: int = 50
    max_requests: int = 12_000
    spent_requests: int = 0
    offset_sd: float = 0.04
    offset_starts: int = 0
    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "offset_sd", _rounded(self.offset_sd))
        rounded = {key: {q: _rounded(s) for q, s in row.items()} for key, row in self.thresholds.items()}
        object.__setattr__(self, "thresholds", rounded)

    def _check(self) -> None:
        names = [c.name for c in self.classes]
        if not self.metrics or len(set(self.metrics)) != len(self.metrics):
            raise SpecError(f"metrics is {[*self.metrics]}, wanted one or more of {[*Metric]}, each once")
        if not names or len(set(names)) != len(names):
            raise SpecError(f"classes are named {names}, wanted one or more different names")
        _within("tolerance", self.tolerance, 1, 100)
        for name, low in (
            ("slot_requests", 1),
            ("max_requests", 1),
            ("spent_requests", 0),
            ("offset_starts", 0),
        ):
            _within(name, getattr(self, name), low, None)
        if not 0 <= self.offset_sd < 1:
            raise SpecError(f"offset_sd is {self.offset_sd}, wanted 0 or more and below 1 (a log ratio)")
        for key, row in self.thresholds.items():
            for quantile, seconds in row.items():
                if quantile not in THRESHOLDS:
                    raise SpecError(f"thresholds[{key}] has {quantile!r}, wanted {', '.join(THRESHOLDS)}")
                if not 1 / _MICRO <= seconds < math.inf:
                    raise SpecError(f"thresholds[{key}][{quantile}] is {seconds} s, wanted a microsecond or more")

    @property
    def alarm_threshold(self) -> float:
        """Evidence that an alarm needs."""
        return 100 / self.error_rates.rollback

    @property
    def promote_threshold(self) -> float:
        """Evidence that each claim of a promotion needs."""
        return 100 / self.error_rates.promote

    @property
    def tolerance_ratio(self) -> float:
        """Tau: the ratio of canary to twin that is still tolerated."""
        return 1 + self.tolerance / 100

    @property
    def gross_ratio(self) -> float:
        """The tolerance that a pod's own offset can't reach: tau exp(max(.1, 2.33 s)), judge-designs.md 1.6."""
        return self.tolerance_ratio * math.exp(max(0.1, 2.33 * self.offset_sd))

    @property
    def interval_percent(self) -> int:
        """Coverage of the estimates' intervals at any stop."""
        return 100 - self.error_rates.rollback - self.error_rates.promote

    def baseline(self, metric: Metric, request_class: RequestClass) -> Mapping[str, float]:
        """The frozen quantiles of one metric and class, in seconds; empty when none were frozen."""
        return self.thresholds.get(f"{metric}/{request_class.name}", {})

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON: integers and strings only, times in microseconds."""
        return {
            "metrics": [str(metric) for metric in self.metrics],
            "classes": [_class_json(c) for c in self.classes],
            "tolerance": self.tolerance,
            "proof": {"typical": self.proof.typical, "p90": self.proof.p90, "p99": self.proof.p99},
            "errorRates": {"rollback": self.error_rates.rollback, "promote": self.error_rates.promote},
            "slotRequests": self.slot_requests,
            "maxRequests": self.max_requests,
            "spentRequests": self.spent_requests,
            "offsetSdMillionths": round(self.offset_sd * _MICRO),
            "offsetStarts": self.offset_starts,
            "thresholdsMicroseconds": {
                key: {quantile: round(seconds * _MICRO) for quantile, seconds in row.items()}
                for key, row in self.thresholds.items()
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> JudgeSpec:
        """The specification that :meth:`to_json` wrote.

        Raises:
            SpecError: A field is missing, of the wrong kind, or outside its range.
        """
        try:
            return cls(
                metrics=tuple(Metric(name) for name in data["metrics"]),
                classes=tuple(_class_from_json(c) for c in data["classes"]),
                tolerance=data["tolerance"],
                proof=Proof(**data["proof"]),
                error_rates=ErrorRates(**data["errorRates"]),
                slot_requests=data["slotRequests"],
                max_requests=data["maxRequests"],
                spent_requests=data["spentRequests"],
                offset_sd=data["offsetSdMillionths"] / _MICRO,
                offset_starts=data["offsetStarts"],
                thresholds={
                    key: {quantile: micros / _MICRO for quantile, micros in row.items()}
                    for key, row in data["thresholdsMicroseconds"].items()
                },
            )
        except SpecError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise SpecError(f"the judge's specification can't be read: {problem!r}") from problem


def _class_json(request_class: RequestClass) -> dict[str, Any]:
    limit = request_class.max_prompt_tokens
    row: dict[str, Any] = {"name": request_class.name, "minPromptTokens": request_class.min_prompt_tokens}
    return row if limit is None else row | {"maxPromptTokens": limit}


def _class_from_json(row: Mapping[str, Any]) -> RequestClass:
    return RequestClass(row["name"], row.get("minPromptTokens", 0), row.get("maxPromptTokens"))
