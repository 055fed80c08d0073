"""Server-sent events, parsed as the bytes come (WHATWG HTML, section "Server-sent events")."""

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True)
class Event:
    """One event: its type (`message` unless the stream names another) and its data lines joined by newlines."""

    kind: str
    data: str


class SseParser:
    """Turns any cutting of a byte stream into the same events.

    Lines end in LF, CR or CRLF; one space after the colon is optional; lines that start with a colon are comments; an
    event without data is none. What has no blank line after it when the stream ends is dropped, as the standard says.
    """

    def __init__(self) -> None:
        self._partial = b""
        self._ended_in_cr = False
        self._kind = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes and return the events that they complete, in order."""
        if self._ended_in_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._ended_in_cr = False
        if chunk:
            self._ended_in_cr = chunk.endswith(b"\r")
        *lines, self._partial = _LINE_END.split(self._partial + chunk)
        return [event for line in lines if (event := self._take(line)) is not None]

    def _take(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if field == b"data":
            self._data.append(text)
        elif field == b"event":
            self._kind = text
        return None

    def _dispatch(self) -> Event | None:
        event = Event(self._kind or "message", "\n".join(self._data)) if self._data else None
        self._kind, self._data = "", []
        return event
