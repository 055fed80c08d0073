"""Whether the environment moved since the freeze."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tailguard_runtime.judge.environment import FLAG_THRESHOLD, drift_evidence
from tailguard_runtime.judge.pairs import NO_PAIRS, Pairs

SD = 0.5
BASELINE = {"p50": 1.0, "p90": math.exp(1.2816 * SD), "p99": math.exp(2.3263 * SD)}


def evidence(
    seed: int, ratio: float, *, slots: int = 40, sd: float = 0.04, baseline: dict[str, float] = BASELINE
) -> float:
    twin = math.log(ratio) + SD * np.random.default_rng(seed).standard_normal(50 * slots)
    pairs = Pairs(twin, twin, np.arange(50, 50 * slots + 1, 50))
    return float(np.mean(drift_evidence(pairs, baseline, 1.08, sd)))


@pytest.mark.parametrize("ratio", [1.6, 0.6])
def test_a_twin_far_from_the_baseline_is_noticed(ratio: float) -> None:
    assert evidence(1, ratio) >= FLAG_THRESHOLD


@pytest.mark.parametrize("ratio", [1.0, 1.08, 1 / 1.08, 1.08 * math.exp(2.33 * 0.04)])
def test_a_twin_within_the_widened_tolerance_is_not(ratio: float) -> None:
    # Given 200 runs up to the very boundary
    flagged = sum(evidence(seed, ratio) >= FLAG_THRESHOLD for seed in range(200))
    # Then no more than one in twenty is flagged
    assert flagged / 200 <= 0.05


def test_the_offset_of_pods_widens_the_tolerance() -> None:
    # Given a twin that is 30 % slower than the baseline
    sure, unsure = (evidence(2, 1.3, slots=80, sd=sd) for sd in (0.01, 0.12))
    # Then it is noticed only where identical pods don't differ so much
    assert sure >= FLAG_THRESHOLD > unsure


def test_requests_of_a_slot_that_move_together_do_not_fool_it() -> None:
    # Given slots in which all requests exceed P90 together, in one slot of ten
    flagged = 0
    for seed in range(300):
        above = np.random.default_rng(seed).random(40) < 0.1
        twin = np.repeat(np.where(above, 2.0, -2.0), 50)
        pairs = Pairs(twin, twin, np.arange(50, 2001, 50))
        slower = drift_evidence(pairs, {"p90": 1.0}, 1.08, 0.0)[0]
        flagged += slower >= FLAG_THRESHOLD
    # Then the share of exceedances is as promised, and it is flagged as seldom
    assert flagged / 300 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)


def test_failures_of_the_twin_are_a_change() -> None:
    twin = np.full(1000, math.inf)
    found = drift_evidence(Pairs(twin, twin, np.arange(50, 1001, 50)), BASELINE, 1.08, 0.04)
    assert np.mean(found) >= FLAG_THRESHOLD


def test_without_baseline_or_data_there_is_no_evidence() -> None:
    assert drift_evidence(NO_PAIRS, BASELINE, 1.08, 0.04) == [1.0] * 6
    assert drift_evidence(Pairs(np.zeros(50), np.zeros(50), np.array([50])), {}, 1.08, 0.04) == []
