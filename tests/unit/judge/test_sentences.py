"""Verdicts in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from tailguard_runtime.judge.process import judge
from tailguard_runtime.judge.samples import Slot
from tailguard_runtime.judge.sentences import (
    Summary,
    interval_in_words,
    listed,
    proof_in_words,
    seconds_in_words,
)
from tailguard_runtime.judge.spec import JudgeSpec, Metric, Proof, RequestClass
from tailguard_runtime.judge.verdict import Estimate, Outcome

MakeSlots = Callable[..., list[Slot]]
TYPICAL = Estimate("TTFT", "all", "typical", 2.41, 2.10, 2.80, 0.812, 0.337, 88.0, 0.01)
P99 = Estimate("TTFT", "all", "P99", 4.0, 1.05, math.inf, 4.0, 1.0, 3.0, 0.2)
FAILURES = Estimate("", "", "errors", 5.0, 0.0, math.inf, 0.05, 0.01, 1001.0, 1.0)


def summary(outcome: Outcome, *estimates: Estimate, spec: JudgeSpec | None = None, errors: bool = False) -> Summary:
    return Summary(
        spec=spec or JudgeSpec(),
        outcome=outcome,
        requests=700,
        slots=8,
        void_slots=1,
        estimates=(*estimates, FAILURES),
        error_alarm=errors,
        environment_changed=False,
    )


def test_an_alarm_names_the_worst_drift_its_interval_and_the_requests() -> None:
    """R-022: both numbers are in the sentence."""
    # Given a typical TTFT that has surely drifted, and a P99 that looks worse but is less sure
    said = summary(Outcome.ALARM, P99, TYPICAL)
    assert said.message() == (
        "TTFT typical is 2.41 times the twin's (90 % interval 2.10 to 2.80), 812 ms against 337 ms, "
        "tolerance 1.08, after 700 requests"
    )
    assert said.reason() == "LatencyDrift"


def test_a_gross_alarm_names_the_gross_tolerance_too() -> None:
    said = summary(Outcome.GROSS_ALARM, TYPICAL)
    assert "tolerance 1.08 and gross 1.19, after 700 requests" in said.message()
    assert said.reason() == "GrossLatencyDrift"


def test_an_error_alarm_gives_both_shares() -> None:
    said = summary(Outcome.GROSS_ALARM, TYPICAL, errors=True)
    assert said.message() == "The canary failed 5.0 % of its requests, the twin 1.0 %, after 700 requests"
    assert said.reason() == "ErrorRate"


def test_a_promotion_says_what_is_proven_and_what_is_least_sure() -> None:
    close = replace(TYPICAL, ratio=1.01, low=0.97, high=1.05, canary_value=0.34, e_promote=20.5)
    said = summary(Outcome.PROMOTE, close, replace(close, statistic="P90", e_promote=99.0))
    assert said.message() == (
        "Proven after 700 requests: typical and P90 latency within 8 %, P99 within 25 % of the twin's, "
        "for TTFT, TPOT and Latency; least sure: TTFT typical is 1.01 times the twin's "
        "(90 % interval 0.97 to 1.05), 340 ms against 337 ms"
    )


def test_a_spent_budget_names_what_could_not_be_proven() -> None:
    said = summary(Outcome.BUDGET_SPENT, TYPICAL, replace(P99, e_promote=0.001))
    assert said.reason() == "Inconclusive"
    assert "TTFT P99 is 4.00 times the twin's (90 % interval 1.05 or more)" in said.message()


def test_missing_data_is_named_by_metric_and_class() -> None:
    nothing = replace(P99, request_class="long", ratio=None, canary_value=None, twin_value=None)
    spec = JudgeSpec(classes=(RequestClass("short"), RequestClass("long")))
    said = summary(Outcome.BUDGET_SPENT, TYPICAL, nothing, spec=spec)
    assert said.reason() == "NoData"
    assert said.message() == (
        "No data for TTFT of class long in 8 slots, 1 of them void, after 700 requests: neither a pass nor a failure"
    )


@pytest.mark.parametrize(
    ("proof", "words"),
    [
        (Proof(), "typical and P90 latency within 8 %, P99 within 25 %"),
        (Proof(8, 8, 8), "typical, P90 and P99 latency within 8 %"),
        (Proof(5, 8, 25), "typical latency within 5 %, P90 within 8 %, P99 within 25 %"),
        (Proof(5, 10, 10), "typical latency within 5 %, P90 and P99 within 10 %"),
    ],
)
def test_the_claim_is_the_proof_in_words(proof: Proof, words: str) -> None:
    assert proof_in_words(proof) == words


def test_the_claim_names_metrics_and_classes() -> None:
    spec = JudgeSpec(metrics=(Metric.TTFT,), classes=(RequestClass("short"), RequestClass("long")))
    assert summary(Outcome.PROMOTE, TYPICAL, spec=spec).claim() == (
        "typical and P90 latency within 8 %, P99 within 25 % of the twin's, for TTFT in classes short and long"
    )


@pytest.mark.parametrize(
    ("starts", "sd", "flags", "note"),
    [
        (
            1,
            0.04,
            ("AboutThesePods",),
            "The verdict is about these two pods: identical pods are taken to differ by s = 4.0 % from start to "
            "start, from 1 of 4 A/A starts needed",
        ),
        (4, 0.023, (), "Identical pods are taken to differ by s = 2.3 % from start to start, from 4 A/A starts"),
    ],
)
def test_the_offset_of_pods_is_shown_with_its_starts(
    starts: int, sd: float, flags: tuple[str, ...], note: str, make_slots: MakeSlots
) -> None:
    verdict = judge(make_slots(1, 1), JudgeSpec(offset_sd=sd, offset_starts=starts))
    assert (verdict.flags, verdict.notes) == (flags, (note,))


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (2.1, 2.8, "2.10 to 2.80"),
        (0, 2.8, "up to 2.80"),
        (2.1, math.inf, "2.10 or more"),
        (0, math.inf, "still open on both sides"),
    ],
)
def test_open_ends_are_said(low: float, high: float, words: str) -> None:
    assert interval_in_words(low, high) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.812, "812 ms"),
        (3.268, "3268 ms"),
        (0.0096, "9.6 ms"),
        (0.00025, "250 µs"),
        (12.34, "12.3 s"),
        (math.inf, "unbounded"),
        (None, "unknown"),
    ],
)
def test_seconds_have_a_fitting_unit(seconds: float | None, words: str) -> None:
    assert seconds_in_words(seconds) == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (1.234, "is 1.23 times the twin's"),
        (math.inf, "is unbounded"),
        (250.0, "is more than 100 times the twin's"),
        (None, "is unbounded on both arms"),
    ],
)
def test_ratios_that_are_no_number_are_said(ratio: float | None, words: str) -> None:
    assert words in summary(Outcome.ALARM, replace(TYPICAL, ratio=ratio)).message()


def test_names_are_listed() -> None:
    assert [listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
