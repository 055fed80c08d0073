"""The open-loop client: every request leaves at its own time, whatever became of those before it.

No limit on connections, keep-alive, no retries. A request's clock starts at its intended send. Bytes are stamped when
the read returns, before anything is parsed. What fails or is not whole by the time limit counts as infinitely slow and
is kept with its status and error.
"""

import asyncio
import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import aiohttp
import numpy as np

from tailguard_runtime.judge import Half
from tailguard_runtime.load.schedule import Offsets
from tailguard_runtime.load.sse import SseParser
from tailguard_runtime.load.stream import StreamError, TokenStream
from tailguard_runtime.load.workload import Request

_HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream", "Accept-Encoding": "identity"}
_KEEP_ALIVE_S = 2.0  # less than the 5 s after which vLLM closes an idle connection: no request meets a closing one
_READ_BUFFER = 1 << 20
_LEAD_IN_S = 0.02
_SPIN_S = 0.002  # event loops wake up to 1 ms late; the last bit before a send is spent in turns of the loop
_TICK_S = 0.01
_LONGEST_ERROR = 200


@dataclass
class Answer:
    """What became of one request; times on the monotonic clock, seconds."""

    intended_s: float
    sent_s: float
    status: int = 0
    error: str = ""
    stream: TokenStream = field(default_factory=TokenStream)


@dataclass(frozen=True)
class HalfRun:
    """A half's samples, and what its own making was like.

    Attributes:
        half: the samples.
        lag_s: P99 of how late the event loop woke, seconds; late wakes mean late stamps.
        fingerprint: `system_fingerprint` of the answers, "" if there was none; several are joined by a comma.
    """

    half: Half
    lag_s: float
    fingerprint: str


def open_session() -> aiohttp.ClientSession:
    """Return the session to send load with; call it inside the running loop and close it."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=_KEEP_ALIVE_S),
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_READ_BUFFER,
    )


async def run_half(
    session: aiohttp.ClientSession, url: str, requests: Sequence[Request], offsets: Offsets, timeout_s: float
) -> HalfRun:
    """Send `requests` to `url` at `offsets` (seconds, ascending) and wait for every answer.

    Never raises for what a server does; the longest it takes is the last offset plus `timeout_s`.
    """
    lags: list[float] = []
    with _no_collection():
        watch = asyncio.create_task(_watch_loop(lags))
        start = perf_counter() + _LEAD_IN_S
        tasks: list[asyncio.Task[Answer]] = []
        try:
            async with asyncio.TaskGroup() as group:
                for request, offset in zip(requests, offsets.tolist(), strict=True):
                    await _wait_until(start + offset)
                    tasks.append(group.create_task(_send(session, url, request, start + offset, timeout_s)))
        finally:
            watch.cancel()
    answers = [task.result() for task in tasks]
    prints = sorted({answer.stream.fingerprint for answer in answers} - {""})
    return HalfRun(_to_half(requests, answers, start), _p99(lags), ",".join(prints))


async def _send(
    session: aiohttp.ClientSession, url: str, request: Request, intended_s: float, timeout_s: float
) -> Answer:
    # Stamped before a connection is looked for: making one is the server's time, not this client's lateness.
    answer = Answer(intended_s, perf_counter())
    try:
        async with asyncio.timeout(intended_s + timeout_s - answer.sent_s):
            async with session.post(url + request.path, data=request.body, headers=_HEADERS) as response:
                answer.status = response.status
                await _follow(response, answer.stream)
    except TimeoutError:
        answer.error = f"Timeout: no whole answer within {timeout_s:g} s of the intended send"
    except StreamError as error:
        answer.error = str(error)[:_LONGEST_ERROR]
    except (aiohttp.ClientError, OSError) as error:
        answer.error = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
    return answer


async def _follow(response: aiohttp.ClientResponse, stream: TokenStream) -> None:
    if response.status != 200:
        text = await response.text(errors="replace")
        raise StreamError(f"Http{response.status}: {text}")
    parser = SseParser()
    async for chunk in response.content.iter_any():
        now = perf_counter()
        for event in parser.feed(chunk):
            stream.take(event, now)
    stream.finish()


def _to_half(requests: Sequence[Request], answers: Sequence[Answer], start: float) -> Half:
    latencies = np.array([_latencies(answer) for answer in answers], dtype=np.float64).reshape(-1, 3)
    tokens = np.array(
        [
            (answer.stream.prompt_tokens or request.prompt_tokens, answer.stream.output_tokens or 0)
            for request, answer in zip(requests, answers, strict=True)
        ],
        dtype=np.int32,
    ).reshape(-1, 2)
    return Half(
        prompt_tokens=tokens[:, 0],
        output_tokens=tokens[:, 1],
        intended_s=np.array([answer.intended_s - start for answer in answers]),
        sent_s=np.array([answer.sent_s - start for answer in answers]),
        ttft_s=latencies[:, 0],
        tpot_s=latencies[:, 1],
        e2e_s=latencies[:, 2],
        status=np.array([answer.status for answer in answers], dtype=np.int16),
        error=tuple(answer.error for answer in answers),
    )


def _latencies(answer: Answer) -> tuple[float, float, float]:
    """Return TTFT, time per output token and end-to-end, seconds (`nan`: undefined, `inf`: failed)."""
    stream = answer.stream
    if answer.error or stream.first_s is None or stream.last_s is None or stream.output_tokens is None:
        return math.inf, math.inf, math.inf
    later_tokens = stream.output_tokens - stream.first_tokens
    tpot = (stream.last_s - stream.first_s) / later_tokens if later_tokens > 0 else math.nan
    return stream.first_s - answer.intended_s, tpot, stream.last_s - answer.intended_s


async def _wait_until(moment: float) -> None:
    while (left := moment - perf_counter()) > 0:
        await asyncio.sleep(left - _SPIN_S if left > _SPIN_S else 0)


async def _watch_loop(lags: list[float]) -> None:
    while True:
        before = perf_counter()
        await asyncio.sleep(_TICK_S)
        lags.append(perf_counter() - before - _TICK_S)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector's pauses out of a half."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _p99(values: Sequence[float]) -> float:
    return float(np.quantile(values, 0.99, method="inverted_cdf")) if values else 0.0
