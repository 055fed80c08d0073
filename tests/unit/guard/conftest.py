"""A small ASGI app that behaves like vLLM as far as the guard can see, and a server to run it in."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvicorn

from tailguard_runtime.guard.asgi import Receive, Scope, Send
from tailguard_runtime.guard.middleware import GuardMiddleware

JSON = [(b"content-type", b"application/json")]
EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8")]


class FakeEngine:
    """Answers vLLM's paths; `hold` keeps generations waiting, `alive` is what /health says."""

    def __init__(self, served_name: str = "tiny") -> None:
        self.served_name = served_name
        self.alive = True
        self.release = asyncio.Event()
        self.release.set()
        self.generations = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.steps = 0
        self.exports_metrics = True
        self.authorization: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["path"] == "/health":
            await _answer(send, 200 if self.alive else 503, b"")
        elif scope["path"] == "/metrics":
            await _answer(send, 200 if self.exports_metrics else 500, self._metrics())
        elif scope["path"] == "/v1/models":
            await _answer(send, 200, json.dumps({"data": [{"id": self.served_name}]}).encode())
        elif scope["path"] in ("/v1/completions", "/v1/chat/completions"):
            self.authorization += [v for k, v in scope["headers"] if k == b"authorization"]
            await self._generate(receive, send)
        else:
            await _answer(send, 404, b"{}")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    def _metrics(self) -> bytes:
        return (
            f'vllm:num_requests_running{{engine="0",model_name="m"}} {float(self.in_flight)}\n'
            f'vllm:iteration_tokens_total_count{{engine="0"}} {float(self.steps)}\n'
        ).encode()

    async def _generate(self, receive: Receive, send: Send) -> None:
        message = await receive()
        request = json.loads(message["body"])
        self.generations += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if request.get("fail"):
                await _answer(send, request["fail"], b'{"error":{}}')
            elif request.get("raise"):
                raise RuntimeError("the app broke")
            elif request.get("stream"):
                await self._stream(request, receive, send)
            else:
                await self.release.wait()
                tokens = request.get("max_tokens", 16)
                usage = {"prompt_tokens": 7, "total_tokens": 7 + tokens, "completion_tokens": tokens}
                text = '"completion_tokens":999'
                answer = {"choices": [{"text": text}], "usage": usage}
                await _answer(send, 200, json.dumps(answer, separators=(",", ":")).encode())
        finally:
            self.in_flight -= 1

    async def _stream(self, request: dict[str, Any], receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_until_disconnect(receive))
        await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
        for number in range(request["max_tokens"]):
            if gone.done():
                return
            await _event(send, b'data: {"choices":[{"text":"x%d"}],"usage":null}\n\n' % number)
            await asyncio.sleep(request.get("pause", 0))
        await self.release.wait()
        if request.get("dies"):
            await _event(send, b'data: {"error":{"code":500}}\n\n')
        if request.get("cut"):
            gone.cancel()
            raise RuntimeError("cut within a stream")
        if request.get("usage"):
            usage = b'{"prompt_tokens":7,"total_tokens":12,"completion_tokens":5}'
            await _event(send, b'data: {"choices":[],"usage":' + usage + b"}\n\n")
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        gone.cancel()


async def _event(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Send, status: int, body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*JSON, length]})
    await send({"type": "http.response.body", "body": body})


class QuietServer(uvicorn.Server):
    """uvicorn without its signal handlers, as vLLM runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass
class Pod:
    """An engine behind the guard, on a real server, and a client."""

    engine: FakeEngine
    port: int
    probe_port: int
    client: aiohttp.ClientSession

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def probe(self, method: str, path: str) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.probe_port}/tailguard/{path}"
        async with self.client.request(method, url) as answer:
            return answer.status, await answer.json()

    async def counters(self, query: str = "") -> dict[str, Any]:
        status, counters = await self.probe("GET", f"counters{query}")
        assert status == 200
        return dict(counters)

    async def samples(self, query: str = "") -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{self.probe_port}/tailguard/samples{query}"
        async with self.client.get(url) as answer:
            assert answer.status == 200, await answer.text()
            return [json.loads(line) for line in (await answer.text()).splitlines()]

    async def generate(
        self, client: aiohttp.ClientSession | None = None, **request: Any
    ) -> tuple[int, aiohttp.ClientResponse, bytes]:
        url = self.url("/v1/completions")
        async with (client or self.client).post(url, json={"max_tokens": 5, **request}) as answer:
            return answer.status, answer, await answer.read()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.asynccontextmanager
async def serving(app: Any, port: int) -> AsyncIterator[None]:
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="critical")
    server = QuietServer(config)
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started or task.done())
    try:
        yield
    finally:
        server.should_exit = True
        await task


@pytest.fixture
async def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pod]:
    """A started pod, with limits short enough for a test on real sockets."""
    port, probe_port = free_port(), free_port()
    monkeypatch.setenv("TAILGUARD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TAILGUARD_PORT", str(probe_port))
    monkeypatch.setenv("TAILGUARD_SERVING_PORT", str(port))
    monkeypatch.setenv("TAILGUARD_SERVED_NAME", "tiny")
    monkeypatch.setenv("TAILGUARD_STALL_SECONDS", "0.5")
    monkeypatch.setenv("TAILGUARD_IDLE_SECONDS", "0.3")
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "")
    engine = FakeEngine()
    async with serving(GuardMiddleware(engine), port), aiohttp.ClientSession() as client:
        started = Pod(engine, port, probe_port, client)
        await _until_listening(probe_port)
        yield started
        engine.release.set()


async def _until_listening(port: int) -> None:
    for _ in range(500):
        with contextlib.suppress(ConnectionError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"nobody listens on {port}")


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition didn't come true in time"
        await asyncio.sleep(0.01)


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    return until
