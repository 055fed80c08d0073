"""Arrivals are Poisson given their number, and depend on seed and slot alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tailguard_runtime.load.schedule import (
    Purpose,
    arrivals,
    dispersion,
    half_seconds,
    rate,
    stream,
    twin_goes_first,
)


@given(seed=st.integers(0, 2**63 - 1), number=st.integers(0, 9_999), count=st.integers(1, 200))
def test_the_same_seed_and_slot_give_the_same_offsets_in_order_and_in_time(seed: int, number: int, count: int) -> None:
    # When
    first, again = (arrivals(stream(seed, number, Purpose.ARRIVALS), count, 2.0) for _ in range(2))

    # Then
    assert np.array_equal(first, again)
    assert first.size == count and np.all(np.diff(first) >= 0) and first[0] >= 0 and first[-1] < 2.0


def test_slots_and_purposes_are_independent_streams() -> None:
    draws = {stream(7, number, purpose).random() for number in range(50) for purpose in Purpose}
    assert len(draws) == 50 * len(Purpose)


def test_arrivals_pass_the_load_shape_self_test() -> None:
    # Given 400 slots of 50 requests in 10 s
    slots = [arrivals(stream(1, number, Purpose.ARRIVALS), 50, 10.0) for number in range(400)]

    # When
    gaps = np.concatenate([np.diff(slot) for slot in slots]) * 5.0
    dispersions = [dispersion(slot, 10.0) for slot in slots]

    # Then: counts scatter as Poisson counts do, and gaps are exponential up to the conditioning on 50 (1/50)
    assert np.mean(dispersions) == pytest.approx(1.0, abs=0.08)
    assert stats.kstest(gaps, "expon").statistic < 0.02
    assert np.mean([slot.mean() for slot in slots]) == pytest.approx(5.0, abs=0.1)


def test_an_evenly_spaced_load_is_seen_as_no_poisson() -> None:
    assert dispersion(np.linspace(0.1, 9.9, 50), 10.0) < 0.1


@pytest.mark.parametrize(
    ("requests", "per_second", "least", "seconds"), [(50, 5, 10, 10), (50, 100, 2, 2), (50, 5, 0, 10)]
)
def test_a_half_lasts_as_long_as_rate_or_least_length_ask(
    requests: int, per_second: float, least: float, seconds: float
) -> None:
    assert half_seconds(requests, per_second, least) == seconds


def test_the_coin_is_fair_and_not_periodic() -> None:
    # When
    tosses = np.array([twin_goes_first(99, number) for number in range(2_000)])

    # Then
    assert tosses.mean() == pytest.approx(0.5, abs=0.05)
    assert np.mean(tosses[1:] == tosses[:-1]) == pytest.approx(0.5, abs=0.05)


def test_rate_counts_gaps_and_is_undefined_for_one_request() -> None:
    assert rate(np.array([0.0, 1.0, 2.0])) == 1.0
    assert np.isnan(rate(np.array([0.5])))
