"""The count of one user request while it passes through the middleware.

This is the hot path: no copy of a body, no JSON parsing, a handful of integer updates for each event.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable

from tailguard_runtime.guard import ring as r
from tailguard_runtime.guard.asgi import Message, Receive, Scope, Send
from tailguard_runtime.guard.control import Control
from tailguard_runtime.guard.ring import Ring, Sample

_CLOSE_HEADER = (b"connection", b"close")
_EVENT_END = b"\n\n"
_STREAM_END = b"data: [DONE]\n\n"
_COMMENT = b":"
_ERROR_EVENT = b'data: {"error"'
# In JSON text a quote is escaped, so these can't appear within generated text.
_COMPLETION_TOKENS = b'"completion_tokens":'
_PROMPT_TOKENS = b'"prompt_tokens":'
_USAGE_DIGITS = 20


class Exchange:
    """One request: give `receive` and `send` to the app, then call `end` exactly once."""

    __slots__ = (
        "_began", "_chunks", "_client_left", "_complete", "_control", "_error_event", "_first_byte",
        "_path", "_peer", "_prompt_tokens", "_receive", "_ring", "_send", "_started_at", "_status",
        "_streams", "_tokens",
    )  # fmt: skip

    def __init__(self, ring: Ring, control: Control, scope: Scope, receive: Receive, send: Send) -> None:
        self._ring = ring
        self._control = control
        self._receive = receive
        self._send = send
        self._peer = peer_of(scope)
        self._path: str = scope["path"]
        self._started_at = time.time()
        self._began = now = time.monotonic()
        self._first_byte: float | None = None
        self._status = 0
        self._chunks = 0
        self._tokens: int | None = None
        self._prompt_tokens: int | None = None
        self._streams = self._complete = self._client_left = self._error_event = False
        words = ring.words
        words[r.STARTED] += 1
        words[r.RUNNING] += 1
        words[r.WAITING] += 1
        ring.times[r.LAST_ACTIVITY] = now

    async def receive(self) -> Message:
        """Pass a message on to the app, and notice when the client hangs up."""
        message = await self._receive()
        if message["type"] == "http.disconnect" and not self._complete:
            self._client_left = True
        return message

    def send(self, message: Message) -> Awaitable[None]:
        """Pass a message on to the client and count what it carries."""
        if message["type"] == "http.response.body":
            if body := message.get("body", b""):
                self._count(body)
            if not message.get("more_body", False):
                self._complete = True
        elif message["type"] == "http.response.start":
            self._status = message["status"]
            self._streams = _is_event_stream(message)
            message = with_leave(message, self._control, self._peer)
        return self._send(message)

    def end(self, error: BaseException | None = None) -> None:
        """Store the sample and the outcome; `error` is what the app raised, if anything."""
        now = time.monotonic()
        ring, words = self._ring, self._ring.words
        outcome = self._outcome(error)
        words[r.RUNNING] -= 1
        if self._first_byte is None:
            words[r.WAITING] -= 1
        words[r.FINISHED_COUNT + outcome] += 1
        if outcome == r.FINISHED and self._status >= 400:
            words[r.CLIENT_ERRORS] += 1
        words[r.TOKENS] += self._chunks if self._tokens is None else self._tokens
        ring.times[r.LAST_ACTIVITY] = now
        ring.append(self._sample(now, outcome))

    def _count(self, body: bytes) -> None:
        if self._first_byte is None:
            self._first_byte = time.monotonic()
            self._ring.words[r.WAITING] -= 1
        if self._streams:
            self._count_events(body)
        if (at := body.rfind(_COMPLETION_TOKENS)) >= 0:
            self._tokens = _number_at(body, at + len(_COMPLETION_TOKENS))
            if (at := body.rfind(_PROMPT_TOKENS)) >= 0:
                self._prompt_tokens = _number_at(body, at + len(_PROMPT_TOKENS))

    def _count_events(self, body: bytes) -> None:
        if body.startswith(_COMMENT):
            # A keep-alive is no sign that the engine works.
            return
        if body.startswith(_ERROR_EVENT):
            self._error_event = True
            return
        events = body.count(_EVENT_END) - body.endswith(_STREAM_END)
        self._chunks += events
        self._ring.words[r.CHUNKS] += events

    def _outcome(self, error: BaseException | None) -> int:
        if self._error_event or self._status >= 500:
            return r.FAILED
        # A server may also say by an OSError on sending that the client is gone.
        if self._client_left or isinstance(error, OSError):
            return r.DISCONNECTED
        return r.FINISHED if self._complete else r.FAILED

    def _sample(self, now: float, outcome: int) -> Sample:
        return Sample(
            seq=0,
            start=self._started_at,
            ttft=None if self._first_byte is None else self._first_byte - self._began,
            e2e=now - self._began,
            status=self._status,
            outcome=outcome,
            chunks=self._chunks,
            tokens=self._tokens,
            prompt_tokens=self._prompt_tokens,
            path=self._path,
        )


def peer_of(scope: Scope) -> tuple[str, int] | None:
    """The client's end of the connection, None when the server doesn't know it."""
    client = scope.get("client")
    return (client[0], client[1]) if client else None


def with_leave(message: Message, control: Control, peer: tuple[str, int] | None) -> Message:
    """The start of an answer, with `Connection: close` when it must be the connection's last."""
    if not control.takes_leave(peer):
        return message
    headers = [pair for pair in message.get("headers", ()) if pair[0].lower() != _CLOSE_HEADER[0]]
    return {**message, "headers": [*headers, _CLOSE_HEADER]}


def _is_event_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )


def _number_at(body: bytes, at: int) -> int | None:
    digits = body[at : at + _USAGE_DIGITS].lstrip()
    end = 0
    while end < len(digits) and 48 <= digits[end] <= 57:
        end += 1
    return int(digits[:end]) if end else None
