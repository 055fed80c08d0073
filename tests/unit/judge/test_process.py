"""The judge as a whole: outcomes, precedence, budget, and what may never change a verdict."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailguard_runtime.judge.process import Process, SlotOrderError, decide, judge
from tailguard_runtime.judge.samples import Slot, decode_slot, encode_slot
from tailguard_runtime.judge.spec import ErrorRates, JudgeSpec, Metric, Proof, RequestClass
from tailguard_runtime.judge.verdict import Outcome, TrailPoint, Verdict, VerdictFormatError

MakeSlot = Callable[..., Slot]
MakeSlots = Callable[..., list[Slot]]
BASELINE = {
    "TTFT/all": {"p50": 0.1, "p90": 0.19, "p99": 0.31},
    "TPOT/all": {"p50": 0.01, "p90": 0.019, "p99": 0.031},
    "Latency/all": {"p50": 1.0, "p90": 1.9, "p99": 3.1},
}
SPEC = JudgeSpec(thresholds=BASELINE, offset_sd=0.02, offset_starts=6)


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [(1.0, Outcome.PROMOTE), (0.7, Outcome.PROMOTE), (1.2, Outcome.ALARM), (2.0, Outcome.GROSS_ALARM)],
)
def test_each_drift_gets_its_outcome(ratio: float, outcome: Outcome, make_slots: MakeSlots) -> None:
    verdict = judge(make_slots(1, 120, ratio=ratio), SPEC)
    assert verdict.outcome is outcome
    assert verdict.requests == 100 * verdict.slots == 100 * (verdict.decided_at_slot + 1)


@pytest.mark.parametrize(("ratio", "alarms"), [(1.07, False), (1.09, True)])
def test_the_tolerance_is_the_boundary(ratio: float, alarms: bool, make_slots: MakeSlots) -> None:
    """R-022: 1.07 times the twin passes, 1.09 times is drift, said with both numbers."""
    # Given latencies that differ by exactly that ratio
    slots = [replace(slot, canary=slot.twin) for slot in make_slots(3, 120)]
    slots = [_slower(slot, ratio) for slot in slots]
    verdict = judge(slots, SPEC)
    assert (verdict.outcome is Outcome.ALARM) is alarms
    if alarms:
        worst = max(verdict.estimates[:-1], key=lambda e: e.low)
        assert worst.canary_value == pytest.approx(1.09 * worst.twin_value, rel=1e-6)
        assert "1.09 times the twin's" in verdict.message


def _slower(slot: Slot, ratio: float) -> Slot:
    half = slot.canary
    slow = replace(half, ttft_s=half.ttft_s * ratio, tpot_s=half.tpot_s * ratio, e2e_s=half.e2e_s * ratio)
    return replace(slot, canary=slow)


@settings(max_examples=4)
@given(ratio=st.sampled_from([0.8, 1.0, 1.3, 2.0]), seed=st.integers(0, 99))
def test_later_slots_never_change_a_verdict(make_slots: MakeSlots, ratio: float, seed: int) -> None:
    # Given slots and the verdict on all of them
    slots = make_slots(seed, 40, ratio=ratio)
    whole = judge(slots, SPEC)
    # Then the slots up to the decision give the same verdict, and fewer have the same beginning and no decision
    assert judge(slots[: whole.slots], SPEC) == whole
    shorter = judge(slots[: whole.slots - 1], SPEC)
    assert shorter.outcome is Outcome.CONTINUE
    assert shorter.trail == whole.trail[: whole.slots - 1]


@settings(max_examples=4)
@given(seed=st.integers(0, 99), ratio=st.sampled_from([1.0, 1.3]))
def test_slot_by_slot_equals_all_at_once(make_slots: MakeSlots, seed: int, ratio: float) -> None:
    # Given the judge of the Job, which sees a slot at a time, and the operator's, which sees stored files
    slots = make_slots(seed, 40, ratio=ratio)
    process = Process(SPEC)
    outcomes = [process.add(slot) for slot in slots]
    stored = judge([decode_slot(encode_slot(slot, benchmark="b")) for slot in slots], SPEC)
    # Then both say the same, to the last bit, and the decision stays
    assert process.verdict() == stored
    if stored.decided_at_slot is not None:
        assert set(outcomes[stored.decided_at_slot :]) == {stored.outcome}


@settings(max_examples=4)
@given(seed=st.integers(0, 99), power=st.integers(-6, 6))
def test_the_unit_of_time_does_not_matter(make_slots: MakeSlots, seed: int, power: int) -> None:
    # Given all latencies of both arms and the baseline times a power of two
    factor = 2.0**power
    slots = make_slots(seed, 30, ratio=1.15)
    scaled = [replace(_slower(s, factor), twin=_slower(s.swapped(), factor).canary) for s in slots]
    free = replace(SPEC, thresholds={})
    one, other = judge(slots, free), judge(scaled, free)
    assert (one.outcome, one.decided_at_slot) == (other.outcome, other.decided_at_slot)
    for a, b in zip(one.trail, other.trail, strict=True):
        assert (a.alarm, a.gross, a.promote) == pytest.approx((b.alarm, b.gross, b.promote), rel=1e-6)


def test_swapped_arms_are_judged_as_mirrors(make_slots: MakeSlots) -> None:
    # Given a canary that is 30 % slower, and the same slots with the arms' names exchanged
    slots = make_slots(4, 40, ratio=1.3)
    slow, fast = judge(slots, SPEC), judge([slot.swapped() for slot in slots], SPEC)
    # Then one is an alarm, the other a promotion, and the estimates are each other's inverse
    assert (slow.outcome, fast.outcome) == (Outcome.ALARM, Outcome.PROMOTE)
    first = min(slow.slots, fast.slots)
    one, other = (judge(s[:first], SPEC) for s in (slots, [slot.swapped() for slot in slots]))
    for a, b in zip(one.estimates[:-1], other.estimates[:-1], strict=True):
        assert (a.canary_value, a.twin_value) == (b.twin_value, b.canary_value)
        assert a.ratio == pytest.approx(1 / b.ratio, rel=0.05)


@pytest.mark.parametrize(("seconds", "slots"), [(10.0, 2), (2.0, 6)])
def test_a_dead_canary_is_rejected_in_seconds(seconds: float, slots: int, make_slot: MakeSlot) -> None:
    # Given a canary that answers nothing
    dead = [make_slot(n, [math.inf] * 50, [1.0] * 50, seconds=seconds) for n in range(20)]
    verdict = judge(dead, SPEC)
    # Then it is gross after 20 or 12 s of its own halves, and the reason is its errors
    assert (verdict.outcome, verdict.slots, verdict.reason) == (Outcome.GROSS_ALARM, slots, "ErrorRate")
    assert verdict.message == f"The canary failed 100.0 % of its requests, the twin 0.0 %, after {100 * slots} requests"


def test_failures_on_both_arms_are_not_blamed_on_the_canary(make_slot: MakeSlot) -> None:
    # Given an outage that takes both arms
    verdict = judge([make_slot(n, [math.inf] * 50, [math.inf] * 50) for n in range(20)], SPEC)
    assert (verdict.outcome, verdict.reason) == (Outcome.CONTINUE, "Running")
    assert all(e.ratio is None for e in verdict.estimates[:-1])
    assert "unbounded on both arms" in verdict.message


FULL = TrailPoint(slot=9, void=False, requests=12_000, alarm=20, gross=20, errors=1000, promote=20)


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        ({}, Outcome.GROSS_ALARM),
        ({"gross": 19.9}, Outcome.GROSS_ALARM),
        ({"errors": 999}, Outcome.GROSS_ALARM),
        ({"errors": 999, "gross": 19.9}, Outcome.ALARM),
        ({"errors": 999, "alarm": 19.9}, Outcome.PROMOTE),
        ({"errors": 999, "alarm": 19.9, "promote": 19.9}, Outcome.BUDGET_SPENT),
        ({"errors": 999, "alarm": 19.9, "promote": 19.9, "requests": 11_999}, Outcome.CONTINUE),
    ],
)
def test_at_the_same_slot_gross_comes_before_alarm_before_promotion_before_the_budget(
    changed: dict[str, float], outcome: Outcome
) -> None:
    assert decide(replace(FULL, **changed), JudgeSpec()) is outcome


@pytest.mark.parametrize("rate", [1, 10, 50])
def test_the_error_rates_set_the_evidence_needed(rate: int) -> None:
    quiet = replace(FULL, errors=1, gross=1, alarm=1, promote=1, requests=0)
    spec = JudgeSpec(error_rates=ErrorRates(rollback=rate, promote=rate))
    assert decide(replace(quiet, alarm=100 / rate), spec) is Outcome.ALARM
    assert decide(replace(quiet, alarm=100 / rate - 0.01), spec) is Outcome.CONTINUE
    assert decide(replace(quiet, promote=100 / rate), spec) is Outcome.PROMOTE


def test_a_stricter_proof_needs_more_requests(make_slots: MakeSlots) -> None:
    slots = make_slots(6, 120)
    easy, hard = (judge(slots, replace(SPEC, proof=Proof(*proof))) for proof in ((8, 8, 50), (5, 8, 25)))
    assert easy.outcome is Outcome.PROMOTE
    assert easy.requests < hard.requests


def test_every_metric_must_prove_itself(make_slots: MakeSlots) -> None:
    # Given a canary that is the twin's equal but for a P99 of TPOT that is half as long again
    def drifted(slot: Slot) -> Slot:
        tail = np.where(np.arange(50) % 25 == 0, 1.5, 1.0)
        half = slot.canary
        return replace(slot, canary=replace(half, tpot_s=np.sort(half.tpot_s)[::-1] * tail, ttft_s=half.ttft_s))

    slots = [drifted(slot) for slot in make_slots(7, 60)]
    alone = judge(slots, replace(SPEC, metrics=(Metric.TTFT, Metric.LATENCY)))
    together = judge(slots[: alone.slots], SPEC)
    # Then the other metrics promote without it, and don't with it
    assert alone.outcome is Outcome.PROMOTE
    assert together.outcome is not Outcome.PROMOTE


def test_the_budget_counts_both_arms_and_what_was_spent_before(make_slots: MakeSlots) -> None:
    # Given 1,000 requests in all, 700 of them spent by an earlier benchmark
    spec = replace(SPEC, max_requests=1000, spent_requests=700)
    verdict = judge(make_slots(8, 20), spec)
    # Then the third slot of 100 is the last
    assert (verdict.outcome, verdict.slots, verdict.requests) == (Outcome.BUDGET_SPENT, 3, 300)
    assert verdict.reason == "Inconclusive"
    assert verdict.message.startswith("Neither drift nor non-inferiority is proven after 300 requests: ")


def void(slot: Slot) -> Slot:
    return replace(slot, void="SendersLate: the P99 lateness was 3 ms, allowed 1 ms.")


def test_void_slots_are_no_evidence_but_count(make_slots: MakeSlots) -> None:
    # Given a drifting canary, and the same slots with void ones of another drift in between
    slots = make_slots(9, 30, ratio=1.3)
    wild = make_slots(10, 60, ratio=9.0)
    mixed = [replace(slots[n // 2] if n % 2 else void(wild[n]), number=n) for n in range(60)]
    plain, holed = judge(slots, SPEC), judge(mixed, SPEC)
    # Then the evidence is the same, and the void slots and their requests are counted
    assert [p.alarm for p in holed.trail if not p.void] == [p.alarm for p in plain.trail]
    assert (holed.slots, holed.void_slots) == (2 * plain.slots, plain.slots)
    assert holed.requests == 2 * plain.requests
    assert holed.estimates == plain.estimates


def test_void_slots_alone_are_no_data(make_slots: MakeSlots) -> None:
    """R-022: no data is never a pass and never a failure."""
    # Given a budget that void slots use up
    verdict = judge([void(slot) for slot in make_slots(1, 10)], replace(SPEC, max_requests=500))
    assert (verdict.outcome, verdict.reason, verdict.slots) == (Outcome.BUDGET_SPENT, "NoData", 5)
    assert verdict.message == (
        "No data for TTFT, TPOT and Latency in 5 slots, 5 of them void, after 500 requests: "
        "neither a pass nor a failure"
    )


def test_no_slots_are_no_data() -> None:
    verdict = judge([], SPEC)
    assert (verdict.outcome, verdict.reason, verdict.trail) == (Outcome.CONTINUE, "NoData", ())


def test_an_undefined_metric_is_never_a_pass(make_slots: MakeSlots) -> None:
    """R-022: TPOT of answers of one token is nan; it can't be proven and says so."""

    # Given a canary that is far better in all that can be measured
    def single_token(slot: Slot) -> Slot:
        nan = np.full(50, math.nan)
        return replace(slot, canary=replace(slot.canary, tpot_s=nan), twin=replace(slot.twin, tpot_s=nan))

    slots = [single_token(slot) for slot in make_slots(1, 40, ratio=0.5)]
    verdict = judge(slots, replace(SPEC, max_requests=4000))
    assert (verdict.outcome, verdict.reason) == (Outcome.BUDGET_SPENT, "NoData")
    assert verdict.message.startswith("No data for TPOT in 40 slots")


