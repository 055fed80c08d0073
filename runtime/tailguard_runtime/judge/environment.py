"""Has the environment moved since the baseline was frozen? The twin's latencies against the frozen quantiles.

No coin protects this comparison, so its tolerance is wider by 2.33 s, the offset that identical pods pass once in a
hundred starts, and its result is a flag on a verdict, never a verdict.

A slot's bet is linear in the number K of twin latencies above a threshold u with P(L > u) <= p under "not slower":
K / (M p) - 1 has mean 0 or less however the requests of a slot depend on each other, as long as the slots' bets do not
anticipate one another, so the wealth is a supermartingale. For "not faster" it is (M p - K) / (M (1 - p)). The flag is
raised at 1 / .05 by the average over metrics, classes, quantiles and both sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tailguard_runtime.judge.bets import STAKES
from tailguard_runtime.judge.pairs import Pairs
from tailguard_runtime.judge.samples import FloatArray

FLAG = "environmentChanged"
FLAG_THRESHOLD = 20.0
OFFSET_QUANTILE = 2.33
"""Standard deviations of the pods' offset by which the tolerance is widened."""


def drift_evidence(pairs: Pairs, baseline: Mapping[str, float], tolerance: float, offset_sd: float) -> list[float]:
    """Evidence at the last slot that the twin left the frozen quantiles, one value a quantile and side.

    Args:
        pairs: All pairs so far; only the twin's values are used.
        baseline: Frozen quantiles in seconds by "p50", "p90", "p99".
        tolerance: Tau.
        offset_sd: s.
    """
    if not len(pairs):
        return [1.0 for _ in baseline for _ in range(2)]
    margin = math.log(tolerance) + OFFSET_QUANTILE * offset_sd
    evidence = []
    for quantile, seconds in baseline.items():
        share = 1 - int(quantile.removeprefix("p")) / 100
        above, sizes = _counts(pairs, math.log(seconds) + margin)
        evidence.append(_wealth(above / (sizes * share) - 1))
        above, sizes = _counts(pairs, math.log(seconds) - margin)
        evidence.append(_wealth((sizes * share - above) / (sizes * (1 - share))))
    return evidence


def _counts(pairs: Pairs, threshold: float) -> tuple[FloatArray, FloatArray]:
    starts = np.concatenate([[0], pairs.ends[:-1]])
    above = np.add.reduceat((pairs.twin > threshold).astype(np.float64), starts)
    return above, np.diff(pairs.ends, prepend=0).astype(np.float64)


def _wealth(bets: FloatArray) -> float:
    with np.errstate(over="ignore"):
        return float(np.prod(1 + STAKES[:, None] * bets, axis=1).mean())
