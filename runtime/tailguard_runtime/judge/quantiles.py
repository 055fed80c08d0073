"""Percentiles by nearest rank, and the order statistics that bound them.

No interpolation: between a measured latency and a failure (+inf) it would give nan (statistics.md 1 and 7.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import bdtr, bdtrik

from tailguard_runtime.judge.samples import FloatArray


class PercentileError(ValueError):
    """A percentile that is no number between 0 and 100, both excluded."""


@dataclass(frozen=True)
class Quantile:
    """A measured percentile.

    Attributes:
        value: Seconds by nearest rank; +inf = unbounded (that many requests failed), None = nothing was measured.
        low: Lower end of the interval, 0 when the sample is too small for one.
        high: Upper end of the interval, +inf when the sample is too small for one or too many failed.
        requests: Size of the sample.
    """

    value: float | None
    low: float
    high: float
    requests: int


def exact_percentile(percentile: str) -> Fraction:
    """The percentile "99.9" as an exact share of one, so that no rank is off by a rounding.

    Raises:
        PercentileError: Not a number, or not between 0 and 100.
    """
    try:
        share = Fraction(percentile) / 100
    except (ValueError, ZeroDivisionError) as problem:
        raise PercentileError(f'percentile is {percentile!r}, wanted a number such as "99" or "99.9"') from problem
    if not 0 < share < 1:
        raise PercentileError(f"percentile is {percentile!r}, wanted above 0 and below 100")
    return share


def nearest_rank(values: FloatArray, share: Fraction) -> float:
    """The least value that at least `share` of the sample doesn't exceed; +inf counts, nan for an empty sample."""
    if not len(values):
        return math.nan
    rank = math.ceil(share * len(values))
    return float(np.partition(values, rank - 1)[rank - 1])


def measure(values: FloatArray, percentile: str, *, confidence: float = 0.95) -> Quantile:
    """A percentile with its order-statistic interval.

    With l = binom.ppf(a/2) and u = binom.ppf(1 - a/2) + 1, the l-th and u-th smallest values hold the true quantile
    between them with probability 1 - a or more, for independent requests of any distribution (statistics.md 7.1).

    Args:
        values: Latencies in seconds, shape (n,), +inf for failures.
        percentile: Such as "99.9".
        confidence: 1 - a.

    Raises:
        PercentileError: See :func:`exact_percentile`.
    """
    share = exact_percentile(percentile)
    count = len(values)
    if not count:
        return Quantile(None, 0.0, math.inf, 0)
    ordered = np.sort(values)
    outside = (1 - confidence) / 2
    low_rank = _binomial_quantile(outside, count, float(share))
    high_rank = _binomial_quantile(1 - outside, count, float(share)) + 1
    return Quantile(
        value=float(ordered[math.ceil(share * count) - 1]),
        low=float(ordered[low_rank - 1]) if low_rank >= 1 else 0.0,
        high=float(ordered[high_rank - 1]) if high_rank <= count else math.inf,
        requests=count,
    )


def _binomial_quantile(probability: float, count: int, share: float) -> int:
    """binom.ppf, without the second that importing scipy.stats takes."""
    upper = math.ceil(float(bdtrik(probability, count, share)))
    lower = max(upper - 1, 0)
    return lower if float(bdtr(lower, count, share)) >= probability else upper