SHORT, LONG = RequestClass("short", 0, 999), RequestClass("long", 1000)


def test_an_empty_class_neither_passes_nor_hides_the_other(make_slots: MakeSlots) -> None:
    # Given two classes, and requests of one only
    spec = JudgeSpec(classes=(SHORT, LONG), max_requests=4000)
    same, slow = (judge(make_slots(2, 40, ratio=ratio), spec) for ratio in (1.0, 1.4))
    # Then nothing is promoted, and a drift is still found
    assert (same.outcome, same.reason) == (Outcome.BUDGET_SPENT, "NoData")
    assert "TTFT of class long, TPOT of class long and Latency of class long" in same.message
    assert slow.outcome in (Outcome.ALARM, Outcome.GROSS_ALARM)
    assert "of class short" in slow.message


def test_a_drift_of_one_class_alone_is_found(make_slot: MakeSlot) -> None:
    # Given a TTFT that is half as long again for long prompts, a fifth of all
    rng = np.random.default_rng(3)

    def slot(number: int) -> Slot:
        prompts = np.where(np.arange(50) % 5 == 0, 2000, 100)
        arms = np.exp(0.3 * rng.standard_normal(50) + 0.2 * rng.standard_normal((2, 50)))
        made = make_slot(number, *arms)
        drift = np.where(prompts >= 1000, 1.5, 1.0)
        canary = replace(made.canary, prompt_tokens=prompts, ttft_s=made.canary.ttft_s * drift)
        return replace(made, canary=canary, twin=replace(made.twin, prompt_tokens=prompts))

    verdict = judge([slot(n) for n in range(60)], JudgeSpec(classes=(SHORT, LONG)))
    # Then the alarm names metric and class
    assert verdict.outcome is Outcome.ALARM
    assert verdict.message.startswith("TTFT typical of class long is 1.")


