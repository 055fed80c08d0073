"""The interval of a ratio that holds at whatever slot one stops.

It is {t: neither side of the process at tolerance t has reached its threshold}. If the true ratio is t, the process at
t bets on fair coins, so by Ville's inequality either side ever reaches 1 / a with probability a at most: the true ratio
is ever outside with probability 2 a at most.

The part of that set around the estimate is reported. Ratios far away are excluded in any case, though not always by
their own process: a count whose threshold has jumped bets too little to say so. The ends are rounded outwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tailguard_runtime.judge.component import ComponentProcess, Side
from tailguard_runtime.judge.pairs import Pairs
from tailguard_runtime.judge.score import Component

LEAST_RATIO = 0.01
GREATEST_RATIO = 100.0
_FIRST_STEP = 0.01
_RESOLUTION = 5e-4
"""The ends are exact to 0.05 %."""


def ratio_interval(
    component: Component,
    pairs: Pairs,
    baseline: Mapping[str, float],
    *,
    slower: float,
    faster: float,
) -> tuple[float, float]:
    """The ratios of canary to twin that the evidence leaves open.

    Args:
        component: The statistic.
        pairs: All pairs so far.
        baseline: Frozen quantiles in seconds.
        slower: Evidence that excludes a ratio as too small.
        faster: Evidence that excludes a ratio as too large.

    Returns:
        (low, high) with 0 and +inf where nothing is excluded. Ratios below 0.01 and above 100 aren't told apart.
    """

    def excluded(side: Side, threshold: float) -> Callable[[float], bool]:
        return lambda log: _reaches(ComponentProcess(component, math.exp(log), baseline), pairs, side, threshold)

    estimate = component.log_ratio(pairs.canary, pairs.twin)
    centre = 0.0 if math.isnan(estimate) else _bounded(estimate)
    low = _excluded_end(excluded(Side.SLOWER, slower), centre, -1)
    high = _excluded_end(excluded(Side.FASTER, faster), centre, 1)
    return math.exp(low), math.exp(high)


def _reaches(process: ComponentProcess, pairs: Pairs, side: Side, threshold: float) -> bool:
    seen = 0
    while process.step(pairs):
        if process.evidence[side, seen:].max() >= threshold:
            return True
        seen = process.evidence.shape[1]
    return False


def _excluded_end(excluded: Callable[[float], bool], centre: float, outward: int) -> float:
    """The last excluded log ratio before the open ones, seen from outside; infinite when none is excluded."""
    closed = excluded(centre)
    direction = -outward if closed else outward
    last, step = centre, _FIRST_STEP
    while excluded(reached := _bounded(centre + direction * step)) is closed:
        if reached == last:
            return reached if closed else outward * math.inf
        last, step = reached, 2 * step
    return _bisected(excluded, *((last, reached) if closed else (reached, last)))


def _bisected(excluded: Callable[[float], bool], outside: float, inside: float) -> float:
    while abs(outside - inside) > _RESOLUTION:
        middle = (outside + inside) / 2
        outside, inside = (middle, inside) if excluded(middle) else (outside, middle)
    return outside


def _bounded(log_ratio: float) -> float:
    return min(max(log_ratio, math.log(LEAST_RATIO)), math.log(GREATEST_RATIO))
