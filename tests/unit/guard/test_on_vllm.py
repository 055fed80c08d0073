"""The guard inside a real vLLM: every path, a hung engine, a drain.

TAILGUARD_VLLM_PYTHON=PYTHON TAILGUARD_VLLM_MODEL=DIRECTORY pytest tests/unit/guard/test_on_vllm.py -m e2e
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tailguard_runtime.guard.prestop import ask_port, drain

RUNTIME = Path(__file__).parents[3] / "runtime"
STALL_SECONDS = 8
IDLE_SECONDS = 6
START_SECONDS = 900

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        "TAILGUARD_VLLM_PYTHON" not in os.environ or "TAILGUARD_VLLM_MODEL" not in os.environ,
        reason="TAILGUARD_VLLM_PYTHON and TAILGUARD_VLLM_MODEL name no vLLM",
    ),
]


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    port: int
    probe_port: int
    log: Path

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def probe(self, path: str) -> str:
        return f"http://127.0.0.1:{self.probe_port}/tailguard/{path}"

    def wait_for_probe_port(self, seconds: float) -> None:
        """The guard listens as soon as the engine is up; a machine that does other work takes minutes."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.probe_port), 1):
                return
            time.sleep(0.5)
        raise AssertionError(f"vLLM didn't start: {self.log.read_text()[-2000:]}")

    def engine_core(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next(
            int(child)
            for child in children
            if "EngineCore" in Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
        )


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("vllm")
    port, probe_port = free_port(), free_port()
    environment = os.environ | {
        "PYTHONPATH": str(RUNTIME),
        "HOME": str(home),
        "TAILGUARD_STATE_DIR": str(home / "state"),
        "TAILGUARD_PORT": str(probe_port),
        "TAILGUARD_SERVING_PORT": str(port),
        "TAILGUARD_SERVED_NAME": "tiny",
        "TAILGUARD_STALL_SECONDS": str(STALL_SECONDS),
        "TAILGUARD_IDLE_SECONDS": str(IDLE_SECONDS),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "FORWARDED_ALLOW_IPS": "",
    }
    command = [
        os.environ["TAILGUARD_VLLM_PYTHON"], "-m", "vllm.entrypoints.openai.api_server",
        "--model", os.environ["TAILGUARD_VLLM_MODEL"], "--served-model-name", "tiny",
        "--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--dtype", "float32",
        "--kv-cache-memory-bytes", "256M", "--max-num-seqs", "4", "--shutdown-timeout", "30",
        "--middleware", "tailguard_runtime.guard.middleware.GuardMiddleware",
    ]  # fmt: skip
    log = home / "vllm.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    started = Server(process, port, probe_port, log)
    try:
        started.wait_for_probe_port(START_SECONDS)
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as session:
        yield session


async def ask(client: aiohttp.ClientSession, method: str, url: str) -> tuple[int, dict[str, Any]]:
    async with client.request(method, url) as answer:
        return answer.status, await answer.json()


async def until_ok(client: aiohttp.ClientSession, server: Server, path: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert server.process.poll() is None, server.log.read_text()[-2000:]
        if (await ask(client, "GET", server.probe(path)))[0] == 200:
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"{path} isn't 200 after {seconds} s: {server.log.read_text()[-2000:]}")


def body(tokens: int, stream: bool = False, prompt: int = 32) -> dict[str, Any]:
    return {
        "model": "tiny",
        "prompt": list(range(40, 40 + prompt)),
        "max_tokens": tokens,
        "ignore_eos": True,
        "stream": stream,
    }


async def stream(client: aiohttp.ClientSession, server: Server, tokens: int) -> bytes:
    async with client.post(server.url("/v1/completions"), json=body(tokens, stream=True)) as answer:
        assert answer.status == 200
        return await answer.read()


async def test_starts_after_one_real_generation(server: Server, client: aiohttp.ClientSession) -> None:
    """R-072: vLLM answers the paths that operator and benchmark use."""
    await until_ok(client, server, "startup", 60)
    _, counters = await ask(client, "GET", server.probe("counters?engine=1"))
    assert counters["started"] == 0
    assert counters["startupOk"] is True
    assert counters["engine"]["generationTokens"] >= 16
    assert (await ask(client, "GET", server.probe("ready")))[0] == 200
    assert (await ask(client, "GET", server.probe("live")))[0] == 200


async def test_serving_port_knows_no_tailguard_path(server: Server, client: aiohttp.ClientSession) -> None:
    for method, path in (("GET", "ready"), ("POST", "drain"), ("GET", "counters"), ("GET", "x")):
        status, _ = await ask(client, method, server.url(f"/tailguard/{path}"))
        assert status == 404


async def test_counts_streams_and_plain_answers(server: Server, client: aiohttp.ClientSession) -> None:
    # Given
    _, before = await ask(client, "GET", server.probe("counters"))
    # When
    assert (await stream(client, server, 20)).endswith(b"data: [DONE]\n\n")
    await ask_post(client, server, 10)
    # Then
    _, after = await ask(client, "GET", server.probe("counters"))
    assert after["finished"] - before["finished"] == 2
    assert after["chunks"] - before["chunks"] == pytest.approx(20, abs=2)
    assert after["tokens"] - before["tokens"] == pytest.approx(30, abs=2)
    assert after["running"] == after["waiting"] == after["failed"] == 0


async def ask_post(client: aiohttp.ClientSession, server: Server, tokens: int) -> aiohttp.ClientResponse:
    async with client.post(server.url("/v1/completions"), json=body(tokens)) as answer:
        await answer.read()
        return answer


async def test_idle_engine_proves_itself_unless_quiet(server: Server, client: aiohttp.ClientSession) -> None:
    async def tokens() -> float:
        _, counters = await ask(client, "GET", server.probe("counters?engine=1"))
        return float(counters["engine"]["generationTokens"])

    # Given an engine that is told to be quiet
    status, answer = await ask(client, "POST", server.probe(f"quiet?seconds={IDLE_SECONDS + 2}"))
    assert (status, round(answer["quietFor"])) == (200, IDLE_SECONDS + 2)
    before = await tokens()
    # When it is probed while idle for longer than the idle limit
    await asyncio.sleep(IDLE_SECONDS + 0.5)
    await ask(client, "GET", server.probe("live"))
    # Then it made nothing, and makes its 16 tokens when quiet is over
    assert await tokens() == before
    await asyncio.sleep(2)
    await ask(client, "GET", server.probe("live"))
    await asyncio.sleep(2)
    assert await tokens() == before + 16


async def test_close_ends_open_connections_once(server: Server) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as client:
        # Given one kept connection
        assert "close" not in (await ask_post(client, server, 1)).headers.get("connection", "")
        # When
        async with aiohttp.ClientSession() as other:
            _, answer = await ask(other, "POST", server.probe("close"))
        # Then only its next answer is its last
        assert answer["closing"] >= 1
        assert (await ask_post(client, server, 1)).headers["connection"] == "close"
        assert "close" not in (await ask_post(client, server, 1)).headers.get("connection", "")


async def test_busy_engine_is_never_called_hung(server: Server, client: aiohttp.ClientSession) -> None:
    """Liveness of a full server whose answers, without streams, take longer than the limit."""
    # Given eight long answers for four places, none of which shows a byte before its end
    load = [asyncio.create_task(ask_post(client, server, 900)) for _ in range(12)]
    looks = []
    # When it is probed all the time
    while not all(task.done() for task in load):
        looks.append((await ask(client, "GET", server.probe("live")))[0])
        await asyncio.sleep(0.5)
    # Then
    assert set(looks) == {200}
    assert {task.result().status for task in load} == {200}


async def test_hung_engine_is_noticed_and_a_revived_one_too(server: Server, client: aiohttp.ClientSession) -> None:
    # Given a stream on an engine whose process stands still; vLLM's own /health stays 200
    running = asyncio.create_task(stream(client, server, 400))
    await asyncio.sleep(0.3)
    os.kill(server.engine_core(), signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        while (await ask(client, "GET", server.probe("live")))[0] == 200:
            assert time.monotonic() - stopped < STALL_SECONDS + 10
            await asyncio.sleep(0.5)
        noticed = time.monotonic() - stopped
        async with client.get(server.url("/health")) as health:
            assert health.status == 200
        assert (await ask(client, "GET", server.probe("ready")))[0] == 503
    finally:
        os.kill(server.engine_core(), signal.SIGCONT)
    # Then it is noticed after the limit, not before, and the rest of the stream clears it
    assert STALL_SECONDS <= noticed <= STALL_SECONDS + 3
    assert (await running).endswith(b"data: [DONE]\n\n")
    assert (await ask(client, "GET", server.probe("live")))[0] == 200


async def test_drain_ends_without_a_500(server: Server, client: aiohttp.ClientSession) -> None:
    # Given a long stream and a client that never stops asking on new connections
    statuses: list[int] = []
    running = asyncio.create_task(stream(client, server, 900))

    async def asks() -> None:
        async with aiohttp.ClientSession() as other:
            while True:
                statuses.append((await ask_post(other, server, 2)).status)
                await asyncio.sleep(0.2)

    asking = asyncio.create_task(asks())
    await asyncio.sleep(0.5)
    # When the preStop hook runs to its bound and SIGTERM follows
    said = await asyncio.to_thread(drain, ask_port(server.probe_port), 3.0)
    assert (await ask(client, "GET", server.probe("ready")))[0] == 503
    second = asyncio.create_task(stream_or_refusal(server))
    server.process.send_signal(signal.SIGTERM)
    with pytest.raises(aiohttp.ClientError):
        await asking
    # Then the stream is whole, and others were answered or told to come back
    assert "still busy" in said
    assert (await running).endswith(b"data: [DONE]\n\n")
    assert await second == 503
    assert set(statuses) <= {200, 503}
    assert 200 in statuses
    assert await asyncio.to_thread(server.process.wait, 40) == 0


async def stream_or_refusal(server: Server) -> int:
    async with (
        aiohttp.ClientSession() as client,
        client.post(server.url("/v1/completions"), json=body(2)) as answer,
    ):
        assert answer.headers["retry-after"] == "1"
        return answer.status


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-m", "e2e", "-v"]))
