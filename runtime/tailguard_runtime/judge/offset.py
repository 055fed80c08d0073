"""How much identical pods differ from one start to the next (judge-designs.md 3 D).

An A/A start measures two identical pods; its slots' log ratios scatter around an offset that the coin can't remove,
because it stays with the pods. Which pod plays which arm is arbitrary, so the offset's mean is 0 and its variance is
the mean square of the starts' means, less what the slots' own noise adds to such a mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tailguard_runtime.judge.pairs import take_pairs
from tailguard_runtime.judge.samples import FloatArray, Slot
from tailguard_runtime.judge.spec import ALL_REQUESTS, Metric

STARTS_NEEDED: Final = 4
LEAST_SD: Final = 0.04
"""s while there are fewer than four starts, unless they already show more."""


@dataclass(frozen=True)
class StartOffset:
    """What one A/A start says of one metric.

    Attributes:
        metric: The metric.
        mean: Mean over the slots of the median ln(L_a / L_b).
        slot_variance: Variance of those medians between slots; 0 for a single slot.
        slots: Slots behind them.
    """

    metric: Metric
    mean: float
    slot_variance: float
    slots: int


def start_offsets(slots: Sequence[Slot], metrics: Sequence[Metric]) -> tuple[StartOffset, ...]:
    """The offsets of one A/A start, for every metric that has a slot with a finite median ratio."""
    found = ((metric, _slot_medians(slots, metric)) for metric in metrics)
    return tuple(
        StartOffset(metric, float(medians.mean()), _variance(medians), len(medians))
        for metric, medians in found
        if len(medians)
    )


def offset_sd(history: Sequence[Sequence[StartOffset]]) -> float:
    """S for a judge's specification: the largest over the metrics of the estimated sd between starts.

    s^2 = max(0, mean square of start means - mean of slot variance / slots); never below .04 while there are fewer
    than four starts.

    Args:
        history: One item an A/A start, newest or oldest first.
    """
    by_metric = [[o for start in history for o in start if o.metric is metric] for metric in Metric]
    estimate = max((_between_starts(offsets) for offsets in by_metric if offsets), default=0.0)
    return estimate if len(history) >= STARTS_NEEDED else max(LEAST_SD, estimate)


def _between_starts(offsets: Sequence[StartOffset]) -> float:
    squares = np.mean([offset.mean**2 for offset in offsets])
    noise = np.mean([offset.slot_variance / offset.slots for offset in offsets])
    return math.sqrt(max(0.0, float(squares - noise)))


def _slot_medians(slots: Sequence[Slot], metric: Metric) -> FloatArray:
    pairs, _ = take_pairs([slot for slot in slots if not slot.void], metric, ALL_REQUESTS)
    both = np.isfinite(pairs.canary) & np.isfinite(pairs.twin)
    starts = np.concatenate([[0], pairs.ends[:-1]]) if len(pairs) else pairs.ends
    cuts = [slice(a, b) for a, b in zip(starts, pairs.ends, strict=True)]
    return np.array([np.median(pairs.canary[c][both[c]] - pairs.twin[c][both[c]]) for c in cuts if both[c].any()])


def _variance(values: FloatArray) -> float:
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0
