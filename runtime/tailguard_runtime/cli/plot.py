"""Plots for a terminal: quantiles of both arms, and the evidence slot by slot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailguard_runtime.judge import Metric, Slot, Verdict

WIDTH, HEIGHT = 76, 16
_COLUMNS = {"TTFT": "ttft_s", "TPOT": "tpot_s", "Latency": "e2e_s"}
_PERCENTILES = [*range(1, 100), 99.5, 99.9]


def quantiles(slots: Sequence[Slot], metric: Metric) -> str:
    """Quantile curves of both arms over all valid slots, in milliseconds."""
    import numpy as np
    import plotext as plt

    plt.clear_figure()
    for arm in ("twin", "canary"):
        halves = [slot.half(arm) for slot in slots if not slot.void]
        values = np.concatenate([getattr(half, _COLUMNS[metric.value]) for half in halves]) if halves else np.array([])
        finite = values[np.isfinite(values)]
        if len(finite):
            plt.plot(_PERCENTILES, [float(np.percentile(finite, p)) * 1000 for p in _PERCENTILES], label=arm)
    return _draw(f"{metric} in ms by percentile", "percentile")


def trail(verdict: Verdict, alarm: float) -> str:
    """Evidence for a drift after each slot, as powers of ten, with the threshold of an alarm."""
    import plotext as plt

    plt.clear_figure()
    valid = [point for point in verdict.trail if not point.void]
    if not valid:
        return ""
    xs = [point.requests for point in valid]
    for name in ("alarm", "promote"):
        plt.plot(xs, [math.log10(max(getattr(point, name), 1e-3)) for point in valid], label=name)
    plt.hline(math.log10(alarm))
    return _draw("evidence after so many requests, log10; the line is the threshold", "requests")


def _draw(title: str, xlabel: str) -> str:
    import plotext as plt

    plt.theme("clear")
    plt.plotsize(WIDTH, HEIGHT)
    plt.title(title)
    plt.xlabel(xlabel)
    return str(plt.build())
