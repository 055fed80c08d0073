"""One metric and one class: its pairs and every process that a decision needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailguard_runtime.judge.component import ComponentProcess, Side
from tailguard_runtime.judge.environment import drift_evidence
from tailguard_runtime.judge.interval import ratio_interval
from tailguard_runtime.judge.pairs import NO_PAIRS, take_pairs
from tailguard_runtime.judge.samples import FloatArray, IntArray, Slot
from tailguard_runtime.judge.score import COMPONENTS, P90, P99, TYPICAL, Component
from tailguard_runtime.judge.spec import JudgeSpec, Metric, RequestClass
from tailguard_runtime.judge.verdict import Estimate


@dataclass(frozen=True)
class SlotEvidence:
    """Evidence of one series after each of some slots, each of shape (slots,)."""

    alarm: FloatArray
    gross: FloatArray
    promote: FloatArray


class Series:
    """The evidence of one metric and class; slots without a pair of this class leave it as it was."""

    def __init__(self, spec: JudgeSpec, metric: Metric, request_class: RequestClass) -> None:
        self.metric = metric
        self.request_class = request_class
        self.pairs = NO_PAIRS
        self._places: IntArray = np.zeros(1, dtype=np.int64)
        self._spec = spec
        self._baseline = spec.baseline(metric, request_class)
        self._proof: dict[Component, float] = {
            TYPICAL: 1 + spec.proof.typical / 100,
            P90: 1 + spec.proof.p90 / 100,
            P99: 1 + spec.proof.p99 / 100,
        }
        tolerances = (spec.tolerance_ratio, spec.gross_ratio)
        wanted = {(component, ratio) for component in COMPONENTS for ratio in tolerances} | set(self._proof.items())
        self._processes = {
            (component, ratio): ComponentProcess(component, ratio, self._baseline) for component, ratio in wanted
        }

    def extend(self, slots: Sequence[Slot]) -> SlotEvidence:
        """Takes further valid slots; returns the evidence after each of them."""
        later, sizes = take_pairs(slots, self.metric, self.request_class)
        place = len(self.pairs) + np.cumsum(sizes > 0)
        self._places = np.concatenate([self._places, place])
        self.pairs = self.pairs.followed_by(later)
        for process in self._processes.values():
            process.advance(self.pairs)
        claims = [self._of(component, ratio, Side.FASTER, place) for component, ratio in self._proof.items()]
        return SlotEvidence(
            alarm=self._slower(self._spec.tolerance_ratio, place),
            gross=self._slower(self._spec.gross_ratio, place),
            promote=np.asarray(np.min(claims, axis=0)),
        )

    def keep(self, slots: int) -> None:
        """Forgets all but the first `slots` valid slots: later ones came after the decision."""
        self._places = self._places[: slots + 1]
        self.pairs = self.pairs.first(int(self._places[-1]))

    def environment(self) -> list[float]:
        """See :func:`drift_evidence`."""
        spec = self._spec
        return drift_evidence(self.pairs, self._baseline, spec.tolerance_ratio, spec.offset_sd)

    def estimates(self) -> list[Estimate]:
        """What the pairs say of each statistic, with the interval that holds at any stop."""
        return [self._estimate(component) for component in COMPONENTS]

    def _slower(self, ratio: float, place: IntArray) -> FloatArray:
        parts = [component.weight * self._of(component, ratio, Side.SLOWER, place) for component in COMPONENTS]
        return np.asarray(np.sum(parts, axis=0))

    def _of(self, component: Component, ratio: float, side: Side, place: IntArray) -> FloatArray:
        return np.asarray(self._processes[component, ratio].evidence[side, place])

    def _estimate(self, component: Component) -> Estimate:
        spec, last = self._spec, np.array([len(self.pairs)])
        low, high = ratio_interval(
            component,
            self.pairs,
            self._baseline,
            slower=spec.alarm_threshold,
            faster=spec.promote_threshold,
        )
        canary, twin = component.value(self.pairs.canary), component.value(self.pairs.twin)
        return Estimate(
            metric=str(self.metric),
            request_class=self.request_class.name,
            statistic=component.name,
            ratio=_exp(component.log_ratio(self.pairs.canary, self.pairs.twin)),
            low=low,
            high=high,
            canary_value=_exp(canary),
            twin_value=_exp(twin),
            e_alarm=float(self._of(component, spec.tolerance_ratio, Side.SLOWER, last)[0]),
            e_promote=float(self._of(component, self._proof[component], Side.FASTER, last)[0]),
        )


def _exp(logarithm: float) -> float | None:
    if math.isnan(logarithm):
        return None
    return math.inf if logarithm > 700 else float(f"{math.exp(logarithm):.9g}")


def alarm_evidence(slots: Sequence[Slot], spec: JudgeSpec) -> FloatArray:
    """Evidence of an alarm after each of some valid slots, over all metrics and classes, without stopping."""
    series = [Series(spec, metric, group) for metric in spec.metrics for group in spec.classes]
    return np.asarray(np.mean([one.extend(slots).alarm for one in series], axis=0))
