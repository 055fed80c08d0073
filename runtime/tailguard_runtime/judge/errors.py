"""Evidence that the canary fails oftener than the twin (judge-designs.md 3 E).

The bet is the sign of the difference in failures between the same second of the two halves. Two halves of a slot are
sent the same requests at the same offsets, so under "the canary fails no oftener" a second's two counts can be swapped
as long as no failure outlasts the second: a blip of 2 s that one arm keeps would win two bets. Against longer blips
stands the slot's coin: a half is cut into ten bins at most, and ten won bets give 545 of the 1,000 needed, so that no
single slot, and no single toss, can raise the alarm. A canary that fails everything is found after 11 bins: in the
second slot with halves of 10 s, in the sixth with halves of 2 s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tailguard_runtime.judge.samples import FloatArray, Half, Slot
from tailguard_runtime.judge.verdict import ERRORS, Estimate

ERROR_THRESHOLD = 1000.0
"""Evidence for an alarm: 1 over alpha = .001, apart from the latency's error rate."""
BIN_SECONDS = 1.0
MOST_BINS = 10
_STAKES = np.array([[0.5], [0.8], [0.95], [0.99]])


class ErrorProcess:
    """Average wealth of bets on the sign of the difference in failures.

    Attributes:
        evidence: Item 0 is 1; item k is the most that was reached during the k-th valid slot.
    """

    def __init__(self) -> None:
        self.evidence = [1.0]
        self._counts = [np.zeros(3, dtype=np.int64)]
        self._wealth = np.ones(len(_STAKES))

    def extend(self, slots: Sequence[Slot]) -> None:
        """Takes further valid slots."""
        for slot in slots:
            self.evidence.append(self._reached(error_signs(slot)))
            counts = [slot.canary.failed.sum(), slot.twin.failed.sum(), len(slot.canary)]
            self._counts.append(self._counts[-1] + np.array(counts))

    def keep(self, slots: int) -> None:
        """Forgets all but the first `slots` valid slots: later ones came after the decision."""
        del self.evidence[slots + 1 :]
        del self._counts[slots + 1 :]

    def estimate(self) -> Estimate:
        """The arms' shares of failed requests, over all classes."""
        canary, twin, sent = (int(count) for count in self._counts[-1])
        unknown = math.inf if canary else None
        return Estimate(
            metric="",
            request_class="",
            statistic=ERRORS,
            ratio=canary / twin if twin else unknown,
            low=0.0,
            high=math.inf,
            canary_value=canary / sent if sent else None,
            twin_value=twin / sent if sent else None,
            e_alarm=self.evidence[-1],
            e_promote=1.0,
        )

    def _reached(self, signs: FloatArray) -> float:
        if not signs.any():
            return float(self._wealth.mean())
        factors = np.concatenate([self._wealth[:, None], 1 + _STAKES * signs], axis=1)
        with np.errstate(over="ignore"):
            wealth = np.cumprod(factors, axis=1)
        self._wealth = wealth[:, -1]
        return float(wealth.mean(axis=0)[1:].max())


def error_signs(slot: Slot) -> FloatArray:
    """Sign of canary failures minus twin failures in each bin of the halves' offsets, shape (bins,)."""
    if not (slot.canary.failed.any() or slot.twin.failed.any()):
        return np.zeros(MOST_BINS)
    last = max(half.intended_s.max(initial=0.0) for half in (slot.canary, slot.twin))
    width = max(BIN_SECONDS, last / MOST_BINS)
    difference = _failures(slot.canary, width) - _failures(slot.twin, width)
    return np.sign(difference.astype(np.float64))


def _failures(half: Half, width: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    place = np.minimum(half.intended_s[half.failed] / width, MOST_BINS - 1).astype(np.int64)
    return np.bincount(place, minlength=MOST_BINS)
