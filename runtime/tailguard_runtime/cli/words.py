"""How the command writes figures."""

from __future__ import annotations

import math


def ratio(value: float | None) -> str:
    """A ratio, such as 1.21x."""
    if value is None:
        return "no data"
    return "unbounded" if math.isinf(value) else f"{value:.2f}x"


def interval(low: float, high: float) -> str:
    """An interval of ratios; an open end is written as such."""
    upper = "..." if math.isinf(high) else f"{high:.2f}"
    return f"{low:.2f} to {upper}"


def latency(seconds: float | None) -> str:
    """A latency, such as 812 ms."""
    if seconds is None:
        return "no data"
    if math.isinf(seconds):
        return "unbounded"
    milliseconds = seconds * 1000
    return f"{milliseconds:,.0f} ms" if milliseconds >= 100 else f"{milliseconds:.1f} ms"


def share(value: float | None) -> str:
    """A share, such as 1.2 %."""
    return "no data" if value is None else f"{value:.1%}"


def evidence(value: float) -> str:
    """Evidence (an e-value) with as many digits as matter."""
    return f"{value:.3g}" if value < 1e6 else f"{value:.1e}"
