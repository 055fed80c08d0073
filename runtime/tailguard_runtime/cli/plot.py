"""Plots for a terminal: quantiles of both arms, and the evidence slot by slot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

if TYPE_CHECKING:
    from tailguard_runtime.judge import Arm, Metric, Slot, Verdict

Curves = dict[str, tuple[Sequence[float], Sequence[float]]]
"""x and y of each curve, by name."""
WIDTH, HEIGHT = 78, 16
_COLUMNS = {"TTFT": "ttft_s", "TPOT": "tpot_s", "Latency": "e2e_s"}
_PERCENTILES = [*range(1, 100), 99.5, 99.9]
_ARMS: tuple[Arm, ...] = ("twin", "canary")
_LEAST = 1e-3
"""Evidence below this is drawn as this: how little there is says nothing."""


def quantiles(slots: Sequence[Slot], metric: Metric) -> Text:
    """Quantile curves of both arms over all valid slots, in milliseconds; failed requests have no latency to draw."""
    import numpy as np

    curves: Curves = {}
    for arm in _ARMS:
        halves = [getattr(slot.half(arm), _COLUMNS[metric.value]) for slot in slots if not slot.void]
        values = np.concatenate(halves) if halves else np.array([])
        finite = values[np.isfinite(values)]
        if len(finite):
            curves[arm] = (_PERCENTILES, [float(np.percentile(finite, p)) * 1000 for p in _PERCENTILES])
    return _draw(f"{metric} in ms by percentile", "percentile", curves)


def trail(verdict: Verdict, alarm: float) -> Text:
    """Evidence for drift and for proof after each slot, as powers of ten, with the threshold of an alarm."""
    valid = [point for point in verdict.trail if not point.void]
    requests = [float(point.requests) for point in valid]
    curves: Curves = {
        "drift": (requests, [math.log10(max(point.alarm, _LEAST)) for point in valid]),
        "proof": (requests, [math.log10(max(point.promote, _LEAST)) for point in valid]),
    }
    if len(valid) > 1:
        curves[f"threshold {alarm:.0f}"] = ([requests[0], requests[-1]], [math.log10(alarm)] * 2)
    return _draw("evidence, as a power of ten", "requests to both arms", curves if valid else {})


def _draw(title: str, xlabel: str, curves: Curves) -> Text:
    """The curves, each drawn with the first letter of its name: that needs no colour, and no legend in the way."""
    if not curves:
        return Text()
    from plotext import figure

    figure.clear()
    figure.theme("colorless")
    figure.plot_size(WIDTH, HEIGHT)
    figure.title(f"{title}: {', '.join(f'{name[0]} = {name}' for name in curves)}")
    figure.label(xlabel)
    for name, (xs, ys) in curves.items():
        signal: Any = figure.signal(list(xs), list(ys), marker=name[0])
        signal.lines()
        figure.draw(signal)
    return Text.from_ansi(str(figure.build()))
