"""Failures: the sign of the difference in each second of the halves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_runtime.judge.errors import ERROR_THRESHOLD, MOST_BINS, ErrorProcess, error_signs
from tailguard_runtime.judge.samples import Slot

MakeSlot = Callable[..., Slot]
DEAD, ALIVE = [math.inf] * 50, [1.0] * 50
failures = st.lists(st.sampled_from([1.0, math.inf]), min_size=20, max_size=20)


def evidence(slots: list[Slot]) -> list[float]:
    process = ErrorProcess()
    process.extend(slots)
    return process.evidence


@pytest.mark.parametrize(("seconds", "slots"), [(10, 2), (2, 6), (60, 2)])
def test_a_dead_canary_is_found_within_seconds(seconds: float, slots: int, make_slot: MakeSlot) -> None:
    # Given a canary that fails everything, in halves of some seconds
    found = evidence([make_slot(n, DEAD, ALIVE, seconds=seconds) for n in range(slots)])
    # Then the alarm comes with this slot and not before
    assert found[-1] >= ERROR_THRESHOLD > found[-2]


def test_eleven_lost_seconds_are_enough_and_ten_are_not(make_slot: MakeSlot) -> None:
    # Given the reference: a dead canary is found after 11 s
    ten = evidence([make_slot(0, DEAD, ALIVE, seconds=10)])[-1]
    eleven = evidence([make_slot(0, DEAD, ALIVE, seconds=10), make_slot(1, DEAD[:5], ALIVE[:5], seconds=1)])[-1]
    wealth = [sum((1 + stake) ** won for stake in (0.5, 0.8, 0.95, 0.99)) / 4 for won in (10, 11)]
    assert [ten, eleven] == pytest.approx(wealth)
    assert ten < ERROR_THRESHOLD <= eleven


def test_no_single_slot_can_alarm_however_long(make_slot: MakeSlot) -> None:
    # Given a blip that fills a half of two minutes
    slot = make_slot(0, DEAD, ALIVE, seconds=120)
    # Then it wins ten bets at most: one coin toss is not enough
    assert len(error_signs(slot)) == MOST_BINS
    assert evidence([slot])[-1] < ERROR_THRESHOLD


def test_a_canary_that_fails_less_raises_nothing(make_slot: MakeSlot) -> None:
    assert max(evidence([make_slot(n, ALIVE, DEAD) for n in range(20)])) == 1


def test_equal_failures_are_no_evidence(make_slot: MakeSlot) -> None:
    assert evidence([make_slot(n, DEAD, DEAD) for n in range(5)]) == [1] * 6


def test_two_percent_more_failures_are_found_in_time(make_slot: MakeSlot) -> None:
    # Given a canary that fails 2 % and a twin that fails .1 %, 60 runs
    rng = np.random.default_rng(5)
    taken = []
    for _ in range(60):
        arms = np.where(rng.random((2, 60, 50)) < np.array([0.02, 0.001])[:, None, None], math.inf, 1.0)
        found = np.array(evidence([make_slot(n, arms[0, n], arms[1, n]) for n in range(60)]))
        taken.append(100 * int(np.argmax(found >= ERROR_THRESHOLD)) if found.max() >= ERROR_THRESHOLD else math.inf)
    # Then the median is near the design's 1,270 requests of both arms, rounded up to whole slots
    assert 1_100 <= np.median(taken) <= 1_700


def test_equal_failure_rates_do_not_alarm(make_slot: MakeSlot) -> None:
    # Given both arms failing 2 %, 40 runs of 60 slots
    rng = np.random.default_rng(12)
    alarms = 0
    for _ in range(40):
        arms = np.where(rng.random((2, 60, 50)) < 0.02, math.inf, 1.0)
        alarms += max(evidence([make_slot(n, arms[0, n], arms[1, n]) for n in range(60)])) >= ERROR_THRESHOLD
    assert alarms == 0


@given(canary=failures, twin=failures, seconds=st.floats(0.5, 300))
def test_swapping_the_arms_turns_the_signs(
    make_slot: MakeSlot, canary: list[float], twin: list[float], seconds: float
) -> None:
    slot = make_slot(0, canary, twin, seconds=seconds)
    assert np.array_equal(error_signs(slot), -error_signs(slot.swapped()))


def test_the_bins_are_seconds_of_each_arms_own_offsets(make_slot: MakeSlot) -> None:
    # Given one canary failure at .9 s, two twin failures at 1.1 s and 1.9 s
    slot = make_slot(0, [math.inf, 1.0, 1.0], [1.0, math.inf, math.inf])
    offsets = np.array([0.9, 1.1, 1.9])
    slot = replace(slot, canary=replace(slot.canary, intended_s=offsets), twin=replace(slot.twin, intended_s=offsets))
    assert error_signs(slot).tolist()[:3] == [1, -1, 0]


def test_the_estimate_gives_both_shares(make_slot: MakeSlot) -> None:
    process = ErrorProcess()
    process.extend([make_slot(0, [math.inf, 1.0], [1.0, 1.0]), make_slot(1, [math.inf, 1.0], [math.inf, 1.0])])
    estimate = process.estimate()
    assert (estimate.canary_value, estimate.twin_value, estimate.ratio) == (0.5, 0.25, 2)


def test_shares_are_unknown_without_requests() -> None:
    estimate = ErrorProcess().estimate()
    assert (estimate.canary_value, estimate.twin_value, estimate.ratio) == (None, None, None)
