"""The engine behind the middleware, asked from within its own process.

Knows vLLM's paths and metric names. A figure that isn't exported is None, never 0.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from tailguard_runtime.guard.asgi import Answer, App, Headers, call
from tailguard_runtime.guard.watchdog import Progress

PROOF_TOKENS = 16
_FIRST_TOKEN_ID = 32
_ANSWER_SECONDS = 3.0

_FIGURES = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "promptTokens": ("vllm:prompt_tokens_total", "vllm:prompt_tokens"),
    "generationTokens": ("vllm:generation_tokens_total", "vllm:generation_tokens"),
    "iterations": ("vllm:iteration_tokens_total_count",),
    "prefixCacheQueries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefixCacheHits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "preemptions": ("vllm:num_preemptions_total", "vllm:num_preemptions"),
    "kvCacheUsage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
}
# Only the scheduler itself changes these, so a change of any is a sign of life.
_SIGNS_OF_LIFE = ("running", "waiting", "promptTokens", "generationTokens", "iterations", "kvCacheUsage")
_LINE = re.compile(r"^(vllm:\w+)(?:\{.*\})? (\S+)$")


@dataclass
class Engine:
    """vLLM's app, as the middleware sees it."""

    app: App
    served_name: str = ""
    api_key: str = ""
    serving_port: int = 8000
    lifespan: MutableMapping[str, Any] = field(default_factory=dict)

    async def is_alive(self) -> bool:
        """Whether the engine itself says that it lives; 500 and 503 both mean dead."""
        answer = await self._ask("GET", "/health")
        return answer.status == 200

    async def serves(self) -> str:
        """Why the serving port doesn't offer our model yet; empty when it does."""
        answer = await asyncio.get_running_loop().run_in_executor(None, self._ask_over_the_port)
        if answer.status != 200:
            return f"GET /v1/models on port {self.serving_port} answered {answer.status or 'nothing'}"
        names = _model_names(answer.body)
        if not names:
            return "/v1/models lists no model"
        self.served_name = self.served_name or names[0]
        return "" if self.served_name in names else f"/v1/models lists {names}, not {self.served_name!r}"

    async def generate(self) -> str:
        """Generate 16 tokens from a prompt of 16; why it failed, or empty when it went well."""
        body = {
            "model": self.served_name,
            "prompt": list(range(_FIRST_TOKEN_ID, _FIRST_TOKEN_ID + PROOF_TOKENS)),
            "max_tokens": PROOF_TOKENS,
            "ignore_eos": True,
            "temperature": 0,
        }
        answer = await self._ask("POST", "/v1/completions", json.dumps(body).encode())
        if answer.status != 200:
            return f"a generation answered {answer.status}: {answer.body[:200].decode('utf-8', 'replace')}"
        made = _completion_tokens(answer.body)
        return "" if made >= PROOF_TOKENS else f"a generation made {made} tokens instead of {PROOF_TOKENS}"

    async def figures(self) -> dict[str, float | None] | None:
        """The engine's own figures from its /metrics; None when they can't be read (unknown)."""
        answer = await self._ask("GET", "/metrics")
        return parse_figures(answer.body.decode("utf-8", "replace")) if answer.status == 200 else None

    async def progress(self) -> Progress | None:
        """What only a working scheduler changes; None when nothing of it is exported."""
        figures = await self.figures()
        if figures is None:
            return None
        values = [figures[name] for name in _SIGNS_OF_LIFE]
        known = tuple(-1.0 if value is None else value for value in values)
        return known if any(value is not None for value in values) else None

    async def _ask(self, method: str, path: str, body: bytes = b"") -> Answer:
        try:
            return await call(self.app, method, path, body=body, headers=self._headers(), lifespan=self.lifespan)
        except Exception as error:
            # A server would answer 500 here; the reason must reach the probe's reader.
            return Answer(500, repr(error).encode())

    def _headers(self) -> Headers:
        headers = [(b"content-type", b"application/json")]
        if self.api_key:
            headers.append((b"authorization", b"Bearer " + self.api_key.encode()))
        return tuple(headers)

    def _ask_over_the_port(self) -> Answer:
        headers = {name.decode(): value.decode() for name, value in self._headers()}
        connection = http.client.HTTPConnection("127.0.0.1", self.serving_port, timeout=_ANSWER_SECONDS)
        try:
            connection.request("GET", "/v1/models", headers={**headers, "Connection": "close"})
            response = connection.getresponse()
            return Answer(response.status, response.read())
        except (OSError, http.client.HTTPException):
            return Answer(0, b"")
        finally:
            connection.close()


def parse_figures(text: str) -> dict[str, float | None]:
    """Sum each known figure over its label sets; None for what isn't exported."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if (match := _LINE.match(line)) is not None:
            sums[match[1]] = sums.get(match[1], 0.0) + float(match[2])
    return {figure: _first(sums, names) for figure, names in _FIGURES.items()}


def _first(sums: dict[str, float], names: Iterable[str]) -> float | None:
    return next((sums[name] for name in names if name in sums), None)


def _model_names(body: bytes) -> list[str]:
    try:
        return [str(model["id"]) for model in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError):
        return []


def _completion_tokens(body: bytes) -> int:
    try:
        return int(json.loads(body)["usage"]["completion_tokens"])
    except (ValueError, KeyError, TypeError):
        return 0
