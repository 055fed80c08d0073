"""Which requests make a pair."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tailguard_runtime.judge.pairs import NO_PAIRS, SHORTEST_S, latencies, pooled, take_pairs
from tailguard_runtime.judge.samples import Slot
from tailguard_runtime.judge.spec import ALL_REQUESTS, Metric, RequestClass

MakeSlot = Callable[..., Slot]
INF, NAN = math.inf, math.nan


def test_pairs_are_logarithms_slot_by_slot(make_slot: MakeSlot) -> None:
    slots = [make_slot(0, [1.0, 2.0], [1.0, 4.0]), make_slot(1, [INF], [3.0])]
    pairs, sizes = take_pairs(slots, Metric.LATENCY, ALL_REQUESTS)
    assert pairs.canary.tolist() == [0, math.log(2), INF]
    assert pairs.twin.tolist() == [0, math.log(4), math.log(3)]
    assert (pairs.ends.tolist(), sizes.tolist()) == ([2, 3], [2, 1])


def test_a_failed_request_counts_as_infinite_in_every_metric(make_slot: MakeSlot) -> None:
    # Given a stream that broke off: a first token came, the end didn't
    half = replace(make_slot(0, [INF, 1.0], [1.0, 1.0]).canary, ttft_s=[0.2, 0.1], tpot_s=[NAN, 0.01])
    assert [latencies(half, metric)[0] for metric in Metric] == [INF, INF, INF]


def test_a_pair_with_an_undefined_value_is_left_out_on_either_side(make_slot: MakeSlot) -> None:
    # Given three prompts, answered by one token here and there
    slot = make_slot(0, [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    slot = replace(
        slot,
        canary=replace(slot.canary, tpot_s=[NAN, 0.2, 0.3]),
        twin=replace(slot.twin, tpot_s=[0.1, NAN, 0.3]),
    )
    pairs, sizes = take_pairs([slot], Metric.TPOT, ALL_REQUESTS)
    assert sizes.tolist() == [1]
    assert pairs.canary.tolist() == [math.log(0.3)]


def test_classes_include_both_ends(make_slot: MakeSlot) -> None:
    slots = [make_slot(n, [1.0], [1.0], prompt_tokens=tokens) for n, tokens in enumerate([9, 10, 20, 21])]
    _, sizes = take_pairs(slots, Metric.TTFT, RequestClass("middle", 10, 20))
    assert sizes.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("arm", ["canary", "twin"])
def test_a_failed_request_without_a_token_count_stays_in_its_class(arm: str, make_slot: MakeSlot) -> None:
    # Given a failure that reports no prompt tokens
    slot = make_slot(0, [INF], [INF])
    slot = replace(slot, **{arm: replace(slot.half(arm), prompt_tokens=[0])})  # type: ignore[arg-type]
    # Then the other arm, which was sent the same prompt, says where it belongs
    assert take_pairs([slot], Metric.TTFT, RequestClass("long", 50))[1].tolist() == [1]
    assert len(pooled([slot], ("canary", "twin"), Metric.TTFT, RequestClass("long", 50))) == 2


def test_slots_without_pairs_leave_no_trace(make_slot: MakeSlot) -> None:
    slots = [make_slot(n, [1.0], [1.0], prompt_tokens=tokens) for n, tokens in enumerate([5, 50, 5])]
    pairs, sizes = take_pairs(slots, Metric.TTFT, RequestClass("long", 10))
    assert (len(pairs), pairs.ends.tolist(), sizes.tolist()) == (1, [1], [0, 1, 0])


def test_no_slots_give_no_pairs() -> None:
    pairs, sizes = take_pairs([], Metric.TTFT, ALL_REQUESTS)
    assert (len(pairs), len(sizes)) == (0, 0)


def test_a_latency_of_zero_has_a_logarithm(make_slot: MakeSlot) -> None:
    # Given a TPOT of 0: all tokens came in one read
    pairs, _ = take_pairs([make_slot(0, [0.0], [1.0])], Metric.TPOT, ALL_REQUESTS)
    assert pairs.canary[0] == math.log(SHORTEST_S)


def test_first_undoes_followed_by(make_slot: MakeSlot) -> None:
    one, _ = take_pairs([make_slot(0, [1.0, 2.0], [3.0, 4.0])], Metric.TTFT, ALL_REQUESTS)
    two, _ = take_pairs([make_slot(1, [5.0], [6.0])], Metric.TTFT, ALL_REQUESTS)
    both = one.followed_by(two)
    assert both.ends.tolist() == [2, 3]
    assert np.array_equal(both.first(1).canary, one.canary)
    assert len(both.first(0)) == len(NO_PAIRS)
