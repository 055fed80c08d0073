"""Requests: lengths of real traffic, unique prompts, the same for both arms, sampling fixed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_runtime.load.lengths import recorded_lengths, scaled_lengths
from tailguard_runtime.load.prompts import ordinary_tokens, token_prompter, word_prompter
from tailguard_runtime.load.workload import (
    CHAT,
    COMPLETIONS,
    DefaultRequests,
    Request,
    UserRequests,
    WorkloadError,
    read_user_requests,
)


def default(context: int = 512) -> DefaultRequests:
    lengths = scaled_lengths(recorded_lengths(), context)
    return DefaultRequests(lengths, token_prompter(range(4, 500)), "chat", "tokens")


def body(request: Request) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(request.body)
    return decoded


def user(folder: Path, *lines: str) -> UserRequests:
    path = folder / "workload.jsonl"
    path.write_text("\n".join(lines))
    return read_user_requests(path, "chat", 512)


@given(context=st.integers(64, 2_000_000))
def test_prompt_and_output_always_fit_the_context(context: int) -> None:
    # When
    scaled = scaled_lengths(recorded_lengths(), context)

    # Then
    assert scaled.prompt.min() >= 16 and scaled.output.min() >= 4
    assert (scaled.prompt + scaled.output).max() < context


def test_a_small_context_sees_the_shape_of_the_recording() -> None:
    # When
    scaled = scaled_lengths(recorded_lengths(), 512)

    # Then: a quarter of the prompt up to 384, an eighth of the output up to 32
    assert (scaled.prompt.max(), scaled.output.max()) == (384, 32)
    assert np.median(scaled.prompt) == pytest.approx(np.median(recorded_lengths().prompt) / 4, abs=1)


def test_a_long_context_sees_the_traffic_as_recorded() -> None:
    scaled, recorded = scaled_lengths(recorded_lengths(), 32_768), recorded_lengths()
    assert np.array_equal(scaled.output, recorded.output)
    assert np.array_equal(scaled.prompt, np.maximum(recorded.prompt, 16))


def test_the_requests_of_a_slot_depend_on_seed_and_number_alone() -> None:
    # When
    first, again = default().slot(7, 3, 50), default().slot(7, 3, 50)

    # Then
    assert first == again
    assert first != default().slot(7, 4, 50) and first != default().slot(8, 3, 50)


def test_no_two_prompts_of_a_run_share_a_beginning() -> None:
    """A prefix cache of any block size has nothing to answer from (vLLM 54227)."""
    # Given 40 slots and three warm-up rounds of both arms
    requests = [request for number in range(40) for request in default().slot(7, number, 50)]
    requests += [request for number in range(6) for request in default().warmup(7, number, 24)]

    # When
    heads = {tuple(body(request)["prompt"][:16]) for request in requests}

    # Then
    assert len(heads) == len(requests)


def test_sampling_and_length_are_fixed(tmp_path: Path) -> None:
    """R-178: greedy, and exactly the asked number of tokens, on both sides."""
    # Given
    asked = [*default().slot(7, 0, 20), *user(tmp_path, '{"prompt": "hi", "max_tokens": 5}').slot(7, 0, 20)]

    # Then
    for request in asked:
        sent = body(request)
        assert sent["temperature"] == 0 and sent["ignore_eos"] is True and sent["stream"] is True
        assert sent["min_tokens"] == sent["max_tokens"] == request.output_tokens


def test_default_prompts_are_exactly_as_long_as_asked() -> None:
    for request in default().slot(7, 0, 50):
        assert request.path == COMPLETIONS and len(body(request)["prompt"]) == request.prompt_tokens


def test_words_are_never_more_tokens_than_asked_even_byte_by_byte() -> None:
    # When
    prompt = word_prompter()(np.random.default_rng(1), 100)

    # Then
    assert isinstance(prompt, str) and 80 <= len(prompt.encode()) <= 100


def test_ordinary_tokens_leave_out_the_known_places_of_special_ones() -> None:
    for vocabulary, special in ((128_256, 128_000), (131_072, 999), (151_936, 151_643), (262_144, 255_999)):
        assert special not in ordinary_tokens(vocabulary)
    with pytest.raises(ValueError, match="at least 16"):
        token_prompter(range(10))


def test_warm_up_spans_the_lengths_and_asks_the_same_ones_every_round() -> None:
    # When
    first, second = default().warmup(7, 1, 24), default().warmup(7, 2, 24)

    # Then
    assert [r.prompt_tokens for r in first] == [r.prompt_tokens for r in second]
    assert (first[0].prompt_tokens, first[-1].prompt_tokens) == (16, 384)
    assert first != second


def test_equal_digests_mean_equal_workloads(tmp_path: Path) -> None:
    # Given
    line, other = '{"prompt": "hi", "max_tokens": 5}', '{"prompt": "hi", "max_tokens": 6}'

    # Then
    assert default().digest == default().digest != default(1024).digest
    assert user(tmp_path, line).digest == user(tmp_path, "", line).digest != user(tmp_path, other).digest


def test_a_users_prompts_get_a_mark_of_their_own_in_front(tmp_path: Path) -> None:
    # Given a text, and a chat whose message has a field of its own
    lines = user(
        tmp_path,
        '{"prompt": "hello", "max_tokens": 5, "prompt_tokens": 3}',
        '{"messages": [{"role": "user", "content": "yes?", "name": "u"}], "max_tokens": 7}',
    )

    # When
    sent = lines.slot(7, 0, 40)
    texts = [body(r)["prompt"] for r in sent if r.path == COMPLETIONS]
    chats = [body(r)["messages"] for r in sent if r.path == CHAT]

    # Then
    assert len(set(texts)) == len(texts) > 0 and all(text.endswith("] hello") for text in texts)
    assert len(chats) == 40 - len(texts) > 0
    assert all(chat[0]["content"].endswith("] yes?") and chat[0]["name"] == "u" for chat in chats)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"prompt": "hi", "max_tokens": 0}', "line 2: max_tokens: 0: Input should be greater than or equal to 1"),
        ('{"prompt": "hi"}', "line 2: max_tokens"),
        ('{"prompt": "", "max_tokens": 3}', 'line 2: prompt: "": '),
        ('{"prompt": "hi", "max_tokens": 3, "temperature": 1}', "line 2: temperature: 1: Extra inputs"),
        ('{"max_tokens": 3}', "either prompt or messages"),
        ('{"prompt": "a", "messages": [{"role": "user", "content": "b"}], "max_tokens": 3}', "not both"),
        ('{"prompt": "hi", "max_tokens": 500, "prompt_tokens": 20}', "520: must be less than the model's context, 512"),
        ("{half", "line 2: no JSON"),
        ("[1]", "line 2: the object: [1]"),
    ],
)
def test_a_bad_line_is_named_with_field_value_and_what_is_allowed(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        user(tmp_path, '{"prompt": "fine", "max_tokens": 1}', line)
    assert told in str(caught.value)


def test_a_file_without_requests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="no request in it"):
        user(tmp_path, "", "  ")
    with pytest.raises(WorkloadError, match="can't be read"):
        read_user_requests(tmp_path / "missing.jsonl", "chat")
