"""Wealth and scale of bets: the reference values of judge-designs.md 4, and what makes them evidence."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tailguard_runtime.judge.bets import Scale, Wealth

bets = arrays(float, st.integers(1, 40), elements=st.floats(-1, 1))
scores = arrays(float, st.integers(1, 40), elements=st.floats(-50, 50))


def test_full_bets_won_reach_twenty_at_the_sixth() -> None:
    # Given six slots that all say "slower" as loudly as they can
    # When they are bet on
    slower, _ = Wealth().take(np.ones(6))
    # Then the wealth is that of the reference, and only the sixth passes 20
    assert slower == pytest.approx([1.5667, 2.5383, 4.2477, 7.3210, 12.9469, 23.3952], abs=5e-5)


def test_mixed_bets_give_the_reference_wealth() -> None:
    assert Wealth().take(np.array([0.5, -0.25, 1, 0.75]))[0, -1] == pytest.approx(2.525721, abs=5e-7)


def test_wealth_is_a_fair_game() -> None:
    # Given every sequence of eight won or lost bets
    paths = [Wealth().take(np.array(signs, float))[0] for signs in product((-1, 1), repeat=8)]
    # Then the mean wealth is 1, and the share that ever reaches 20 is far below Ville's 1/20
    assert np.mean([path[-1] for path in paths]) == pytest.approx(1, abs=1e-12)
    assert np.mean([path.max() >= 20 for path in paths]) == 0.015625


def test_scale_gives_the_reference_values() -> None:
    scale = Scale().take(np.array([3.0, -1, 4, 2]), np.full(4, 2.0))
    assert scale == pytest.approx([3, 3.297726, 3.105295, 3.596874], abs=5e-7)


def test_a_slots_own_score_does_not_enter_its_scale() -> None:
    # Given two histories that differ in the last slot alone
    calm, loud = (Scale().take(np.array([1.0, 2.0, last]), np.ones(3)) for last in (0.0, 40.0))
    # Then no scale differs: a bet's size is known before the slot
    assert np.array_equal(calm, loud)


def test_scale_grows_with_the_size_of_the_slot() -> None:
    # Given a slot of twice the s0 after the same past
    small, large = (Scale().take(np.zeros(2), np.array([1.0, unit]))[1] for unit in (1.0, 2.0))
    assert large == 2 * small


@given(bets)
def test_wealth_mirrors_exactly_and_stays_positive(g: np.ndarray) -> None:
    wealth, mirrored = Wealth().take(g), Wealth().take(-g)
    assert np.array_equal(wealth, mirrored[::-1])
    assert (wealth > 0).all()


@given(scores, st.integers(0, 40))
def test_blocks_give_the_same_bits_as_single_slots(d: np.ndarray, cut: int) -> None:
    # Given the same scores in one block, in two and one by one
    unit = np.linspace(1, 3, len(d))

    def fed(bounds: list[int]) -> tuple[np.ndarray, np.ndarray]:
        scale, wealth = Scale(), Wealth()
        spans = [slice(a, b) for a, b in pairwise(bounds) if b > a]
        sizes = np.concatenate([scale.take(d[s], unit[s]) for s in spans])
        g = np.clip(d / sizes, -1, 1)
        return sizes, np.concatenate([wealth.take(g[s]) for s in spans], axis=1)

    whole = fed([0, len(d)])
    # Then scale and wealth are equal to the last bit
    for bounds in ([0, min(cut, len(d)), len(d)], list(range(len(d) + 1))):
        for one, other in zip(whole, fed(bounds), strict=True):
            assert np.array_equal(one, other)
