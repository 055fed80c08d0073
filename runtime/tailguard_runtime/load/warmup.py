"""Warm-up: real generations over the workload's lengths until both arms have stopped getting faster.

Every round sends the same lengths, shortest to longest, at the benchmark's own rate, so that kernels, graphs and caches
for every shape are built before the first slot, and rounds can be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from tailguard_runtime.load.client import run_half
from tailguard_runtime.load.schedule import Purpose, arrivals, stream
from tailguard_runtime.load.slot import Bench, settle

REQUESTS = 24
STABLE_SHARE = 0.05
_EVERY_ROUND_THE_SAME = 0


@dataclass(frozen=True)
class Warm:
    """How the warm-up went: rounds, seconds, and whether both arms became stable within the time."""

    rounds: int
    seconds: float
    stable: bool


async def warm_up(bench: Bench) -> Warm:
    """Warm both arms; an arm that answers nothing counts as stable, since its slots will show it."""
    warmup, start = bench.plan.warmup, perf_counter()
    medians: list[tuple[float, ...]] = []
    while True:
        medians.append(tuple([await _round(bench, index, len(medians)) for index in range(2)]))
        stable = len(medians) >= warmup.min_rounds and is_stable(medians)
        seconds = perf_counter() - start
        if stable or seconds >= warmup.max_seconds:
            return Warm(len(medians), seconds, stable)


def is_stable(medians: Sequence[Sequence[float]]) -> bool:
    """Say whether no arm's last median (a row a round, a column an arm) beat its best before by more than 5 %.

    Only getting faster is a sign of warming up; two equal arms on a busy machine scatter by more than that.
    """
    if len(medians) < 2:
        return False
    least = [min(column) * (1 - STABLE_SHARE) for column in zip(*medians[:-1], strict=True)]
    return all(now >= bound for now, bound in zip(medians[-1], least, strict=True))


async def _round(bench: Bench, arm: int, number: int) -> float:
    """Return the median end-to-end latency of one arm's round, seconds; `inf` when most requests failed."""
    plan = bench.plan
    count = min(REQUESTS, plan.slot.requests)
    seconds = bench.seconds * count / plan.slot.requests
    offsets = arrivals(stream(plan.seed, _EVERY_ROUND_THE_SAME, Purpose.WARMUP), count, seconds)
    requests = bench.workload.warmup(plan.seed, 2 * number + arm + 1, count)
    await settle(bench)
    run = await run_half(bench.session, bench.arms[arm].ref.url, requests, offsets, plan.timeout_seconds)
    return float(np.quantile(run.half.e2e_s, 0.5, method="inverted_cdf"))
