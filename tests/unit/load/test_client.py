"""The open-loop client against a server on loopback: what is measured, and what counts as failed."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import numpy as np
import pytest

from tailguard_runtime.load.client import HalfRun, run_half
from tailguard_runtime.load.workload import Request

if TYPE_CHECKING:
    from conftest import StubEngine

TOKENS = 8


def asked(path: str = "/v1/completions") -> Request:
    body: dict[str, Any] = {"model": "m", "prompt": [1] * 20, "max_tokens": TOKENS}
    return Request(path, json.dumps(body).encode(), 20, TOKENS)


async def sent(
    session: aiohttp.ClientSession, engine: StubEngine, *, count: int = 5, timeout_s: float = 5.0, gap_s: float = 0.005
) -> HalfRun:
    offsets = np.arange(count) * gap_s
    return await run_half(session, engine.url, [asked()] * count, offsets, timeout_s)


async def test_the_three_latencies_are_those_of_the_server(session: aiohttp.ClientSession, canary: StubEngine) -> None:
    # Given 50 ms to the first token and 20 ms a token
    canary.first_s, canary.chunk_s = 0.05, 0.02

    # When
    half = (await sent(session, canary)).half

    # Then
    assert not half.failed.any() and half.error == ("",) * 5 and set(half.status.tolist()) == {200}
    assert np.median(half.ttft_s) == pytest.approx(0.055, abs=0.015)
    assert np.median(half.tpot_s) == pytest.approx(0.021, abs=0.006)
    assert np.allclose(half.e2e_s, half.ttft_s + half.tpot_s * (TOKENS - 1))
    assert half.output_tokens.tolist() == [TOKENS] * 5 and half.prompt_tokens.tolist() == [20] * 5


async def test_tokens_of_a_bundled_first_chunk_are_taken_out_of_the_time_per_token(
    session: aiohttp.ClientSession, canary: StubEngine
) -> None:
    # Given two chunks of four tokens, 40 ms apart: ten milliseconds a token
    canary.tokens_a_chunk, canary.chunk_s = 4, 0.04

    # When
    half = (await sent(session, canary)).half

    # Then
    assert np.median(half.tpot_s) == pytest.approx(0.01, abs=0.004)


async def test_one_chunk_has_no_time_per_token(session: aiohttp.ClientSession, canary: StubEngine) -> None:
    # Given
    canary.tokens_a_chunk = TOKENS

    # Then
    assert np.isnan((await sent(session, canary)).half.tpot_s).all()


async def test_usage_at_the_end_alone_is_enough(session: aiohttp.ClientSession, canary: StubEngine) -> None:
    # Given
    canary.final_usage_only = True

    # When
    half = (await sent(session, canary)).half

    # Then
    assert not half.failed.any() and half.output_tokens.tolist() == [TOKENS] * 5


async def test_the_load_is_open_loop_without_a_limit_on_connections(
    session: aiohttp.ClientSession, canary: StubEngine
) -> None:
    # Given a server far slower than the arrivals, and more requests than any default pool has connections
    canary.first_s = 0.6

    # When
    half = (await sent(session, canary, count=150, gap_s=0.001)).half

    # Then: all were in flight at once
    assert canary.most_running == 150 and not half.failed.any()


async def test_time_is_counted_from_the_intended_send(session: aiohttp.ClientSession, canary: StubEngine) -> None:
    # Given an event loop that is blocked when the second request is due
    asyncio.get_running_loop().call_later(0.05, time.sleep, 0.3)

    # When
    run = await sent(session, canary, count=2, gap_s=0.1)

    # Then: it left late, and the lateness is part of what is measured and seen as lag
    late = run.half.sent_s[1] - run.half.intended_s[1]
    assert late > 0.05 and run.half.ttft_s[1] > late
    assert run.lag_s > 0.05


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        ("http500", 500, "Http500"),
        ("cut", 200, "ClientPayloadError"),
        ("hang", 200, "Timeout"),
        ("error", 200, "ErrorInStream"),
        ("no_done", 200, "StreamCut"),
        ("no_usage", 200, "UsageMissing"),
    ],
)
async def test_every_failure_is_infinitely_slow_and_says_why(
    session: aiohttp.ClientSession, canary: StubEngine, fault: str, status: int, reason: str
) -> None:
    # Given
    canary.fault = fault

    # When
    half = (await sent(session, canary, timeout_s=0.5)).half

    # Then
    assert half.failed.all() and np.isposinf(half.ttft_s).all() and np.isposinf(half.tpot_s).all()
    assert half.status.tolist() == [status] * 5
    assert all(error.startswith(reason) for error in half.error)
    assert np.all(half.sent_s >= half.intended_s)


async def test_a_dead_arm_is_status_zero_and_not_late(session: aiohttp.ClientSession) -> None:
    # When: nothing listens
    half = (await run_half(session, "http://127.0.0.1:1", [asked()] * 3, np.arange(3) * 0.01, 1.0)).half

    # Then
    assert half.failed.all() and half.status.tolist() == [0, 0, 0] and half.prompt_tokens.tolist() == [20] * 3
    assert all(error.startswith("ClientConnector") for error in half.error)
    assert np.isfinite(half.sent_s).all()


async def test_nothing_is_tried_twice(session: aiohttp.ClientSession, canary: StubEngine) -> None:
    # Given
    canary.fault = "cut"

    # When
    await sent(session, canary, count=6)

    # Then
    assert len(canary.bodies) == 6


async def test_a_role_only_chunk_does_not_end_the_time_to_first_token(
    session: aiohttp.ClientSession, canary: StubEngine
) -> None:
    # Given a chat whose role comes at once and whose first token 80 ms later
    canary.first_s = 0.08

    # When
    run = await run_half(session, canary.url, [asked("/v1/chat/completions")], np.zeros(1), 5.0)

    # Then
    assert run.half.ttft_s[0] > 0.08 and run.fingerprint == "stub-1"


async def test_stopping_ends_every_request_and_gives_the_collector_back(
    session: aiohttp.ClientSession, canary: StubEngine
) -> None:
    # Given a half in flight
    canary.fault = "hang"
    half = asyncio.ensure_future(sent(session, canary))
    await asyncio.sleep(0.2)

    # When
    half.cancel()

    # Then
    with pytest.raises(asyncio.CancelledError):
        await half
    assert gc.isenabled()
    assert [task for task in asyncio.all_tasks() if "_send" in repr(task)] == []
