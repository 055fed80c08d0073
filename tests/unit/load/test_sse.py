"""The stream parser follows the standard's rules however the bytes are cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_runtime.load.sse import Event, SseParser


def events_of(*chunks: bytes) -> list[Event]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_any_line_end_ends_a_line(end: bytes) -> None:
    # When / Then
    assert events_of(b"data: a" + end + end + b"data: b" + end + end) == [Event("message", "a"), Event("message", "b")]


def test_the_space_after_the_colon_is_optional_and_only_one_is_taken() -> None:
    assert events_of(b"data:{}\n\ndata:  x\n\n") == [Event("message", "{}"), Event("message", " x")]


def test_comments_unknown_fields_and_empty_events_are_no_events() -> None:
    assert events_of(b": ping\n\nid: 7\nretry: 10\n\nevent: error\n\n\n") == []


def test_data_lines_are_joined_and_the_type_is_kept_for_one_event() -> None:
    # When
    events = events_of(b"event: error\ndata: a\ndata: b\n\ndata: c\n\n")

    # Then
    assert events == [Event("error", "a\nb"), Event("message", "c")]


def test_what_no_blank_line_ended_is_no_event() -> None:
    assert events_of(b"data: a\n\ndata: cut off") == [Event("message", "a")]


def test_many_events_in_one_read_keep_their_order() -> None:
    assert [event.data for event in events_of(b"data: 1\n\ndata: 2\n\ndata: 3\n\n")] == ["1", "2", "3"]


line = st.sampled_from(["data: {}", "data:x", "data", "data: ä€😀", ": ping", "event: error", "id: 1", "", "", ""])
text = st.lists(st.tuples(line, st.sampled_from(["\n", "\r", "\r\n"])), max_size=25)


@given(lines=text, cuts=st.lists(st.integers(0, 400), max_size=12))
def test_any_cutting_of_the_bytes_gives_the_same_events(lines: list[tuple[str, str]], cuts: list[int]) -> None:
    # Given
    stream = "".join(content + end for content, end in lines).encode()
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})

    # When
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]

    # Then
    assert events_of(*pieces) == events_of(stream) == reference(stream)
    assert events_of(*(stream[i : i + 1] for i in range(len(stream)))) == reference(stream)


def reference(stream: bytes) -> list[Event]:
    """Parse the whole text at once, by the letter of the standard."""
    lines = stream.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]
    events, kind, data = [], "", ""
    for content in lines:
        name, _, value = content.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if content == "" and data:
            events.append(Event(kind or "message", data[:-1]))
        if content == "":
            kind, data = "", ""
        elif name == "data":
            data += value + "\n"
        elif name == "event":
            kind = value
    return events
