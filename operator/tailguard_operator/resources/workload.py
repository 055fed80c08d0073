"""The workload that a benchmark sends: the user's requests checked line by line, and what tells workloads apart."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tailguard_operator.api.rollout import BenchmarkSettings
from tailguard_operator.plan.world import Workload

KEY = "workload.jsonl"
"""Key of the user's ConfigMap."""
SIZE_LIMIT = 1024 * 1024 - 64 * 1024
"""Bytes; it is mounted together with the plan, and a ConfigMap holds one MiB."""
DEFAULT = "azure-llm-2023-conv/1"
"""Name and version of the default workload: another version is another workload."""
_SHOWN = 5


class Message(BaseModel):
    """One chat message; fields other than the two known ones are passed on."""

    model_config = ConfigDict(extra="allow")

    role: str
    content: str


class Request(BaseModel):
    """One line of the user's file. Sampling is fixed and the same for both arms (R-178), so no line may set it."""

    model_config = ConfigDict(extra="forbid")

    prompt: Annotated[str | None, Field(min_length=1)] = None
    messages: Annotated[list[Message] | None, Field(min_length=1)] = None
    max_tokens: Annotated[int, Field(ge=1)]
    prompt_tokens: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _one_of(self) -> "Request":
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either prompt or messages, and not both")
        return self


def workload_hash(jsonl: str | None, settings: BenchmarkSettings) -> str:
    """16 hex digits that differ when other requests are sent, or the same ones at another rate or slot size.

    Args:
        jsonl: the user's requests; None for the default workload.
        settings: rate and slot size.
    """
    content = DEFAULT if jsonl is None else hashlib.sha256(jsonl.encode()).hexdigest()
    parts = [content, settings.rate_per_second, settings.slot.requests, settings.slot.min_seconds]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def workload(settings: BenchmarkSettings, config_map: Mapping[str, Any] | None) -> Workload:
    """The workload that `settings` name.

    Args:
        settings: the service's benchmark settings.
        config_map: the ConfigMap named by `workloadRef`, as read; None when it is not there.
    """
    if settings.workload_ref is None:
        return Workload(hash=workload_hash(None, settings))
    name = settings.workload_ref.name
    jsonl = ((config_map or {}).get("data") or {}).get(KEY)
    if jsonl is None:
        lack = f"no key {KEY}" if config_map else "no such ConfigMap in the service's namespace"
        problem = f"spec.rollout.benchmark.workloadRef.name: {name!r}: {lack}; create it, or leave workloadRef out"
        return Workload(hash="", config_map=name, problem=problem)
    problems = check_jsonl(jsonl)
    problem = f"ConfigMap {name}: {'; '.join(problems)}" if problems else ""
    return Workload(workload_hash(jsonl, settings), name, jsonl, problem)


def check_jsonl(jsonl: str) -> list[str]:
    """What is wrong with the user's requests: line number, field, value and what is allowed; empty when nothing is.

    At most the first five problems are told in full; empty lines are skipped.
    """
    size = len(jsonl.encode())
    if size > SIZE_LIMIT:
        return [f"{KEY} has {size} bytes; at most {SIZE_LIMIT} are allowed, keep fewer requests"]
    lines = [(number, text) for number, text in enumerate(jsonl.splitlines(), 1) if text.strip()]
    if not lines:
        return [f"{KEY} has no request in it; put one JSON object on each line"]
    found = [problem for number, text in lines for problem in _line_problems(number, text)]
    more = len(found) - _SHOWN
    return [*found[:_SHOWN], f"and {more} more"] if more > 0 else found


def _line_problems(number: int, text: str) -> Iterator[str]:
    where = f"{KEY} line {number}"
    try:
        Request.model_validate(json.loads(text), strict=True)
    except json.JSONDecodeError as error:
        yield f"{where}: no JSON ({error.msg} at column {error.colno}): {text[:60]!r}"
    except ValidationError as error:
        for item in error.errors(include_url=False):
            field = ".".join(str(part) for part in item["loc"]) or "the object"
            yield f"{where}: {field}: {json.dumps(item['input'], default=str)[:60]}: {_allowed(item)}"


def _allowed(item: Mapping[str, Any]) -> str:
    if item["type"] == "extra_forbidden":
        return "only prompt, messages, max_tokens and prompt_tokens are known; sampling is the same for all requests"
    return str(item["msg"])
