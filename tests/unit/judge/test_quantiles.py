"""Percentiles by nearest rank, and objectives measured with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from tailguard_runtime.judge.objectives import ObjectiveResult, measure_objective
from tailguard_runtime.judge.quantiles import PercentileError, Quantile, exact_percentile, measure, nearest_rank
from tailguard_runtime.judge.samples import Slot
from tailguard_runtime.judge.spec import ALL_REQUESTS, Metric, RequestClass

MakeSlot = Callable[..., Slot]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.sampled_from(["50", "90", "95", "99", "99.9"]))
def test_nearest_rank_is_the_inverse_of_the_distribution(values: list[float], percentile: str) -> None:
    share = exact_percentile(percentile)
    found = nearest_rank(np.array(values), share)
    assert sum(v <= found for v in values) >= share * len(values)
    assert sum(v < found for v in values) < share * len(values)


def test_ranks_are_exact_where_floats_are_not() -> None:
    # Given 1,000 values and P99.9, whose rank in floats is 999.0000000000001
    assert nearest_rank(np.arange(1.0, 1001), exact_percentile("99.9")) == 999
    assert nearest_rank(np.arange(1.0, 101), Fraction(7, 100)) == 7


def test_failures_make_the_tail_unbounded_and_nothing_else() -> None:
    # Given 2 failures among 100
    values = np.array([1.0] * 98 + [math.inf] * 2)
    assert measure(values, "98").value == 1
    assert measure(values, "99").value == math.inf


@pytest.mark.parametrize(("count", "low", "high"), [(1000, 98.3, 99.7), (10_000, 98.80, 99.20), (50_000, 98.91, 99.09)])
def test_the_interval_of_p99_is_the_references(count: int, low: float, high: float) -> None:
    # Given values that are their own level in percent (statistics.md 7.1)
    found = measure(np.arange(1, count + 1) * 100 / count, "99")
    assert (found.low, found.high) == (pytest.approx(low, abs=0.1), pytest.approx(high, abs=0.1))


@pytest.mark.parametrize("percentile", ["50", "90", "99"])
@pytest.mark.parametrize("count", [1, 30, 299, 1000, 4567])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_interval_has_the_binomials_ranks(percentile: str, count: int, confidence: float) -> None:
    found = measure(np.arange(1.0, count + 1), percentile, confidence=confidence)
    law = scipy.stats.binom(count, float(percentile) / 100)
    low, high = law.ppf((1 - confidence) / 2), law.ppf((1 + confidence) / 2) + 1
    assert found.low == low
    assert found.high == (high if high <= count else math.inf)


@pytest.mark.parametrize(("count", "bounded"), [(298, False), (368, True)])
def test_a_p99_from_few_requests_has_no_upper_bound(count: int, bounded: bool) -> None:
    # Given the two-sided interval: .99^n must fall below 2.5 %
    assert math.isfinite(measure(np.ones(count), "99").high) is bounded


def test_no_data_is_no_value() -> None:
    assert measure(np.empty(0), "99") == Quantile(None, 0.0, math.inf, 0)
    assert math.isnan(nearest_rank(np.empty(0), Fraction(1, 2)))


@pytest.mark.parametrize("percentile", ["100", "0", "-1", "abc", "", "1/0", "nan"])
def test_an_impossible_percentile_is_refused(percentile: str) -> None:
    with pytest.raises(PercentileError, match="percentile is"):
        exact_percentile(percentile)


def objective(
    slots: list[Slot], limit: float, request_class: RequestClass = ALL_REQUESTS, percentile: str = "99"
) -> ObjectiveResult:
    return measure_objective(
        slots, arm="canary", request_class=request_class, metric=Metric.LATENCY, percentile=percentile, limit=limit
    )


def test_overrun_says_by_how_much(make_slot: MakeSlot) -> None:
    """R-003: 3268 ms against 1500 ms is 118 % above."""
    result = objective([make_slot(0, [3.268] * 100, [1.0] * 100)], 1.5)
    assert result.met is False
    assert round(100 * result.overrun) == 118


@pytest.mark.parametrize(("measured", "met"), [(2.8, False), (1.2, True), (1.5, True)])
def test_a_bound_names_both_numbers(measured: float, met: bool, make_slot: MakeSlot) -> None:
    """R-001: P99 = 2.8 s breaks the bound of 1.5 s, 1.2 s keeps it."""
    # Given 3 of 100 requests as slow as measured
    result = objective([make_slot(0, [1.0] * 97 + [measured] * 3, [9.0] * 100)], 1.5)
    assert (result.measured.value, result.limit, result.met) == (measured, 1.5, met)


def test_each_class_has_its_own_bound(make_slot: MakeSlot) -> None:
    """R-006: short and long contexts are judged against bounds of their own."""
    slots = [
        make_slot(0, [0.5] * 50, [1.0] * 50, prompt_tokens=512),
        make_slot(1, [2.5] * 50, [1.0] * 50, prompt_tokens=4096),
    ]
    short = objective(slots, 1.8, RequestClass("short", 0, 2048), "95")
    long = objective(slots, 1.8, RequestClass("long", 2049), "95")
    assert (short.met, long.met) == (True, False)
    assert (short.measured.requests, long.measured.requests) == (50, 50)


def test_failures_break_a_bound_without_limit(make_slot: MakeSlot) -> None:
    result = objective([make_slot(0, [1.0] * 90 + [math.inf] * 10, [1.0] * 100)], 1.5)
    assert (result.met, result.overrun) == (False, math.inf)


def test_void_slots_and_other_arms_do_not_count(make_slot: MakeSlot) -> None:
    slots = [make_slot(0, [1.0] * 10, [9.0] * 10), make_slot(1, [9.0] * 10, [9.0] * 10, void="Disrupted: a pod went.")]
    assert objective(slots, 1.5).measured == Quantile(1.0, 1.0, math.inf, 10)


def test_no_data_is_neither_a_pass_nor_a_failure(make_slot: MakeSlot) -> None:
    """R-022: nothing measured is an answer of its own."""
    result = objective([make_slot(0, [1.0], [1.0], prompt_tokens=10)], 1.5, RequestClass("long", 1000))
    assert (result.met, result.overrun, result.measured.value) == (None, None, None)


def test_a_bound_of_zero_is_refused(make_slot: MakeSlot) -> None:
    with pytest.raises(ValueError, match=r"limit is 0.0 s"):
        objective([make_slot(0, [1.0], [1.0])], 0.0)
