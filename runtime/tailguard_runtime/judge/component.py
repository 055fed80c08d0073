"""One score at one tolerance, from the first slot on: its reference, its bets and its evidence after each slot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from tailguard_runtime.judge.bets import Scale, Wealth
from tailguard_runtime.judge.pairs import Pairs
from tailguard_runtime.judge.samples import FloatArray
from tailguard_runtime.judge.score import Component


class Side(IntEnum):
    """What is bet on, and the row of the evidence."""

    SLOWER = 0
    FASTER = 1


class ComponentProcess:
    """Evidence that a statistic's ratio of canary to twin is above (slower) or below (faster) a tolerance.

    Attributes:
        evidence: Wealth, shape (2, slots + 1): column 0 is 1, column k is after the k-th slot that has pairs.
    """

    def __init__(self, component: Component, tolerance: float, baseline: Mapping[str, float]) -> None:
        self._component = component
        self._log_tolerance = math.log(tolerance)
        self._reference = component.initial(baseline, self._log_tolerance)
        self._next_refresh = component.first_refresh
        self._scale = Scale()
        self._wealth = Wealth()
        self._pairs_done = 0
        self._slots_done = 0
        self.evidence = np.ones((2, 1))

    def advance(self, pairs: Pairs) -> None:
        """Takes the slots of `pairs` that it hasn't seen yet; `pairs` holds all from the first slot on."""
        while self.step(pairs):
            pass

    def step(self, pairs: Pairs) -> bool:
        """Takes slots up to the next refresh of the reference; False when there are none left."""
        if self._slots_done == len(pairs):
            return False
        self._refresh(pairs)
        due = int(np.searchsorted(pairs.ends, self._next_refresh)) + 1
        stop = min(max(due, self._slots_done + 1), len(pairs))
        self.evidence = np.concatenate([self.evidence, self._bet(pairs, stop)], axis=1)
        self._slots_done = stop
        self._pairs_done = int(pairs.ends[stop - 1])
        return True

    def _refresh(self, pairs: Pairs) -> None:
        if self._pairs_done < self._next_refresh:
            return
        done = slice(0, self._pairs_done)
        y = pairs.twin[done] + self._log_tolerance
        self._reference = self._component.refreshed(pairs.canary[done], y, self._reference)
        while self._next_refresh <= self._pairs_done:
            self._next_refresh *= 2

    def _bet(self, pairs: Pairs, stop: int) -> FloatArray:
        ends = pairs.ends[self._slots_done : stop]
        if math.isnan(self._reference):
            return np.repeat(self.evidence[:, -1:], len(ends), axis=1)
        starts = np.concatenate([[self._pairs_done], ends[:-1]])
        taken = slice(self._pairs_done, int(ends[-1]))
        x, y = pairs.canary[taken], pairs.twin[taken] + self._log_tolerance
        scores = self._component.score(x, y, self._reference, starts - self._pairs_done)
        scale = np.maximum(self._scale.take(scores, self._component.unit(ends - starts)), self._component.least_scale)
        return self._wealth.take(np.clip(scores / scale, -1, 1))
