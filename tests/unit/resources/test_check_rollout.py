"""What needs a gateway, what a budget can decide, and objectives that make no sense."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_operator.api.service import InferenceServiceSpec
from tailguard_operator.resources.check_rollout import check_rollout, least_slots, objective_warnings

MakeSpec = Callable[..., InferenceServiceSpec]


def problems(spec: InferenceServiceSpec) -> list[str]:
    return [str(problem) for problem in check_rollout(spec)]


def objectives(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"slos": [{"name": "chat", "objectives": list(rows)}]}


def test_the_default_rollout_has_no_problem(make_spec: MakeSpec) -> None:
    assert problems(make_spec()) == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"rollout": {"steps": [{"weight": 1}]}}, "spec.rollout.steps: 1 steps"),
        ({"rollout": {"strategy": "Shadow"}}, "spec.rollout.strategy: Shadow"),
        ({"rollout": {"guard": {}}}, "spec.rollout.guard"),
        ({"rollout": {"guard": {"window": "1h"}}}, "spec.rollout.guard: {'window': '1h'}"),
        ({"traffic": {"hostnames": ["a.example.com"]}}, "spec.traffic.hostnames: a.example.com"),
        ({"traffic": {"preview": "Enabled"}}, "spec.traffic.preview: Enabled"),
    ],
)
def test_what_needs_a_gateway(fields: dict[str, Any], field: str, make_spec: MakeSpec) -> None:
    found = problems(make_spec(**fields))
    assert len(found) == 1, found
    assert found[0].startswith(field)
    assert "needs spec.traffic.gateway; leave it out" in found[0]


@pytest.mark.parametrize("fields", [{"strategy": "BlueGreen"}, {"strategy": "Canary"}, {}])
def test_what_needs_none(fields: dict[str, Any], make_spec: MakeSpec) -> None:
    assert problems(make_spec(rollout=fields, traffic={})) == []


def test_a_gateway_is_refused_once_and_nothing_is_said_of_what_it_would_allow(make_spec: MakeSpec) -> None:
    spec = make_spec(traffic={"gateway": {"name": "gw"}}, rollout={"steps": [{"weight": 1}]})
    assert problems(spec) == [
        "spec.traffic.gateway: 'gw' is not allowed; gateways are not supported by this version; leave it out: users "
        "are moved in one step by the Service"
    ]


@pytest.mark.parametrize(("rollback", "slots"), [(50, 2), (10, 5), (5, 6), (1, 9)])
def test_the_least_number_of_slots_that_can_alarm(rollback: int, slots: int) -> None:
    """Evidence after n slots of the largest score: 1.5667, 2.5383, 4.2477, 7.3210, 12.9469, 23.3952."""
    assert least_slots(rollback) == slots


@given(st.integers(1, 49))
def test_a_stricter_bound_never_needs_fewer_slots(rollback: int) -> None:
    assert least_slots(rollback) >= least_slots(rollback + 1)


@pytest.mark.parametrize(
    ("benchmark", "rates", "said"),
    [
        ({"budget": {"requests": 699}}, {}, "budget.requests: 699 .* can alarm is 6, .*: write 700 or more"),
        ({"budget": {"requests": 1999}, "slot": {"requests": 200}}, {}, "write 2800 or more, .* than 200"),
        ({"budget": {"requests": 999}}, {"rollback": 1}, "can alarm is 9, .*: write 1000 or more"),
        ({"budget": {"minutes": 2}}, {}, "budget.minutes: 2 .*7 slots of this size and rate take 3 minutes: write 3"),
        ({"budget": {"minutes": 11}, "ratePerSecond": 1}, {}, "take 12 minutes"),
        ({"budget": {"minutes": 4}, "slot": {"minSeconds": 20}}, {}, "take 5 minutes"),
    ],
)
def test_a_budget_that_cannot_decide_names_the_number_that_would_do(
    benchmark: dict[str, Any], rates: dict[str, int], said: str, make_spec: MakeSpec
) -> None:
    found = problems(make_spec(rollout={"benchmark": benchmark, "errorRates": rates}))
    assert len(found) == 1, found
    with pytest.raises(ValueError, match=said):
        raise ValueError(found[0])


@pytest.mark.parametrize(
    ("benchmark", "rates"),
    [
        ({"budget": {"requests": 700, "minutes": 3}}, {}),
        ({"budget": {"requests": 1000, "minutes": 4}}, {"rollback": 1}),
        ({"budget": {"minutes": 12}, "ratePerSecond": 1}, {}),
    ],
)
def test_the_number_that_it_names_does(benchmark: dict[str, Any], rates: dict[str, int], make_spec: MakeSpec) -> None:
    assert problems(make_spec(rollout={"benchmark": benchmark, "errorRates": rates})) == []


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"metric": "TTFT", "percentile": "99", "max": "0ms"}, "objectives[0].max: 0ms .* no request can meet"),
        ({"metric": "ErrorRate", "max": "101%"}, "objectives[0].max: 101% .* up to 100%"),
        ({"metric": "Availability", "min": "100.1%"}, "objectives[0].min: 100.1% .* up to 100%"),
        ({"metric": "Availability", "min": "0%"}, "objectives[0].min: 0% .* nothing can break"),
        ({"metric": "Throughput", "min": "0"}, "objectives[0].min: 0 .* nothing can break"),
    ],
)
def test_a_bound_that_makes_no_sense(row: dict[str, Any], said: str, make_spec: MakeSpec) -> None:
    found = problems(make_spec(**objectives(row)))
    assert len(found) == 1, found
    for part in said.split(" .* "):
        assert part in found[0]


@pytest.mark.parametrize(
    "row",
    [
        {"metric": "ErrorRate", "max": "0%"},
        {"metric": "ErrorRate", "max": "100%"},
        {"metric": "Availability", "min": "99.9%"},
        {"metric": "Throughput", "min": "1200"},
        {"metric": "Latency", "percentile": "99.9", "max": "0.5s"},
    ],
)
def test_bounds_that_do(row: dict[str, Any], make_spec: MakeSpec) -> None:
    assert problems(make_spec(**objectives(row))) == []


def test_two_bounds_on_the_same_are_one_too_many(make_spec: MakeSpec) -> None:
    # Given
    row = {"metric": "TTFT", "percentile": "99", "max": "1s"}
    # When
    found = problems(make_spec(**objectives(row, {**row, "percentile": "90"}, {**row, "max": "2s"})))
    # Then
    assert found == [
        "spec.slos[0].objectives[2]: TTFT P99 is not allowed; class 'chat' has a bound on it already; "
        "keep one of the two"
    ]


def test_a_bound_that_never_binds_is_a_warning(make_spec: MakeSpec) -> None:
    rows = (
        {"metric": "TTFT", "percentile": "90", "max": "1m"},
        {"metric": "TTFT", "percentile": "99", "max": "900ms"},
        {"metric": "Latency", "percentile": "99", "max": "1s"},
    )
    found = list(objective_warnings(make_spec(**objectives(*rows))))
    assert found == [
        "spec.slos[0]: TTFT P90 within 1m never binds, because P99 has to be within 900ms; leave it out, or lower it"
    ]


def test_rising_bounds_are_no_warning(make_spec: MakeSpec) -> None:
    rows = [{"metric": "TTFT", "percentile": p, "max": m} for p, m in (("50", "200ms"), ("90", "0.5s"), ("99", "1m"))]
    assert list(objective_warnings(make_spec(**objectives(*rows)))) == []
