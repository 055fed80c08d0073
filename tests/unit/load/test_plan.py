"""The plan's JSON is read strictly, and what is wrong with it is said by field, value and what is allowed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tailguard_runtime.load.plan import DefaultWorkload, PlanError, load_plan


def written(folder: Path, content: Any) -> Path:
    path = folder / "plan.json"
    path.write_text(json.dumps(content))
    return path


def test_a_whole_plan_is_read(tmp_path: Path, plan_json: dict[str, Any]) -> None:
    # When
    plan = load_plan(written(tmp_path, plan_json))

    # Then
    assert plan.benchmark.name == "chat-1a2b3c4d-b1"
    assert isinstance(plan.workload, DefaultWorkload) and plan.workload.max_model_len == 128
    assert plan.judge_spec().slot_requests == 20
    assert plan.valid_slots is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"slot": {"requests": 0, "minSeconds": 0}}, "slot.requests: 0: "),
        ({"ratePerSecond": 0}, "ratePerSecond: 0: "),
        ({"ratePersecond": 5}, "ratePersecond: 5: "),
        ({"engine": "TGI"}, "engine: \"TGI\": Input should be 'VLLM' or 'TensorRTLLM'"),
        ({"workload": {"kind": "Random"}}, "workload"),
        ({"workload": {"kind": "Jsonl"}}, "workload.Jsonl.path"),
        ({"maxSlots": "many"}, 'maxSlots: "many": '),
        ({"judge": {"tolerance": 8}}, "can't be read"),
        ({"slot": {"requests": 50, "minSeconds": 0}}, "judge.slotRequests is 20 and slot.requests is 50"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(
    tmp_path: Path, plan_json: dict[str, Any], change: dict[str, Any], told: str
) -> None:
    with pytest.raises(PlanError) as caught:
        load_plan(written(tmp_path, plan_json | change))
    assert told in str(caught.value)


def test_every_wrong_field_is_named_at_once(tmp_path: Path, plan_json: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match=r"maxSlots: 0.*; seed: -1"):
        load_plan(written(tmp_path, plan_json | {"maxSlots": 0, "seed": -1}))


def test_a_url_with_a_path_is_refused(tmp_path: Path, plan_json: dict[str, Any]) -> None:
    plan_json["arms"]["canary"]["url"] = "http://10.0.0.1:8000/v1"
    with pytest.raises(PlanError, match=r"arms\.canary\.url"):
        load_plan(written(tmp_path, plan_json))


def test_no_file_and_no_json_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"can't be read.*--plan FILE"):
        load_plan(tmp_path / "missing.json")
    (tmp_path / "bad.json").write_text("{\n  oops")
    with pytest.raises(PlanError, match="line 2: no JSON"):
        load_plan(tmp_path / "bad.json")
