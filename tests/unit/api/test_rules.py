"""Rules of the API as pydantic checks them; tests/integration/test_crds.py shows the same in the API server."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_operator.api.base import Duration, InvalidObject, Model, seconds
from tailguard_operator.api.service import InferenceServiceSpec

MODEL = {"uri": "hf://Qwen/Qwen3-8B"}


def refusal(**spec: Any) -> str:
    with pytest.raises(InvalidObject) as caught:
        InferenceServiceSpec.parse({"model": MODEL} | spec, "spec")
    return str(caught.value)


def objective(**fields: Any) -> dict[str, Any]:
    return {"slos": [{"name": "all", "objectives": [fields]}]}


@pytest.mark.parametrize(
    "uri",
    [
        "hf://Qwen/Qwen3-8B",
        "hf://gpt2",
        "pvc://models/qwen3/8b",
        "pvc://models",
        "file:///models/tiny",
    ],
)
def test_a_model_uri_names_a_repository_a_claim_or_a_path(uri: str) -> None:
    # When
    spec = InferenceServiceSpec.parse({"model": {"uri": uri}}, "spec")
    # Then
    assert spec.model.uri == uri


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "qwen",
        "hf:/Qwen/Qwen3-8B",
        "hf://",
        "hf://a/b/c",
        "file://models/tiny",
        "pvc://",
        "s3://bucket/x",
        "hf://a b",
    ],
)
def test_any_other_model_uri_is_refused_with_its_value_and_an_example(uri: str) -> None:
    # When
    message = refusal(model={"uri": uri})
    # Then
    assert message.startswith(f"spec.model.uri: {uri!r} is not allowed; ")
    assert "hf://ORG/NAME, pvc://CLAIM/PATH or file:///PATH" in message


@pytest.mark.parametrize(
    ("weights", "fine"),
    [([1, 10, 25], True), ([5], True), ([10, 1], False), ([10, 10], False), ([1, 25, 10], False)],
)
def test_steps_are_in_ascending_order(weights: list[int], fine: bool) -> None:
    # Given
    rollout = {"steps": [{"weight": weight} for weight in weights]}
    # Then
    if fine:
        assert InferenceServiceSpec.parse({"model": MODEL, "rollout": rollout}, "spec").rollout.steps
    else:
        message = refusal(rollout=rollout)
        assert message.startswith("spec.rollout.steps: ")
        assert "steps must be in ascending order of weight" in message


@given(st.lists(st.integers(1, 50), min_size=1, max_size=16))
def test_any_steps_are_fine_exactly_when_sorting_changes_nothing_and_none_is_double(weights: list[int]) -> None:
    # Given
    spec = {"model": MODEL, "rollout": {"steps": [{"weight": weight} for weight in weights]}}
    # When
    try:
        InferenceServiceSpec.parse(spec, "spec")
        accepted = True
    except InvalidObject:
        accepted = False
    # Then
    assert accepted == (weights == sorted(set(weights)))


@pytest.mark.parametrize(
    "fields",
    [
        {"metric": "TTFT", "percentile": "99", "max": "800ms"},
        {"metric": "Latency", "percentile": "99.9", "max": "1.5s"},
        {"metric": "ErrorRate", "max": "0.12%"},
        {"metric": "Throughput", "min": "1200"},
        {"metric": "Availability", "min": "99.9%"},
    ],
)
def test_each_metric_takes_its_own_bound(fields: dict[str, str]) -> None:
    """R-001, R-006: bounds by percentile and class."""
    # When
    spec = InferenceServiceSpec.parse({"model": MODEL} | objective(**fields), "spec")
    # Then
    assert spec.slos is not None
    assert spec.slos[0].objectives[0].to_object() == fields


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"metric": "TTFT", "max": "800ms"}, "a TTFT, TPOT or Latency objective needs percentile"),
        ({"metric": "TPOT", "percentile": "99"}, "a TTFT, TPOT or Latency objective needs percentile"),
        ({"metric": "TTFT", "percentile": "99", "max": "1%"}, "as max, a duration"),
        ({"metric": "TTFT", "percentile": "99", "max": "1s", "min": "1"}, "has no min"),
        ({"metric": "ErrorRate", "max": "800ms"}, "an ErrorRate objective needs max, a percentage"),
        ({"metric": "ErrorRate", "max": "1%", "percentile": "99"}, "no percentile"),
        ({"metric": "Throughput", "max": "5%"}, "a Throughput objective needs min"),
        ({"metric": "Throughput", "min": "5%"}, "a Throughput objective needs min"),
        ({"metric": "Availability", "min": "99"}, "an Availability objective needs min, a percentage"),
    ],
)
def test_a_bound_of_another_metric_is_refused_with_an_example(fields: dict[str, str], words: str) -> None:
    # When
    message = refusal(**objective(**fields))
    # Then
    assert message.startswith("spec.slos[0].objectives[0]: ")
    assert words in message
    assert "write it like {metric: " in message


@pytest.mark.parametrize("percentile", ["100", "49", "99.99", "p99", "0"])
def test_a_percentile_outside_50_to_99_9_is_refused(percentile: str) -> None:
    # When
    message = refusal(**objective(metric="TTFT", percentile=percentile, max="1s"))
    # Then
    assert "spec.slos[0].objectives[0].percentile" in message
    assert 'from "50" to "99.9"' in message


def test_a_range_of_tokens_is_not_upside_down() -> None:
    # Given
    when = {"promptTokens": {"min": 100, "max": 10}}
    # When
    message = refusal(slos=[{"name": "a", "when": when, "objectives": [{"metric": "ErrorRate", "max": "1%"}]}])
    # Then
    assert "promptTokens.min must not be larger than promptTokens.max" in message


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"replicas": -1}, "spec.replicas"),
        ({"rollout": {"tolerance": 0}}, "spec.rollout.tolerance"),
        ({"rollout": {"tolerance": -8}}, "spec.rollout.tolerance"),
        ({"rollout": {"errorRates": {"rollback": 51}}}, "spec.rollout.errorRates.rollback"),
        ({"rollout": {"steps": [{"weight": 100}]}}, "spec.rollout.steps[0].weight"),
        ({"rollout": {"keepPrevious": "10 minutes"}}, "spec.rollout.keepPrevious"),
        ({"traffic": {"hostnames": ["https://chat.example.com"]}}, "spec.traffic.hostnames[0]"),
        ({"engine": {"profil": "a"}}, "spec.engine.profil"),
    ],
)
def test_a_refusal_names_the_field(spec: dict[str, Any], field: str) -> None:
    # When
    message = refusal(**spec)
    # Then
    assert message.startswith(f"{field}: ")


class Timed(Model):
    """An object with a duration."""

    length: Duration


@given(st.from_regex(r"([0-9]{1,3}(ms|s|m|h)){1,4}", fullmatch=True))
def test_every_duration_that_is_accepted_has_a_length(text: str) -> None:
    # When
    length = seconds(Timed.parse({"length": text}, "spec").length)
    # Then
    assert length >= 0


@given(st.text(max_size=12))
def test_a_text_is_a_duration_for_the_model_exactly_when_it_can_be_read(text: str) -> None:
    # When
    try:
        Timed.parse({"length": text}, "spec")
        accepted = True
    except InvalidObject:
        accepted = False
    try:
        seconds(text)
        readable = True
    except ValueError:
        readable = False
    # Then
    assert accepted == readable
