"""What a Baseline keeps, and how much identical pods differ."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tailguard_runtime.judge.freeze import Frozen, FrozenFormatError, freeze
from tailguard_runtime.judge.offset import StartOffset, offset_sd, start_offsets
from tailguard_runtime.judge.quantiles import measure
from tailguard_runtime.judge.samples import Slot
from tailguard_runtime.judge.spec import JudgeSpec, Metric, RequestClass

MakeSlot = Callable[..., Slot]
MakeSlots = Callable[..., list[Slot]]


def test_quantiles_come_from_both_arms_with_their_intervals(make_slots: MakeSlots) -> None:
    # Given an A/A start of ten slots
    slots = make_slots(1, 10)
    frozen = freeze(slots)
    # Then each quantile is that of all 1,000 requests, to the microsecond
    latencies = np.concatenate([half.e2e_s for slot in slots for half in (slot.canary, slot.twin)])
    rows = {row.percentile: row.quantile for row in frozen.quantiles if row.metric is Metric.LATENCY}
    assert list(rows) == ["50", "90", "95", "99"]
    for percentile, found in rows.items():
        wanted = measure(latencies, percentile)
        assert (found.value, found.low, found.high) == pytest.approx((wanted.value, wanted.low, wanted.high), abs=1e-6)
    assert frozen.requests == 1000


def test_thresholds_fit_the_judges_specification(make_slots: MakeSlots) -> None:
    frozen = freeze(make_slots(1, 10))
    spec = JudgeSpec(thresholds=frozen.thresholds)
    assert spec.thresholds == frozen.thresholds
    assert set(spec.thresholds) == {"TTFT/all", "TPOT/all", "Latency/all"}
    assert list(spec.thresholds["TTFT/all"]) == ["p50", "p90", "p99"]


def test_after_a_promotion_the_canarys_arm_is_the_baseline(make_slots: MakeSlots) -> None:
    slots = make_slots(1, 10, ratio=0.5)
    frozen = freeze(slots, arms=("canary",))
    median = next(row.quantile for row in frozen.quantiles if (row.metric, row.percentile) == (Metric.LATENCY, "50"))
    assert median.value == pytest.approx(np.median(np.concatenate([s.canary.e2e_s for s in slots])), rel=0.02)
    assert (frozen.requests, frozen.aa_alarm, frozen.offsets) == (500, None, ())


def test_void_slots_are_left_out(make_slots: MakeSlots) -> None:
    slots = make_slots(1, 10)
    wild = replace(make_slots(2, 11, ratio=9.0)[10], void="Disrupted: a pod went.")
    assert freeze([*slots, wild]) == freeze(slots)


def test_unbounded_quantiles_leave_a_finite_threshold(make_slot: MakeSlot) -> None:
    # Given 3 % failures
    values = [*np.linspace(1, 2, 97), *[math.inf] * 3]
    frozen = freeze([make_slot(0, values, values)], metrics=(Metric.LATENCY,))
    tail = frozen.quantiles[-1].quantile
    # Then P99 is unbounded, and the threshold the slowest answer
    assert (tail.value, tail.high) == (math.inf, math.inf)
    assert frozen.thresholds["Latency/all"]["p99"] == 2


@pytest.mark.parametrize("values", [[math.inf] * 50, []])
def test_without_any_answer_there_is_no_threshold(values: list[float], make_slot: MakeSlot) -> None:
    frozen = freeze([make_slot(0, values, values)], metrics=(Metric.LATENCY,))
    assert frozen.thresholds == {"Latency/all": {}}
    assert JudgeSpec(thresholds=frozen.thresholds).baseline(Metric.LATENCY, RequestClass("all")) == {}


@pytest.mark.parametrize(("ratio", "alarm"), [(1.0, False), (1.3, True), (1 / 1.3, True)])
def test_identical_pods_that_differ_raise_the_aa_alarm_either_way(
    ratio: float, alarm: bool, make_slots: MakeSlots
) -> None:
    assert freeze(make_slots(1, 10, ratio=ratio)).aa_alarm is alarm


def test_a_baseline_survives_json(make_slots: MakeSlots, make_slot: MakeSlot) -> None:
    # Given baselines with classes, with nothing in a class, and with unbounded quantiles
    classes = (RequestClass("short", 0, 500), RequestClass("long", 501))
    dead = make_slot(0, [math.inf] * 50, [math.inf] * 50)
    for frozen in (freeze(make_slots(1, 10), classes=classes), freeze([dead]), freeze([])):
        text = json.dumps(frozen.to_json(), allow_nan=False)
        assert Frozen.from_json(json.loads(text)) == frozen


@pytest.mark.parametrize("drop", ["quantiles", "thresholdsMicroseconds", "requests", "aaAlarm", "offsets"])
def test_an_unreadable_baseline_is_an_error_and_never_a_pass(drop: str, make_slots: MakeSlots) -> None:
    """R-020: what is missing or malformed is refused."""
    data = freeze(make_slots(1, 10)).to_json()
    for broken in ({k: v for k, v in data.items() if k != drop}, data | {drop: [{"metric": "Speed"}]}):
        if drop in ("requests", "aaAlarm") and drop in broken:
            continue
        with pytest.raises(FrozenFormatError, match="can't be read"):
            Frozen.from_json(broken)


def test_the_offset_of_a_start_is_the_mean_log_ratio(make_slots: MakeSlots) -> None:
    # Given an A/A start whose first pod is 5 % slower
    offsets = start_offsets(make_slots(1, 40, ratio=1.05), (Metric.TTFT,))
    assert (len(offsets), offsets[0].metric, offsets[0].slots) == (1, Metric.TTFT, 40)
    assert offsets[0].mean == pytest.approx(math.log(1.05), abs=0.02)


def test_failed_pairs_and_dead_slots_give_no_offset(make_slot: MakeSlot) -> None:
    slots = [
        make_slot(0, [2.0, math.inf, 2.0], [1.0, 1.0, 1.0]),
        make_slot(1, [math.inf] * 3, [1.0] * 3),
    ]
    offset = start_offsets(slots, (Metric.LATENCY,))[0]
    assert (offset.mean, offset.slot_variance, offset.slots) == (math.log(2), 0.0, 1)
    assert start_offsets(slots[1:], (Metric.LATENCY,)) == ()


def start(mean: float, slot_variance: float = 0.0, slots: int = 10, metric: Metric = Metric.TTFT) -> StartOffset:
    return StartOffset(metric, mean, slot_variance, slots)


def test_s_is_the_spread_of_starts_less_the_slots_own_noise() -> None:
    # Given four starts of mean square .0025 and slot noise .009 / 10 = .0009
    history = [[start(sign * 0.05, 0.009)] for sign in (1, -1, 1, -1)]
    assert offset_sd(history) == pytest.approx(0.04)


def test_s_is_zero_when_slots_alone_explain_the_starts() -> None:
    assert offset_sd([[start(0.01, 0.01)]] * 4) == 0


def test_s_is_that_of_the_worst_metric() -> None:
    history = [[start(0.01), start(0.07, metric=Metric.LATENCY)]] * 4
    assert offset_sd(history) == pytest.approx(0.07)


@pytest.mark.parametrize(("means", "s"), [([], 0.04), ([0.01] * 3, 0.04), ([0.09] * 3, 0.09), ([0.01] * 4, 0.01)])
def test_until_four_starts_s_is_at_least_four_percent(means: list[float], s: float) -> None:
    assert offset_sd([[start(mean)] for mean in means]) == pytest.approx(s)


def test_s_recovers_the_offset_that_starts_were_made_with(make_slots: MakeSlots) -> None:
    # Given thirty A/A starts whose pods differ by sd .06
    rng = np.random.default_rng(4)
    ratios = np.exp(0.06 * rng.standard_normal(30))
    history = [start_offsets(make_slots(n, 10, ratio=ratio), (Metric.LATENCY,)) for n, ratio in enumerate(ratios)]
    assert offset_sd(history) == pytest.approx(0.06, abs=0.02)
