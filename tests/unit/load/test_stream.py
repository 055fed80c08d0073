"""Tokens, their times and the end of an answer, from the chunks of an OpenAI-style stream."""

import json
from typing import Any

import pytest

from tailguard_runtime.load.sse import Event
from tailguard_runtime.load.stream import StreamError, TokenStream


def follow(*chunks: tuple[float, Any]) -> TokenStream:
    stream = TokenStream()
    for at_s, chunk in chunks:
        data = chunk if isinstance(chunk, str) else json.dumps(chunk)
        stream.take(Event("message", data), at_s)
    return stream


def chunk(tokens: int | None, **choice: Any) -> dict[str, Any]:
    usage = {} if tokens is None else {"usage": {"prompt_tokens": 9, "completion_tokens": tokens}}
    return {"choices": [choice], **usage}


def test_usage_counts_the_tokens_of_a_chunk_not_the_chunk() -> None:
    # When: chunks of 2, 4 and 1 tokens
    stream = follow((1.0, chunk(2, text="ab")), (2.0, chunk(6, text="c")), (3.0, chunk(7, text="d")), (4.0, "[DONE]"))

    # Then
    stream.finish()
    assert (stream.first_s, stream.last_s) == (1.0, 3.0)
    assert (stream.first_tokens, stream.output_tokens, stream.prompt_tokens) == (2, 7, 9)


def test_role_only_and_usage_only_chunks_are_no_tokens() -> None:
    # When
    stream = follow(
        (1.0, chunk(0, delta={"role": "assistant", "content": ""})),
        (2.0, chunk(1, delta={"content": "a"})),
        (3.0, {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}),
        (4.0, "[DONE]"),
    )

    # Then
    assert (stream.first_s, stream.last_s) == (2.0, 2.0)


def test_a_token_without_text_is_a_token_when_usage_says_so() -> None:
    """Half a character gives an empty text; the engine's count rose all the same."""
    stream = follow((1.0, chunk(1, text="")), (2.0, chunk(2, text="ä")))
    assert (stream.first_s, stream.first_tokens) == (1.0, 1)


@pytest.mark.parametrize("field", ["content", "reasoning", "reasoning_content", "tool_calls"])
def test_any_generated_token_ends_the_time_to_first_token(field: str) -> None:
    assert follow((1.0, chunk(None, delta={field: ["x"]}))).first_s == 1.0


def test_usage_at_the_end_alone_gives_the_count_but_no_time() -> None:
    # When: the last chunk has a choice without text, and all the usage
    stream = follow((1.0, chunk(None, text="a")), (2.0, chunk(None, text="b")), (3.0, chunk(2, text="")))

    # Then
    assert (stream.first_s, stream.last_s, stream.output_tokens, stream.first_tokens) == (1.0, 2.0, 2, 1)


@pytest.mark.parametrize(
    "event",
    [
        Event("message", '{"error": {"message": "EngineDeadError", "code": 500}}'),
        Event("error", '"overloaded"'),
    ],
)
def test_an_error_inside_the_stream_is_a_failure(event: Event) -> None:
    with pytest.raises(StreamError, match="ErrorInStream"):
        TokenStream().take(event, 1.0)


@pytest.mark.parametrize("data", ["{half", "[1]", "7"])
def test_data_that_is_no_json_object_is_a_failure(data: str) -> None:
    with pytest.raises(StreamError, match="BadChunk"):
        TokenStream().take(Event("message", data), 1.0)


@pytest.mark.parametrize(
    ("chunks", "reason"),
    [
        ([(1.0, chunk(1, text="a"))], "StreamCut"),
        ([(1.0, chunk(0, text="")), (2.0, "[DONE]")], "NoTokens"),
        ([(1.0, chunk(None, text="a")), (2.0, "[DONE]")], "UsageMissing"),
    ],
)
def test_an_answer_that_is_not_whole_is_a_failure(chunks: list[tuple[float, Any]], reason: str) -> None:
    with pytest.raises(StreamError, match=reason):
        follow(*chunks).finish()
