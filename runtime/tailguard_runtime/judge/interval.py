"""The interval of a ratio that holds at whatever slot one stops.

It is {t: neither side of the process at tolerance t has reached its threshold}. If the true ratio is t, the process at
t bets on fair coins, so by Ville's inequality either side ever reaches 1 / a with probability a at most: the true ratio
is ever outside with probability 2 a at most. The ends are found by bisection, which takes the set for an interval; its
ends are rounded outwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tailguard_runtime.judge.component import ComponentProcess, Side
from tailguard_runtime.judge.pairs import Pairs
from tailguard_runtime.judge.score import Component

LEAST_RATIO = 0.01
GREATEST_RATIO = 100.0
_HALVINGS = 14
"""Steps of the bisection: the ends are exact to 0.06 %."""


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
        return lambda ratio: _reaches(ComponentProcess(component, ratio, baseline), pairs, side, threshold)

    return _low_end(excluded(Side.SLOWER, slower)), _high_end(excluded(Side.FASTER, faster))


def _reaches(process: ComponentProcess, pairs: Pairs, side: Side, threshold: float) -> bool:
    seen = 0
    while process.step(pairs):
        if process.evidence[side, seen:].max() >= threshold:
            return True
        seen = process.evidence.shape[1]
    return False


def _low_end(too_small: Callable[[float], bool]) -> float:
    if not too_small(LEAST_RATIO):
        return 0.0
    return GREATEST_RATIO if too_small(GREATEST_RATIO) else _boundary(too_small)[0]


def _high_end(too_large: Callable[[float], bool]) -> float:
    if not too_large(GREATEST_RATIO):
        return math.inf
    return LEAST_RATIO if too_large(LEAST_RATIO) else _boundary(lambda ratio: not too_large(ratio))[1]


def _boundary(holds: Callable[[float], bool]) -> tuple[float, float]:
    """A bracket around the ratio where `holds` turns from true to false."""
    low, high = math.log(LEAST_RATIO), math.log(GREATEST_RATIO)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(math.exp(middle)) else (low, middle)
    return math.exp(low), math.exp(high)
