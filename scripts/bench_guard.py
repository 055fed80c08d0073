"""Cost of the guard in the request path: the same streaming app with and without it, in turn.

    python scripts/bench_guard.py [REQUESTS]

No socket and no model: what is timed is the middleware's hot path alone, in CPU time of the thread, so that a
machine busy with other work doesn't show.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tailguard_runtime.guard.asgi import App, Message, Receive, Scope, Send
from tailguard_runtime.guard.control import Control
from tailguard_runtime.guard.exchange import Exchange
from tailguard_runtime.guard.ring import Ring

EVENTS = 128
EVENT = (
    b'data: {"id":"cmpl-0123456789abcdef","object":"text_completion","created":1796096212,"model":"tiny",'
    b'"choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null,"stop_reason":null}],'
    b'"usage":null}\n\n'
)
STREAM_START: Message = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream; charset=utf-8")],
}


def app_of(events: int) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(STREAM_START)
        for _ in range(events):
            await send({"type": "http.response.body", "body": EVENT, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


def guarded(app: App, directory: Path) -> App:
    ring, control = Ring.create(directory / "ring", 8192), Control(directory)

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(ring, control, scope, receive, send)
        await app(scope, exchange.receive, exchange.send)
        exchange.end()

    return count


async def receive() -> Message:
    return {"type": "http.request", "body": b"{}", "more_body": False}


async def drop(message: Message) -> None:
    pass


def scope_of() -> Scope:
    headers = [(b"host", b"x"), (b"content-type", b"application/json"), (b"accept", b"*/*")]
    return {
        "type": "http",
        "method": "POST",
        "path": "/v1/completions",
        "headers": headers,
        "client": ("10.0.0.1", 5),
    }


async def seconds(app: App) -> float:
    scope = scope_of()
    began = time.thread_time()
    await app(scope, receive, drop)
    return time.thread_time() - began


async def compare(events: int, requests: int, directory: Path, show: Callable[[str], None]) -> None:
    bare = app_of(events)
    counted = guarded(bare, directory)
    added = []
    for _ in range(requests):
        without, with_guard = await seconds(bare), await seconds(counted)
        added.append((with_guard - without) * 1e6)
    added.sort()
    median, p99 = statistics.median(added), added[int(len(added) * 0.99)]
    show(f"{events:4d} events a request: +{median:6.1f} us median, +{p99:6.1f} us at P99 a request")


async def main(requests: int) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        for events in (1, EVENTS):
            await compare(events, requests, Path(directory), print)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
