"""The user's requests, checked line by line, and what tells workloads apart."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_operator.api.rollout import BenchmarkSettings, SlotSize, WorkloadRef
from tailguard_operator.resources.workload import SIZE_LIMIT, check_jsonl, workload, workload_hash

LINE = '{"prompt": "Hello", "max_tokens": 8}'
CHAT = '{"messages": [{"role": "user", "content": "Hello", "name": "ann"}], "max_tokens": 8, "prompt_tokens": 5}'
NAMED = BenchmarkSettings(workload_ref=WorkloadRef(name="wl"))


def test_prompts_chats_and_empty_lines_are_fine() -> None:
    assert check_jsonl(f"{LINE}\n\n{CHAT}\n") == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", ["line 2", "no JSON", "column"]),
        ("[1]", ["line 2", "the object", "[1]"]),
        ('{"prompt": "x"}', ["line 2", "max_tokens", "Field required"]),
        ('{"prompt": "x", "max_tokens": 0}', ["line 2: max_tokens: 0", "greater than or equal to 1"]),
        ('{"prompt": "x", "max_tokens": "8"}', ['line 2: max_tokens: "8"', "integer"]),
        ('{"prompt": "x", "max_tokens": true}', ["line 2: max_tokens: true", "integer"]),
        ('{"prompt": "", "max_tokens": 1}', ['line 2: prompt: ""', "at least 1 character"]),
        ('{"max_tokens": 1}', ["line 2: the object", "either prompt or messages"]),
        (
            '{"prompt": "x", "messages": [{"role": "user", "content": "y"}], "max_tokens": 1}',
            ["either prompt or messages"],
        ),
        ('{"messages": [], "max_tokens": 1}', ["line 2: messages: []"]),
        ('{"messages": [{"role": "user"}], "max_tokens": 1}', ["line 2: messages.0.content", "Field required"]),
        ('{"prompt": "x", "max_tokens": 1, "prompt_tokens": -1}', ["line 2: prompt_tokens: -1"]),
    ],
)
def test_a_broken_line_is_named_with_field_value_and_what_is_allowed(line: str, said: list[str]) -> None:
    # When
    problems = check_jsonl(f"{LINE}\n{line}\n{LINE}")
    # Then
    assert len(problems) == 1
    assert all(part in problems[0] for part in said), problems[0]


def test_sampling_is_not_the_lines_to_choose() -> None:
    """R-178: sampling is fixed and equal on both sides of a comparison."""
    problems = check_jsonl('{"prompt": "x", "max_tokens": 1, "temperature": 0.7}')
    assert problems == [
        "workload.jsonl line 1: temperature: 0.7: only prompt, messages, max_tokens and prompt_tokens are known; "
        "sampling is the same for all requests"
    ]


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_no_request_at_all(text: str) -> None:
    assert check_jsonl(text) == ["workload.jsonl has no request in it; put one JSON object on each line"]


def test_many_problems_are_counted_and_a_few_told() -> None:
    problems = check_jsonl("\n".join(["{"] * 9))
    assert len(problems) == 6
    assert problems[-1] == "and 4 more"


def test_five_problems_are_all_told() -> None:
    assert len(check_jsonl("\n".join(["{"] * 5))) == 5


def test_a_file_that_leaves_no_room_for_the_plan() -> None:
    line = json.dumps({"prompt": "é" * 1000, "max_tokens": 1}, ensure_ascii=False)
    size = len(line.encode()) + 1
    assert check_jsonl((line + "\n") * (SIZE_LIMIT // size)) == []
    assert check_jsonl((line + "\n") * (SIZE_LIMIT // size + 1)) == [
        f"workload.jsonl has {size * (SIZE_LIMIT // size + 1)} bytes; at most {SIZE_LIMIT} are allowed, "
        "keep fewer requests"
    ]


@given(st.text(max_size=200))
def test_any_text_gets_an_answer(text: str) -> None:
    assert all(isinstance(problem, str) and problem for problem in check_jsonl(text))


def test_another_workload_has_another_hash() -> None:
    # Given
    default = BenchmarkSettings()
    others = [
        (LINE, default),
        (CHAT, default),
        (None, BenchmarkSettings(rate_per_second=6)),
        (None, BenchmarkSettings(slot=SlotSize(requests=51))),
        (None, BenchmarkSettings(slot=SlotSize(min_seconds=11))),
    ]
    # When
    hashes = {workload_hash(None, default), *(workload_hash(text, settings) for text, settings in others)}
    # Then
    assert len(hashes) == 6
    assert all(len(h) == 16 for h in hashes)


def test_the_hash_of_a_workload_is_the_same_for_ever() -> None:
    """A changed algorithm would make every frozen Baseline a stranger; change DEFAULT's version to do so on purpose."""
    assert workload_hash(None, BenchmarkSettings()) == "454371e6a54ce842"


def test_the_default_workload_needs_no_config_map() -> None:
    found = workload(BenchmarkSettings(), None)
    assert (found.config_map, found.jsonl, found.problem) == (None, None, "")
    assert found.hash == workload_hash(None, BenchmarkSettings())


def test_the_users_requests_are_taken_from_the_config_map() -> None:
    found = workload(NAMED, {"data": {"workload.jsonl": LINE}})
    assert (found.config_map, found.jsonl, found.problem) == ("wl", LINE, "")
    assert found.hash == workload_hash(LINE, NAMED)


@pytest.mark.parametrize(
    ("config_map", "said"),
    [
        (None, "'wl': no such ConfigMap"),
        ({"metadata": {}}, "'wl': no key workload.jsonl"),
        ({"data": None}, "'wl': no key workload.jsonl"),
        ({"data": {"other": "x"}}, "'wl': no key workload.jsonl"),
        ({"data": {"workload.jsonl": "{"}}, "ConfigMap wl: workload.jsonl line 1: no JSON"),
    ],
)
def test_a_workload_that_cannot_be_used_says_why(config_map: dict[str, object] | None, said: str) -> None:
    assert said in workload(NAMED, config_map).problem
