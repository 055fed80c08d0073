"""What an OpenAI-style stream says, chunk by chunk: tokens, their times, and whether it ended well.

Token counts come from `usage` alone, never from counting chunks: one chunk may carry many tokens, or none. A chunk
brings tokens when its usage count rose, or when it has content, reasoning or a tool call. Chunks that name only a role
or only usage, comments and `[DONE]` are no tokens.
"""

import json
from collections.abc import Mapping
from typing import Any

from tailguard_runtime.load.sse import Event

_DONE = "[DONE]"
_GENERATED = ("content", "reasoning", "reasoning_content", "tool_calls", "function_call")


class StreamError(Exception):
    """The stream says or shows that the request failed; the text is what is kept in the samples."""


class TokenStream:
    """Follows one answer; all times are those of the read that brought the chunk.

    Attributes:
        first_s: when the first generated token came, None before.
        last_s: when the last chunk with tokens came, None before.
        first_tokens: tokens in that first chunk; 1 when the engine gives usage only at the end.
        output_tokens: last count that usage gave, None before.
        prompt_tokens: as the engine counted them, None before.
        fingerprint: the engine's `system_fingerprint`, "" if it gives none.
        done: `[DONE]` was seen.
    """

    def __init__(self) -> None:
        self.first_s: float | None = None
        self.last_s: float | None = None
        self.first_tokens = 1
        self.output_tokens: int | None = None
        self.prompt_tokens: int | None = None
        self.fingerprint = ""
        self.done = False
        self._counts_by_usage = True

    def take(self, event: Event, at_s: float) -> None:
        """Follow one event that was read at `at_s`.

        Raises:
            StreamError: an error inside the stream (whatever the HTTP status was), or data that is no JSON object.
        """
        if event.data.strip() == _DONE:
            self.done = True
            return
        chunk = _parse(event)
        self.fingerprint = self.fingerprint or str(chunk.get("system_fingerprint") or "")
        new_tokens = self._take_usage(chunk.get("usage"))
        choices = chunk.get("choices") or []
        by_usage = new_tokens > 0 and self._counts_by_usage
        if choices and (by_usage or any(_generated(choice) for choice in choices)):
            self._take_tokens(new_tokens, at_s)

    def finish(self) -> None:
        """Check that the answer is whole.

        Raises:
            StreamError: no terminator, no token, or no usage to count tokens by.
        """
        if not self.done:
            raise StreamError("StreamCut: the stream ended without [DONE]")
        if self.first_s is None:
            raise StreamError("NoTokens: the stream ended without a generated token")
        if self.output_tokens is None:
            raise StreamError("UsageMissing: the engine gave no usage, so tokens can't be counted")

    def _take_tokens(self, new_tokens: int, at_s: float) -> None:
        if self.first_s is None:
            # Text without a count means that usage comes at the end only: its jump there is no new token.
            self._counts_by_usage = new_tokens > 0
            self.first_s, self.first_tokens = at_s, max(1, new_tokens)
        self.last_s = at_s

    def _take_usage(self, usage: Mapping[str, Any] | None) -> int:
        if not usage or not isinstance(usage.get("completion_tokens"), int):
            return 0
        rose = usage["completion_tokens"] - (self.output_tokens or 0)
        self.output_tokens = usage["completion_tokens"]
        if isinstance(usage.get("prompt_tokens"), int):
            self.prompt_tokens = usage["prompt_tokens"]
        return int(rose)


def _parse(event: Event) -> dict[str, Any]:
    try:
        chunk = json.loads(event.data)
    except json.JSONDecodeError as error:
        raise StreamError(f"BadChunk: no JSON in the stream: {event.data[:80]!r}") from error
    if event.kind == "error" or (isinstance(chunk, dict) and chunk.get("error")):
        raise StreamError(f"ErrorInStream: {event.data[:200]}")
    if not isinstance(chunk, dict):
        raise StreamError(f"BadChunk: no JSON object in the stream: {event.data[:80]!r}")
    return chunk


def _generated(choice: Mapping[str, Any]) -> bool:
    delta = choice.get("delta") or {}
    return bool(choice.get("text")) or any(delta.get(field) for field in _GENERATED)
