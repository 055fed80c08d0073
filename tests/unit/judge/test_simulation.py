"""Error rates and requests to a verdict against the tables of judge-designs.md, on seeded runs of one metric."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tailguard_runtime.judge.component import ComponentProcess, Side
from tailguard_runtime.judge.pairs import Pairs
from tailguard_runtime.judge.score import COMPONENTS, P90, P99, TYPICAL

SLOTS, SIZE, THRESHOLD = 120, 50, 20
MakePairs = Callable[..., Pairs]


@dataclass(frozen=True)
class Law:
    """Lognormal latencies: sd by the prompt (shared by the arms), own sd, and noise of each arm and half."""

    shared: float = 0.45
    own: float = 0.2
    slot_noise: float = 0.0

    def pairs(self, seed: int, ratio: float) -> Pairs:
        rng = np.random.default_rng(seed)
        prompt = self.shared * rng.standard_normal(SLOTS * SIZE)
        own = self.own * rng.standard_normal((2, SLOTS * SIZE))
        noise = np.repeat(self.slot_noise * rng.standard_normal((2, SLOTS)), SIZE, axis=1)
        canary, twin = prompt + own + noise
        return Pairs(canary + math.log(ratio), twin, np.arange(SIZE, SLOTS * SIZE + 1, SIZE))

    @property
    def baseline(self) -> dict[str, float]:
        sd = math.hypot(self.shared, self.own)
        return {"p90": math.exp(1.2816 * sd), "p99": math.exp(2.3263 * sd)}


PAIRED, UNPAIRED, NOISY = Law(), Law(0.0, 0.5), Law(slot_noise=0.06)


def suspicion(law: Law, seed: int, ratio: float) -> float:
    """Requests of both arms to the alarm; +inf = never."""
    pairs, evidence = law.pairs(seed, ratio), np.zeros(SLOTS + 1)
    for component in COMPONENTS:
        process = ComponentProcess(component, 1.08, law.baseline)
        process.advance(pairs)
        evidence += component.weight * process.evidence[Side.SLOWER]
    return 2 * SIZE * int(np.argmax(evidence >= THRESHOLD)) if evidence.max() >= THRESHOLD else math.inf


def promotion(law: Law, seed: int, ratio: float) -> float:
    """Requests of both arms to "pair and P90 within 8 %, P99 within 25 %"; +inf = never."""
    pairs, claims = law.pairs(seed, ratio), []
    for component, proof in ((TYPICAL, 1.08), (P90, 1.08), (P99, 1.25)):
        process = ComponentProcess(component, proof, law.baseline)
        process.advance(pairs)
        claims.append(process.evidence[Side.FASTER])
    weakest = np.min(claims, axis=0)
    return 2 * SIZE * int(np.argmax(weakest >= THRESHOLD)) if weakest.max() >= THRESHOLD else math.inf


@pytest.mark.parametrize(
    ("law", "median", "ninetieth"),
    [(PAIRED, 800, 900), (UNPAIRED, 1_300, 2_100), (NOISY, 1_100, 1_800)],
    ids=["paired", "unpaired", "slot noise"],
)
def test_twenty_percent_is_suspected_as_soon_as_in_the_table(law: Law, median: int, ninetieth: int) -> None:
    # Given 150 runs at a ratio of 1.2
    taken = [suspicion(law, seed, 1.2) for seed in range(150)]
    # Then median and P90 are the table's, give or take a slot and its sampling error
    assert np.median(taken) == pytest.approx(median, abs=200)
    assert np.quantile(taken, 0.9, method="inverted_cdf") == pytest.approx(ninetieth, rel=0.25)


@pytest.mark.parametrize(
    ("law", "median"), [(PAIRED, 2_400), (UNPAIRED, 4_300), (NOISY, 3_000)], ids=["paired", "unpaired", "slot noise"]
)
def test_equal_arms_are_promoted_as_soon_as_in_the_table(law: Law, median: int) -> None:
    taken = [promotion(law, seed, 1.0) for seed in range(150)]
    assert np.median(taken) == pytest.approx(median, rel=0.2)
    assert np.mean(np.isinf(taken)) <= 0.06


@pytest.mark.parametrize("law", [PAIRED, UNPAIRED, NOISY], ids=["paired", "unpaired", "slot noise"])
def test_false_suspicion_stays_far_below_its_bound(law: Law) -> None:
    # Given 200 runs without drift and 200 exactly at the tolerance, looked at after every slot
    none = np.mean([suspicion(law, seed, 1.0) < math.inf for seed in range(200)])
    boundary = np.mean([suspicion(law, seed, 1.08) < math.inf for seed in range(200)])
    # Then a harmless canary is never suspected, and one at the boundary in 5 % of runs at most
    assert none == 0
    assert boundary <= 0.05


@pytest.mark.parametrize("law", [PAIRED, UNPAIRED, NOISY], ids=["paired", "unpaired", "slot noise"])
def test_a_canary_beyond_the_proof_is_not_promoted(law: Law) -> None:
    # Given 200 runs at the tolerance times 1.1
    assert sum(promotion(law, seed, 1.08 * 1.1) < math.inf for seed in range(200)) == 0


def test_a_slower_tail_is_found_by_the_counts() -> None:
    # Given 3 % of the slowest canary requests half as slow again, arms unpaired
    found = []
    for seed in range(40):
        pairs = UNPAIRED.pairs(seed, 1.0)
        slow = pairs.canary >= np.quantile(pairs.canary, 0.97)
        drifted = Pairs(pairs.canary + math.log(1.5) * slow, pairs.twin, pairs.ends)
        process = ComponentProcess(P99, 1.08, UNPAIRED.baseline)
        process.advance(drifted)
        found.append(process.evidence[Side.SLOWER].max() >= THRESHOLD)
    # Then P99's own process finds it within the budget, where no typical latency has moved
    assert np.mean(found) >= 0.9
