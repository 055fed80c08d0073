"""Arrival times: Poisson, conditioned on the number of requests of a slot.

Given that M events of a Poisson process fall in [0, T], their times are M independent uniforms, sorted; this is how
they are drawn, so every half lasts equally long and has exactly M requests. T is M / rate, or the slot's least length
when that is longer (then the rate is lower than asked, and the facts say which rate was scheduled).

All randomness of a benchmark comes from (seed, slot number, purpose), so the same plan gives the same slot on any
machine, in any order, and both arms of a slot see the same requests at the same offsets.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.float64]


class Purpose(IntEnum):
    """What a random stream is for; streams of different purposes are independent."""

    ARRIVALS = 0
    REQUESTS = 1
    COIN = 2
    WARMUP = 3


def stream(seed: int, number: int, purpose: Purpose) -> np.random.Generator:
    """Return the random stream of one slot (or warm-up round) for one purpose."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(number, int(purpose)))))


def half_seconds(requests: int, rate_per_second: float, min_seconds: float) -> float:
    """Return T, the seconds over which the arrivals of a half are spread."""
    return max(requests / rate_per_second, min_seconds)


def arrivals(rng: np.random.Generator, requests: int, seconds: float) -> Offsets:
    """Return float64[requests], ascending seconds in [0, seconds)."""
    return np.sort(rng.random(requests)) * seconds


def twin_goes_first(seed: int, number: int) -> bool:
    """Return the slot's fair coin."""
    return bool(stream(seed, number, Purpose.COIN).integers(2))


def dispersion(offsets: Offsets, seconds: float, bins: int = 10) -> float:
    """Return the index of dispersion of counts (variance / mean) over equal bins; about 1 for Poisson arrivals.

    Conditioned on M the expectation is exactly 1 with the sample variance over `bins` (multinomial counts have variance
    M(1 - 1/bins)/bins and the sample variance adds their common covariance back).
    """
    counts, _ = np.histogram(offsets, bins=bins, range=(0.0, seconds))
    return float(counts.var(ddof=1) / counts.mean())


def rate(times: Offsets) -> float:
    """Return requests per second between the first and the last of at least two times; nan if undefined."""
    span = float(times.max() - times.min()) if times.size > 1 else 0.0
    return (times.size - 1) / span if span > 0 else float("nan")
