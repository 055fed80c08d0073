"""The three scores of a slot: antisymmetry, failures, and references taken from the past."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tailguard_runtime.judge.score import COMPONENTS, P90, P99, TYPICAL, Component

INF = math.inf
ONE_SLOT = np.array([0])
log_latencies = arrays(float, 12, elements=st.one_of(st.floats(-7, 5), st.just(INF)))


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda c: c.name)
@given(log_latencies, log_latencies, st.floats(0.01, 3), st.sampled_from([[0], [0, 5], [0, 1, 11]]))
def test_swapping_the_arms_only_turns_the_sign(
    component: Component, x: np.ndarray, y: np.ndarray, reference: float, starts: list[int]
) -> None:
    one = component.score(x, y, reference, np.array(starts))
    other = component.score(y, x, reference, np.array(starts))
    assert np.array_equal(one, -other)


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda c: c.name)
@given(log_latencies, log_latencies)
def test_the_reference_does_not_know_the_arms(component: Component, x: np.ndarray, y: np.ndarray) -> None:
    assert component.refreshed(x, y, 0.3) == component.refreshed(y, x, 0.3)


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda c: c.name)
@given(log_latencies, log_latencies, st.integers(0, 11), st.floats(0.01, 2))
def test_a_slower_canary_never_lowers_the_score(
    component: Component, x: np.ndarray, y: np.ndarray, place: int, more: float
) -> None:
    slower = x.copy()
    slower[place] += more
    before, after = (component.score(v, y, 0.5, ONE_SLOT)[0] for v in (x, slower))
    assert after >= before - 1e-12


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda c: c.name)
def test_a_failure_counts_against_its_arm_and_two_count_nothing(component: Component) -> None:
    # Given pairs where the canary, the twin, or both fail
    def scored(x: float, y: float) -> float:
        return float(component.score(np.array([x]), np.array([y]), 1.0, ONE_SLOT)[0])

    # Then the scores are the largest, the smallest, and none
    assert [scored(INF, 0), scored(0, INF), scored(INF, INF)] == [1, -1, 0]


def test_pair_scale_is_the_median_difference_of_the_past() -> None:
    # Given differences 1, 2 and -4
    scale = TYPICAL.refreshed(np.array([1.0, 2, 0]), np.array([0.0, 0, 4]), 0.3)
    assert scale == pytest.approx(1.4826 * 2)


@pytest.mark.parametrize(("x", "y"), [([1.0, 2, 3], [1.0, 2, 3]), ([INF, INF, 3], [1.0, 2, 3]), ([INF], [INF])])
def test_pair_scale_stays_when_the_past_gives_none(x: list[float], y: list[float]) -> None:
    assert TYPICAL.refreshed(np.array(x), np.array(y), 0.7) == 0.7


def test_count_threshold_is_the_pooled_nearest_rank() -> None:
    # Given 100 pooled values 1 to 100
    values = np.arange(1, 101, dtype=float)
    assert P90.refreshed(values[::2], values[1::2], 0.0) == 90
    assert P99.refreshed(values[::2], values[1::2], 0.0) == 99


def test_count_threshold_is_the_largest_finite_latency_when_the_quantile_is_unbounded() -> None:
    # Given a past in which a fifth of all requests failed
    x, y = np.array([1.0, 2, 3, INF, INF]), np.array([1.0, 2, 5, 4, 1])
    threshold = P90.refreshed(x, y, 0.0)
    # Then the next failure still lies above the threshold
    assert threshold == 5
    assert P90.score(np.array([INF]), np.array([4.0]), threshold, ONE_SLOT)[0] == 1


def test_count_threshold_stays_when_everything_failed() -> None:
    assert P99.refreshed(np.array([INF]), np.array([INF]), 1.5) == 1.5


def test_count_threshold_starts_from_the_frozen_baseline_times_the_tolerance() -> None:
    assert P90.initial({"p90": 2.0, "p99": 3.0}, math.log(1.08)) == pytest.approx(math.log(2.16))
    assert math.isnan(P99.initial({}, math.log(1.08)))


def test_units_are_those_of_the_design() -> None:
    sizes = np.array([50])
    assert TYPICAL.unit(sizes)[0] == pytest.approx(0.63 * math.sqrt(50))
    assert P90.unit(sizes)[0] == pytest.approx(3.0)
    assert P99.unit(sizes)[0] == pytest.approx(math.sqrt(2 * 50 * 0.99 * 0.01))
    assert [c.weight for c in COMPONENTS] == [0.5, 0.25, 0.25]


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda c: c.name)
def test_unknown_is_said_where_nothing_can_be_compared(component: Component) -> None:
    empty, failed = np.empty(0), np.array([INF, INF])
    assert math.isnan(component.value(empty))
    assert math.isnan(component.log_ratio(empty, empty))
    assert component.value(failed) == INF
