"""Several serving processes of one pod: one port, shared orders and counts; and the copied package alone."""

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tailguard_runtime.guard.install import install, main

# Standard library only, as in an engine image: the app is driven without a server.
WORKER = """
import asyncio, os, sys
from tailguard_runtime.guard.middleware import GuardMiddleware

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})

async def run():
    guard = GuardMiddleware(app)
    events = asyncio.Queue()
    await events.put({"type": "lifespan.startup"})
    async def drop(message):
        if message["type"] == "http.response.start":
            print(dict(message["headers"]).get(b"connection", b"keep").decode(), flush=True)
        elif message["type"].startswith("lifespan"):
            print(message["type"], flush=True)
    life = asyncio.create_task(guard({"type": "lifespan"}, events.get, drop))
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [],
                 "client": ("10.0.0.1", 1)}
        await guard(scope, events.get, drop)
    await events.put({"type": "lifespan.shutdown"})
    await life

asyncio.run(run())
"""


class Worker:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def request(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self.said()


@contextmanager
def worker(python: str, library: Path, state: Path, port: int) -> Iterator[Worker]:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(library),
        "TAILGUARD_STATE_DIR": str(state),
        "TAILGUARD_PORT": str(port),
    }
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([python, "-c", WORKER], env=environment, **pipes) as process:
        started = Worker(process)
        try:
            assert started.said() == "lifespan.startup.complete"
            yield started
        finally:
            process.kill()


def probe(port: int, path: str, method: str = "GET") -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/tailguard/{path}", method=method)
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.loads(answer.read())


async def counters_of(port: int, processes: int) -> Any:
    for _ in range(100):
        with suppress(OSError):
            counters = await asyncio.to_thread(probe, port, "counters")
            if len(counters["processes"]) == processes:
                return counters
        await asyncio.sleep(0.1)
    raise AssertionError(f"{processes} processes aren't there in time")


@pytest.fixture
def port() -> int:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture
def library(tmp_path: Path) -> Path:
    install(tmp_path / "lib")
    return tmp_path / "lib"


async def test_one_process_answers_for_all_and_another_takes_over(library: Path, tmp_path: Path, port: int) -> None:
    state = tmp_path / "state"
    with (
        worker(sys.executable, library, state, port) as first,
        worker(sys.executable, library, state, port) as second,
    ):
        # Given requests on both
        assert [first.request(), second.request(), second.request()] == ["keep"] * 3
        # Then whoever owns the port counts them all
        counters = await counters_of(port, 2)
        assert (counters["started"], counters["finished"]) == (3, 3)
        # And an order reaches both
        probe(port, "drain", "POST")
        assert (first.request(), second.request()) == ("close", "close")
        # When the owner dies, then the other answers, and the drain still stands
        first.process.kill()
        first.process.wait()
        counters = await counters_of(port, 1)
        assert (counters["started"], counters["draining"]) == (3, True)


def pythons() -> list[str]:
    """The interpreters at hand that engine images may have."""
    found = [sys.executable]
    for version in ("3.10", "3.12", "3.13"):
        with suppress(OSError, subprocess.CalledProcessError):
            program = f"python{version}"
            subprocess.run([program, "--version"], check=True, capture_output=True)
            found.append(program)
    return found


@pytest.mark.parametrize("python", pythons())
async def test_copied_package_runs_alone(python: str, library: Path, tmp_path: Path, port: int) -> None:
    """The guard needs nothing but the standard library of the engine image's own Python."""
    with worker(python, library, tmp_path / "state", port) as alone:
        assert alone.request() == "keep"
        assert (await counters_of(port, 1))["finished"] == 1


def test_install_copies_only_the_guard(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {path.name for path in (library / "tailguard_runtime").iterdir()} == {"__init__.py", "guard"}
    assert (library / "tailguard_runtime" / "__init__.py").read_text() == ""
    assert main([]) == 2
    assert main([str(library)]) == 0
    assert "the guard lies in" in capsys.readouterr().out
