"""Stand-ins on loopback: an engine with programmable latencies and faults, and an API server that only creates."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tailguard_runtime.judge.spec import JudgeSpec
from tailguard_runtime.load.client import open_session


@dataclass
class StubEngine:
    """An OpenAI-style server that answers as slowly and as badly as it is told.

    It streams exactly `max_tokens` tokens, `tokens_a_chunk` to a chunk, the first after `first_s` seconds and each
    further chunk after `chunk_s`. `fault` names what goes wrong with every request: `http500`, `cut`, `hang`, `error`,
    `no_done`, `no_usage`. The guard's paths are served on the same port.
    """

    first_s: float = 0.002
    chunk_s: float = 0.0005
    tokens_a_chunk: int = 1
    fault: str = ""
    final_usage_only: bool = False
    cache_hits_a_request: int = 0
    tokenizer_shift: int = 0
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    quiet_calls: int = 0
    running: int = 0
    most_running: int = 0

    async def completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            return await self._answer(request, body)
        except ConnectionResetError:  # the client hung up, or `cut` did
            return web.Response()
        finally:
            self.running -= 1

    async def _answer(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if self.fault == "http500":
            return web.json_response({"error": {"message": "engine is down", "code": 500}}, status=500)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if request.path.endswith("/chat/completions"):
            await self._send(response, self._chunk(body, 0, {"delta": {"role": "assistant", "content": ""}}))
        await asyncio.sleep(self.first_s)
        if self.fault == "hang":
            await asyncio.sleep(60)
        await self._tokens(request, response, body)
        return response

    async def _tokens(self, request: web.Request, response: web.StreamResponse, body: dict[str, Any]) -> None:
        total = body["max_tokens"]
        for count in range(self.tokens_a_chunk, total + self.tokens_a_chunk, self.tokens_a_chunk):
            await self._send(response, self._chunk(body, min(count, total), {"text": "x"}))
            if self.fault == "cut":
                assert request.transport is not None
                request.transport.abort()
                return
            if self.fault == "error":
                await self._send(response, {"error": {"message": "EngineDeadError", "code": 500}})
                break
            await asyncio.sleep(self.chunk_s)
        if self.fault != "no_usage":
            await self._send(response, {"choices": [], "usage": self._usage(body, total)})
        if self.fault != "no_done":
            await response.write(b"data: [DONE]\n\n")

    def _chunk(self, body: dict[str, Any], count: int, choice: dict[str, Any]) -> dict[str, Any]:
        chunk: dict[str, Any] = {"choices": [choice], "system_fingerprint": "stub-1"}
        if self.fault != "no_usage" and not self.final_usage_only:
            chunk["usage"] = self._usage(body, count)
        return chunk

    def _usage(self, body: dict[str, Any], count: int) -> dict[str, int]:
        return {"prompt_tokens": len(body.get("prompt", "")), "completion_tokens": count}

    async def _send(self, response: web.StreamResponse, chunk: dict[str, Any]) -> None:
        await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    async def quiet(self, request: web.Request) -> web.Response:
        self.quiet_calls += 1
        return web.json_response({"quietFor": float(request.query["seconds"])})

    async def counters(self, request: web.Request) -> web.Response:
        seen = len(self.bodies)
        engine = {"running": self.running, "waiting": 0, "prefixCacheQueries": 100 * seen}
        engine |= {"prefixCacheHits": self.cache_hits_a_request * seen}
        return web.json_response({"running": self.running, "started": seen, "processes": ["7-1"], "engine": engine})

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(
            text="# TYPE vllm:num_requests_running gauge\n"
            f'vllm:num_requests_running{{engine="0",model_name="m"}} {float(self.running)}\n'
            f'vllm:num_requests_waiting{{engine="0",model_name="m"}} 0.0\n'
            f'vllm:prefix_cache_queries_total{{engine="0",model_name="m"}} {100.0 * len(self.bodies)}\n'
            f'vllm:prefix_cache_hits_total{{engine="0",model_name="m"}} 0.0\n'
        )

    async def version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0"})

    async def tokenize(self, request: web.Request) -> web.Response:
        text = (await request.json())["prompt"]
        return web.json_response({"tokens": [byte + self.tokenizer_shift for byte in text.encode()]})

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/completions", self.completions)
        app.router.add_post("/v1/chat/completions", self.completions)
        app.router.add_post("/tailguard/quiet", self.quiet)
        app.router.add_get("/tailguard/counters", self.counters)
        app.router.add_get("/metrics", self.metrics)
        app.router.add_get("/version", self.version)
        app.router.add_post("/tokenize", self.tokenize)
        return app


@dataclass
class FakeApi:
    """An API server that creates ConfigMaps, refuses names that exist, and answers `script` first."""

    script: list[int] = field(default_factory=list)
    swallow_next: bool = False
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""

    async def create(self, request: web.Request) -> web.Response:
        body = await request.json()
        name = body["metadata"]["name"]
        self.calls.append((name, request.headers["Authorization"]))
        if self.script:
            return web.json_response({"message": "not now"}, status=self.script.pop(0))
        if name in self.objects:
            return web.json_response({"message": f'configmaps "{name}" already exists'}, status=409)
        if request.query.get("dryRun") != "All":
            self.objects[name] = body
        if self.swallow_next:
            self.swallow_next = False
            return web.json_response({"message": "etcd timed out"}, status=504)
        return web.json_response(body, status=201)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=4 << 20)
        app.router.add_post("/api/v1/namespaces/default/configmaps", self.create)
        return app


async def _serve(app: web.Application) -> tuple[str, web.AppRunner]:
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    return f"http://127.0.0.1:{port}", runner


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[web.Application], Awaitable[str]]]:
    runners: list[web.AppRunner] = []

    async def start(app: web.Application) -> str:
        url, runner = await _serve(app)
        runners.append(runner)
        return url

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def canary(serve: Callable[[web.Application], Awaitable[str]]) -> StubEngine:
    engine = StubEngine()
    engine.url = await serve(engine.app())
    return engine


@pytest.fixture
async def twin(serve: Callable[[web.Application], Awaitable[str]]) -> StubEngine:
    engine = StubEngine()
    engine.url = await serve(engine.app())
    return engine


@pytest.fixture
async def api(serve: Callable[[web.Application], Awaitable[str]]) -> FakeApi:
    fake = FakeApi()
    fake.url = await serve(fake.app())
    return fake


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session() as opened:
        yield opened


@pytest.fixture
def plan_json() -> dict[str, Any]:
    arm = {"url": "http://127.0.0.1:1", "probe": "http://127.0.0.1:1", "pod": "pod-a", "revision": "rev-a"}
    return {
        "benchmark": {"name": "chat-1a2b3c4d-b1", "namespace": "default", "uid": "u-1"},
        "engine": "VLLM",
        "servedName": "chat",
        "arms": {"canary": dict(arm), "twin": dict(arm) | {"pod": "pod-b"}},
        "startSlot": 0,
        "maxSlots": 4,
        "seed": 1234,
        "ratePerSecond": 100,
        "slot": {"requests": 20, "minSeconds": 0},
        "timeoutSeconds": 5,
        "workload": {"kind": "Default", "maxModelLen": 128, "hash": "abc"},
        "warmup": {"minRounds": 1, "maxSeconds": 1},
        "gate": {"latenessMilliseconds": 5_000, "loopLagMilliseconds": 5_000, "ratePercent": 100},
        "judge": JudgeSpec(slot_requests=20).to_json(),
    }
