"""Wealth of bets on bounded scores: evidence that may be looked at after every slot (judge-designs.md 2).

Why it may be looked at: let swapping the arms of a slot be a symmetry given the past. The score d is antisymmetric and
its scale S is known before the slot, so g = clip(d / S, -1, 1) has mean 0 given the past, or less when the canary is
faster than the tolerance. Then each product of (1 + lambda g) is a non-negative supermartingale that starts at 1, so is
their average, and by Ville's inequality it ever reaches 1 / a with probability a at most, whenever one stops. The same
holds for the products of (1 - lambda g), the bets on the other side.

Feeding slots one by one or in blocks gives the same bits: every sum and product over slots runs in their order.
"""

from __future__ import annotations

import numpy as np

from tailguard_runtime.judge.samples import FloatArray

STAKES = np.array([0.25, 0.5, 0.95])
_PRIOR_SLOTS = 5
_CAUTION = 1.5


class Scale:
    """S of each slot from the scores before it: 1.5 sqrt((sum of d^2 + 5 s0^2) / (w + 4)), w = 1, 2, ...

    Scores are summed in units of their own slot's s0, so that slots of different sizes can be told together.
    """

    def __init__(self) -> None:
        self._slots = 0
        self._squares = 0.0

    def take(self, scores: FloatArray, unit: FloatArray) -> FloatArray:
        """S for further slots with scores d and sizes s0; all of shape (slots,)."""
        squares = np.cumsum(np.concatenate([[self._squares], (scores / unit) ** 2]))
        place = self._slots + np.arange(1, len(scores) + 1)
        self._slots += len(scores)
        self._squares = float(squares[-1])
        return np.asarray(_CAUTION * unit * np.sqrt((squares[:-1] + _PRIOR_SLOTS) / (place + _PRIOR_SLOTS - 1)))


class Wealth:
    """Average wealth over the stakes, betting on "slower" and on "faster" at once."""

    def __init__(self) -> None:
        self._wealth = np.ones((2, len(STAKES)))

    def take(self, bets: FloatArray) -> FloatArray:
        """Wealth after each of further bets g of shape (slots,): row 0 for "slower", row 1 for "faster"."""
        factors = 1 + STAKES[None, :, None] * np.stack([bets, -bets])[:, None, :]
        factors[:, :, 0] *= self._wealth
        with np.errstate(over="ignore"):
            wealth = np.cumprod(factors, axis=2)
        self._wealth = wealth[:, :, -1].copy()
        return np.asarray((wealth[:, 0] + wealth[:, 1] + wealth[:, 2]) / len(STAKES))
