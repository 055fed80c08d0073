"""The judge's specification: its JSON form and what it refuses."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_runtime.judge.spec import ErrorRates, JudgeSpec, Metric, Proof, RequestClass, SpecError

percent = st.integers(1, 100)
quantiles = st.dictionaries(st.sampled_from(["p50", "p90", "p99"]), st.floats(1e-6, 1e3))


@given(
    tolerance=percent,
    proof=st.builds(Proof, percent, percent, percent),
    rates=st.builds(ErrorRates, st.integers(1, 50), st.integers(1, 50)),
    sd=st.floats(0, 0.5),
    starts=st.integers(0, 9),
    limit=st.one_of(st.none(), st.integers(0, 9999)),
    thresholds=st.dictionaries(st.sampled_from(["TTFT/short", "Latency/long"]), quantiles),
)
def test_json_gives_back_exactly_the_same_specification(
    tolerance: int,
    proof: Proof,
    rates: ErrorRates,
    sd: float,
    starts: int,
    limit: int | None,
    thresholds: dict[str, dict[str, float]],
) -> None:
    # Given any specification, with floats of any precision
    spec = JudgeSpec(
        metrics=(Metric.TTFT, Metric.LATENCY),
        classes=(RequestClass("short", 0, limit), RequestClass("long", 7)),
        tolerance=tolerance,
        proof=proof,
        error_rates=rates,
        offset_sd=sd,
        offset_starts=starts,
        thresholds=thresholds,
    )
    # When it goes through JSON text, as in a benchmark's plan
    text = json.dumps(spec.to_json(), allow_nan=False)
    # Then it is the same, so that the Job and the operator judge alike
    assert JudgeSpec.from_json(json.loads(text)) == spec
    assert "." not in text.replace("TTFT/short", "").replace("Latency/long", "")


def test_the_defaults_are_those_of_the_rollout() -> None:
    spec = JudgeSpec()
    assert [*spec.metrics] == ["TTFT", "TPOT", "Latency"]
    assert (spec.tolerance_ratio, spec.alarm_threshold, spec.promote_threshold) == (1.08, 20, 20)
    assert (spec.max_requests, spec.slot_requests, spec.interval_percent) == (12_000, 50, 90)


@pytest.mark.parametrize(("sd", "gross"), [(0.0, 1.08 * math.exp(0.1)), (0.08, 1.08 * math.exp(2.33 * 0.08))])
def test_gross_is_beyond_what_pods_differ_by(sd: float, gross: float) -> None:
    assert JudgeSpec(offset_sd=sd).gross_ratio == pytest.approx(gross)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"tolerance": 0}, "tolerance is 0, wanted an integer of 1 to 100"),
        ({"tolerance": 101}, "tolerance is 101"),
        ({"tolerance": 8.5}, "tolerance is 8.5"),
        ({"tolerance": True}, "tolerance is True"),
        ({"metrics": ()}, "metrics is"),
        ({"metrics": (Metric.TTFT, Metric.TTFT)}, "metrics is"),
        ({"classes": ()}, "classes are named"),
        ({"classes": (RequestClass("a"), RequestClass("a"))}, "classes are named"),
        ({"max_requests": 0}, "max_requests is 0, wanted an integer of 1 or more"),
        ({"spent_requests": -1}, "spent_requests is -1"),
        ({"offset_sd": -0.1}, "offset_sd is -0.1"),
        ({"offset_sd": math.nan}, "offset_sd is nan"),
        ({"thresholds": {"TTFT/all": {"p90": math.inf}}}, "TTFT/all.*p90.* is inf"),
        ({"thresholds": {"TTFT/all": {"p90": 0.0}}}, "is 0.0 s"),
        ({"thresholds": {"TTFT/all": {"p95": 1.0}}}, "'p95', wanted p50, p90, p99"),
    ],
)
def test_a_field_out_of_range_is_named(changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        JudgeSpec(**changed)


@pytest.mark.parametrize("make", [lambda: ErrorRates(rollback=51), lambda: ErrorRates(promote=0), lambda: Proof(p99=0)])
def test_rates_and_proof_have_bounds(make: Any) -> None:
    with pytest.raises(SpecError, match=r"errorRates\.|proof\."):
        make()


@pytest.mark.parametrize(
    "make", [lambda: RequestClass("a/b"), lambda: RequestClass(""), lambda: RequestClass("a", 9, 8)]
)
def test_an_empty_class_is_refused(make: Any) -> None:
    with pytest.raises(SpecError, match="classes: "):
        make()


@pytest.mark.parametrize("drop", list(JudgeSpec().to_json()))
def test_a_missing_field_in_json_is_named(drop: str) -> None:
    data = JudgeSpec().to_json()
    del data[drop]
    with pytest.raises(SpecError, match=drop):
        JudgeSpec.from_json(data)


@pytest.mark.parametrize("changed", [{"metrics": ["Speed"]}, {"proof": {"p50": 8}}, {"thresholdsMicroseconds": 5}])
def test_a_malformed_field_in_json_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="can't be read"):
        JudgeSpec.from_json(JudgeSpec().to_json() | changed)