def test_gaps_are_an_error(make_slots: MakeSlots) -> None:
    slots = make_slots(1, 5)
    with pytest.raises(SlotOrderError, match="slot 3 is out of order, wanted 2"):
        judge([*slots[:2], *slots[3:]], SPEC)
    with pytest.raises(SlotOrderError, match="slot 0 is out of order, wanted 1"):
        process = Process(SPEC)
        process.add(slots[0])
        process.add(slots[0])


def test_what_follows_the_decision_is_ignored_even_if_malformed(make_slots: MakeSlots) -> None:
    slots = make_slots(1, 40, ratio=1.3)
    verdict = judge(slots, SPEC)
    assert judge([*slots[: verdict.slots], slots[0], slots[39]], SPEC) == verdict


def test_evidence_may_begin_at_any_number(make_slots: MakeSlots) -> None:
    # Given a fresh pair of pods whose first slot is the eleventh of the benchmark
    slots = [replace(slot, number=slot.number + 10) for slot in make_slots(1, 40)]
    verdict = judge(slots, SPEC)
    assert verdict.decided_at_slot == 10 + verdict.slots - 1


def test_a_moved_environment_is_a_flag_and_no_verdict(make_slots: MakeSlots) -> None:
    # Given both arms twice as slow as the frozen baseline
    slots = [replace(_slower(s, 2.0), twin=_slower(s.swapped(), 2.0).canary) for s in make_slots(1, 60)]
    verdict = judge(slots, SPEC)
    # Then the canary is judged against the twin alone, and the flag is up
    assert (verdict.outcome, verdict.flags) == (Outcome.PROMOTE, ("environmentChanged",))
    assert "environment has changed" in verdict.notes[1]
    assert judge(make_slots(1, 60), SPEC).flags == ()


@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_a_verdict_survives_json(ratio: float, make_slots: MakeSlots) -> None:
    # Given verdicts with open intervals and unknown ratios in them
    for count in (0, 3, 40):
        verdict = judge(make_slots(1, count, ratio=ratio), SPEC)
        text = json.dumps(verdict.to_json(), allow_nan=False)
        assert Verdict.from_json(json.loads(text)) == verdict


@pytest.mark.parametrize("changed", [{"outcome": "Maybe"}, {"estimates": [{}]}, {"trail": 5}])
def test_a_malformed_verdict_is_refused(changed: dict[str, object], make_slots: MakeSlots) -> None:
    data = judge(make_slots(1, 2), SPEC).to_json()
    with pytest.raises(VerdictFormatError, match="can't be read"):
        Verdict.from_json(data | changed)
