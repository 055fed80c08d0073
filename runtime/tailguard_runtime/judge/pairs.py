"""The pairs of one metric and one request class: the canary's and the twin's latency for the same prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tailguard_runtime.judge.samples import Arm, FloatArray, Half, IntArray, Slot
from tailguard_runtime.judge.spec import Metric, RequestClass

SHORTEST_S = 1e-9
"""A latency of 0 (all tokens in one read) is taken as a nanosecond, because its logarithm is needed."""


@dataclass(frozen=True)
class Pairs:
    """Natural logarithms of latencies, the pairs of slot after slot in one row.

    Attributes:
        canary: ln seconds, shape (n,); +inf = failed.
        twin: ln seconds, shape (n,).
        ends: Pairs up to the end of each slot that has any, shape (slots,), strictly increasing.
    """

    canary: FloatArray
    twin: FloatArray
    ends: IntArray

    def __len__(self) -> int:
        return len(self.ends)

    def first(self, slots: int) -> Pairs:
        """The pairs of the first `slots` slots."""
        stop = int(self.ends[slots - 1]) if slots else 0
        return Pairs(self.canary[:stop], self.twin[:stop], self.ends[:slots])

    def followed_by(self, later: Pairs) -> Pairs:
        """These pairs, then `later` ones."""
        return Pairs(
            np.concatenate([self.canary, later.canary]),
            np.concatenate([self.twin, later.twin]),
            np.concatenate([self.ends, later.ends + len(self.canary)]),
        )


NO_PAIRS = Pairs(np.empty(0), np.empty(0), np.empty(0, dtype=np.int64))


def latencies(half: Half, metric: Metric) -> FloatArray:
    """Seconds of one metric, shape (M,): +inf for every failed request, nan where TPOT is undefined."""
    values = {Metric.TTFT: half.ttft_s, Metric.TPOT: half.tpot_s, Metric.LATENCY: half.e2e_s}[metric]
    return np.where(half.failed, np.inf, values) if half.failed.any() else values


def in_class(prompt_tokens: npt.NDArray[np.integer], request_class: RequestClass) -> npt.NDArray[np.bool_]:
    """Which prompts belong to a class, shape (M,)."""
    inside = prompt_tokens >= request_class.min_prompt_tokens
    if request_class.max_prompt_tokens is not None:
        inside &= prompt_tokens <= request_class.max_prompt_tokens
    return np.asarray(inside)


def pooled(slots: Sequence[Slot], arms: Sequence[Arm], metric: Metric, request_class: RequestClass) -> FloatArray:
    """Seconds of some arms in valid slots, one class, undefined values left out, failures +inf; shape (n,)."""
    parts = [np.empty(0)]
    for slot in slots:
        inside = in_class(_prompts(slot), request_class)
        parts += [latencies(slot.half(arm), metric)[inside] for arm in arms]
    values = np.concatenate(parts)
    return values[~np.isnan(values)]


def take_pairs(slots: Sequence[Slot], metric: Metric, request_class: RequestClass) -> tuple[Pairs, IntArray]:
    """The pairs of valid slots, and how many pairs each slot has (0 = nothing of this class), shape (slots,).

    A pair is left out when either value is undefined. Which pairs are left out, and which class a pair is in, does not
    change when the arms are swapped, so the coin's symmetry is kept.
    """
    if not slots:
        return NO_PAIRS, np.empty(0, dtype=np.int64)
    canary = np.concatenate([latencies(slot.canary, metric) for slot in slots])
    twin = np.concatenate([latencies(slot.twin, metric) for slot in slots])
    prompts = np.concatenate([_prompts(slot) for slot in slots])
    kept = in_class(prompts, request_class) & ~np.isnan(canary) & ~np.isnan(twin)
    before = np.concatenate([[0], np.cumsum(kept)])
    bounds = np.concatenate([[0], np.cumsum([len(slot.canary) for slot in slots])])
    sizes = np.diff(before[bounds])
    ends = np.cumsum(sizes)[sizes > 0]
    return Pairs(_logarithm(canary[kept]), _logarithm(twin[kept]), ends), sizes


def _prompts(slot: Slot) -> npt.NDArray[np.int32]:
    # A failed request may report no prompt tokens; the other arm was sent the same prompt.
    return np.maximum(slot.canary.prompt_tokens, slot.twin.prompt_tokens)


def _logarithm(seconds: FloatArray) -> FloatArray:
    return np.log(np.maximum(seconds, SHORTEST_S))
