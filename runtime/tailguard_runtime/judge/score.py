"""What one slot says about the arms: three scores, each antisymmetric in the arms (judge-designs.md 2).

All of it works on x = ln L_canary and y = ln(t L_twin) for a tolerance t, so that swapping x and y changes nothing but
the sign. Failures are +inf. The scales and thresholds come from the past alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from tailguard_runtime.judge.quantiles import nearest_rank
from tailguard_runtime.judge.samples import FloatArray, IntArray


class Component(Protocol):
    """One of the three scores."""

    @property
    def name(self) -> str:
        """The statistic it judges: "typical", "P90" or "P99"."""

    @property
    def weight(self) -> float:
        """Its share of a metric's evidence."""

    @property
    def first_refresh(self) -> int:
        """Pairs after which the reference is first taken from the past; then at every doubling."""

    @property
    def least_scale(self) -> float:
        """The least scale S that a bet divides by."""

    def unit(self, sizes: IntArray) -> FloatArray:
        """s0, the score's sd for slots of `sizes` independent pairs without drift, shape (slots,)."""

    def initial(self, baseline: Mapping[str, float], log_tolerance: float) -> float:
        """The reference before the first refresh, from frozen quantiles in seconds; nan = no bet can be made yet."""

    def refreshed(self, x: FloatArray, y: FloatArray, current: float) -> float:
        """The reference from all pairs so far."""

    def score(self, x: FloatArray, y: FloatArray, reference: float, starts: IntArray) -> FloatArray:
        """The slots' d; slot k is the pairs from `starts[k]` to the next start. Positive: the canary is slower."""

    def value(self, logs: FloatArray) -> float:
        """The statistic of one arm by nearest rank, as ln seconds; +inf = unbounded, nan = no data."""

    def log_ratio(self, x: FloatArray, y: FloatArray) -> float:
        """The point estimate of ln(canary / twin); nan when both are unbounded or there is no data."""


@dataclass(frozen=True)
class PairScore:
    """Sum of tanh(D / h) over the pairs, D = x - y and h = 1.4826 median |D| of the past."""

    name: str = "typical"
    weight: float = 0.5
    first_refresh: int = 100
    least_scale: float = 0.0

    def unit(self, sizes: IntArray) -> FloatArray:
        """0.63 sqrt(M)."""
        return np.asarray(0.63 * np.sqrt(sizes))

    def initial(self, baseline: Mapping[str, float], log_tolerance: float) -> float:
        """0.3, whatever the baseline."""
        return 0.3

    def refreshed(self, x: FloatArray, y: FloatArray, current: float) -> float:
        """h; the current one when the median is 0 (all tied) or infinite (most pairs have one failure)."""
        scale = 1.4826 * float(np.median(np.abs(_differences(x, y))))
        return scale if 0 < scale < math.inf else current

    def score(self, x: FloatArray, y: FloatArray, reference: float, starts: IntArray) -> FloatArray:
        """The sums; a pair with one failure counts 1 or -1, with two 0."""
        return np.add.reduceat(np.tanh(_differences(x, y) / reference), starts)

    def value(self, logs: FloatArray) -> float:
        """The median."""
        return nearest_rank(logs, Fraction(1, 2))

    def log_ratio(self, x: FloatArray, y: FloatArray) -> float:
        """The median of the pairs' differences, without the pairs that failed in both arms."""
        with np.errstate(invalid="ignore"):
            difference = x - y
        return nearest_rank(difference[~np.isnan(difference)], Fraction(1, 2))


@dataclass(frozen=True)
class CountScore:
    """How many more canary than twin latencies lie above u, the pooled past's quantile (the baseline's at first)."""

    percent: int
    weight: float = 0.25
    first_refresh: int = 200
    least_scale: float = 1.0

    @property
    def name(self) -> str:
        """P90 or P99."""
        return f"P{self.percent}"

    def unit(self, sizes: IntArray) -> FloatArray:
        """sqrt(2 M q (1 - q))."""
        share = self.percent / 100
        return np.asarray(np.sqrt(2 * sizes * share * (1 - share)))

    def initial(self, baseline: Mapping[str, float], log_tolerance: float) -> float:
        """Ln of tolerance times the frozen quantile."""
        seconds = baseline.get(f"p{self.percent}")
        return math.nan if seconds is None else math.log(seconds) + log_tolerance

    def refreshed(self, x: FloatArray, y: FloatArray, current: float) -> float:
        """The pooled past's u; the largest finite latency where u would be infinite, so that failures lie above."""
        pooled = np.concatenate([x, y])
        quantile = self.value(pooled)
        if quantile < math.inf:
            return quantile
        finite = pooled[np.isfinite(pooled)]
        return float(finite.max()) if len(finite) else current

    def score(self, x: FloatArray, y: FloatArray, reference: float, starts: IntArray) -> FloatArray:
        """The differences of the counts."""
        above = (x > reference).astype(np.int64) - (y > reference)
        return np.add.reduceat(above, starts).astype(np.float64)

    def value(self, logs: FloatArray) -> float:
        """The quantile."""
        return nearest_rank(logs, Fraction(self.percent, 100))

    def log_ratio(self, x: FloatArray, y: FloatArray) -> float:
        """The difference of the arms' quantiles."""
        return self.value(x) - self.value(y)


TYPICAL = PairScore()
P90 = CountScore(90)
P99 = CountScore(99)
COMPONENTS: tuple[Component, Component, Component] = (TYPICAL, P90, P99)


def _differences(x: FloatArray, y: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):
        difference = x - y
    # inf - inf: both arms failed on the same prompt, which says nothing about either.
    difference[np.isnan(difference)] = 0.0
    return difference
