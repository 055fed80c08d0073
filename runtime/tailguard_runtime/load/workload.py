"""What is asked of both arms: the default workload, or a user's own requests.

The requests of a slot depend on the seed and the slot's number alone, and are the same for both arms. Every prompt
begins with something no other prompt of the run begins with. Sampling and length are fixed and equal on both sides
(R-178): greedy, and exactly `max_tokens` tokens, because an end-of-text token is ignored.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tailguard_runtime.load.lengths import Lengths
from tailguard_runtime.load.plan import describe
from tailguard_runtime.load.prompts import Prompter
from tailguard_runtime.load.schedule import Purpose, stream

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
SAMPLING: dict[str, Any] = {"temperature": 0, "ignore_eos": True}
_STREAMING: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}


class WorkloadError(ValueError):
    """The user's requests can't be used; the text names file, line, field, value and what is allowed."""


@dataclass(frozen=True)
class Request:
    """One request, ready to send: path, JSON body, and the lengths asked for (0 = prompt length not known)."""

    path: str
    body: bytes
    prompt_tokens: int
    output_tokens: int


class Workload(ABC):
    """A population of requests to draw slots from.

    Attributes:
        digest: SHA-256 of all that fixes the distribution of requests; equal digests, comparable latencies.
    """

    digest: str

    @abstractmethod
    def sizes(self) -> Sequence[int]:
        """Return a prompt size of each member, in any unit that orders them."""

    @abstractmethod
    def request(self, index: int, rng: np.random.Generator) -> Request:
        """Return member `index` with a fresh, unique prompt."""

    def slot(self, seed: int, number: int, count: int) -> list[Request]:
        """Return the requests of slot `number`, drawn with replacement."""
        rng = stream(seed, number, Purpose.REQUESTS)
        return [self.request(int(index), rng) for index in rng.integers(len(self.sizes()), size=count)]

    def warmup(self, seed: int, number: int, count: int) -> list[Request]:
        """Return `count` requests whose lengths span the workload, shortest to longest, the same every round."""
        order = np.argsort(self.sizes(), kind="stable")
        picked = order[np.linspace(0, len(order) - 1, count).astype(int)]
        rng = stream(seed, number, Purpose.WARMUP)
        return [self.request(int(index), rng) for index in picked]


class DefaultRequests(Workload):
    """Random prompts with the lengths of real chat traffic."""

    def __init__(self, lengths: Lengths, prompter: Prompter, served_name: str, prompts: str) -> None:
        """Take the scaled lengths, and how prompts of such lengths are made (`prompts` names it for the digest)."""
        self._lengths, self._prompter, self._served_name = lengths, prompter, served_name
        pairs = np.stack([lengths.prompt, lengths.output], axis=1)
        self.digest = _digest({"kind": "Default", "prompts": prompts, "lengths": pairs.tolist()})

    def sizes(self) -> Sequence[int]:
        """Return the prompt lengths, tokens."""
        sizes: list[int] = self._lengths.prompt.tolist()
        return sizes

    def request(self, index: int, rng: np.random.Generator) -> Request:
        """Return member `index` as a text completion."""
        prompt_tokens, output_tokens = int(self._lengths.prompt[index]), int(self._lengths.output[index])
        prompt = {"prompt": self._prompter(rng, prompt_tokens)}
        return Request(COMPLETIONS, _body(self._served_name, prompt, output_tokens), prompt_tokens, output_tokens)


class Message(BaseModel):
    """One chat message of a user's request; fields other than the two known ones are passed on."""

    model_config = ConfigDict(frozen=True, extra="allow")

    role: str
    content: str


class Line(BaseModel):
    """One line of a user's JSONL. Sampling is not the line's to choose."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: Annotated[str, Field(min_length=1)] | None = None
    messages: Annotated[tuple[Message, ...], Field(min_length=1)] | None = None
    max_tokens: int = Field(ge=1, description="Exactly so many tokens are generated.")
    prompt_tokens: int = Field(default=0, ge=0, description="Length of the prompt if known.")

    @model_validator(mode="after")
    def _one_of(self) -> "Line":
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either prompt or messages, and not both")
        return self


class UserRequests(Workload):
    """A user's own prompts, each with a unique mark in front so that no prefix cache answers a repeat."""

    def __init__(self, lines: Sequence[Line], served_name: str) -> None:
        """Take at least one line."""
        self._lines, self._served_name = lines, served_name
        self.digest = _digest({"kind": "Jsonl", "lines": [line.model_dump(mode="json") for line in lines]})

    def sizes(self) -> Sequence[int]:
        """Return the prompts' lengths, characters."""
        return [len(line.prompt or "") + sum(len(m.content) for m in line.messages or ()) for line in self._lines]

    def request(self, index: int, rng: np.random.Generator) -> Request:
        """Return line `index` as a text or chat completion."""
        line = self._lines[index]
        mark = f"[{rng.bytes(8).hex()}] "
        path, prompt = _marked(line, mark)
        return Request(path, _body(self._served_name, prompt, line.max_tokens), line.prompt_tokens, line.max_tokens)


def read_user_requests(path: Path, served_name: str, max_model_len: int | None = None) -> UserRequests:
    """Read a JSONL file; empty lines are skipped.

    Raises:
        WorkloadError: unreadable, empty, or a line is wrong (the first one is named).
    """
    try:
        texts = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"workload {path}: can't be read as UTF-8 text ({error})") from error
    lines = [_line(path, number, text, max_model_len) for number, text in enumerate(texts, 1) if text.strip()]
    if not lines:
        raise WorkloadError(f"workload {path}: no request in it; put one JSON object on each line")
    return UserRequests(lines, served_name)


def _line(path: Path, number: int, text: str, max_model_len: int | None) -> Line:
    where = f"workload {path}: line {number}"
    try:
        line = Line.model_validate(json.loads(text))
    except json.JSONDecodeError as error:
        raise WorkloadError(f"{where}: no JSON ({error.msg} at column {error.colno}): {text[:60]!r}") from error
    except ValidationError as error:
        raise WorkloadError(f"{where}: {describe(error)}") from error
    asked = line.prompt_tokens + line.max_tokens
    if max_model_len is not None and asked >= max_model_len:
        raise WorkloadError(
            f"{where}: prompt_tokens + max_tokens: {asked}: must be less than the model's context, {max_model_len}"
        )
    return line


def _marked(line: Line, mark: str) -> tuple[str, dict[str, Any]]:
    if line.messages is None:
        return COMPLETIONS, {"prompt": f"{mark}{line.prompt}"}
    first, *rest = [message.model_dump() for message in line.messages]
    return CHAT, {"messages": [first | {"content": mark + first["content"]}, *rest]}


def _body(served_name: str, prompt: dict[str, Any], output_tokens: int) -> bytes:
    length = {"max_tokens": output_tokens, "min_tokens": output_tokens}
    return json.dumps({"model": served_name, **prompt, **length, **SAMPLING, **_STREAMING}).encode()


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps({"format": 1, "sampling": SAMPLING, **content}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
