"""Startup, readiness and liveness over real sockets."""

import asyncio
from typing import Any

import pytest


async def test_startup_makes_one_real_generation_for_many_probes(pod: Any) -> None:
    """Rule of runtimes.md 12, no. 10: /health, our name in /v1/models and one generation."""
    # Given ten probes at once
    answers = await asyncio.gather(*(pod.probe("GET", "startup") for _ in range(10)))
    # Then all are answered by one generation, which isn't a user's request
    assert {status for status, _ in answers} == {200}
    assert pod.engine.generations == 1
    # When it is asked again, nothing is generated again
    assert (await pod.probe("GET", "startup"))[0] == 200
    assert pod.engine.generations == 1
    counters = await pod.counters()
    assert (counters["startupOk"], counters["started"]) == (True, 0)
    assert len(await pod.samples()) == 1


async def test_startup_waits_for_the_served_name(pod: Any) -> None:
    # Given a server that offers another model
    pod.engine.served_name = "other"
    # When
    status, answer = await pod.probe("GET", "startup")
    # Then
    assert status == 503
    assert answer["reason"] == "/v1/models lists ['other'], not 'tiny'"
    assert pod.engine.generations == 0


async def test_startup_tells_why_a_generation_failed_and_tries_again(pod: Any) -> None:
    # Given an engine that answers too little
    too_little = pod.engine.__class__._generate

    async def short(self: Any, receive: Any, send: Any) -> None:
        message = {"type": "http.request", "body": b'{"max_tokens": 3}'}

        async def shortened() -> Any:
            return message

        await too_little(self, shortened, send)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod.engine.__class__, "_generate", short)
        status, answer = await pod.probe("GET", "startup")
        assert (status, answer["reason"]) == (503, "a generation made 3 tokens instead of 16")
    # When it works again, then so does the probe
    assert (await pod.probe("GET", "startup"))[0] == 200


async def test_startup_answers_in_time_while_the_generation_runs(pod: Any) -> None:
    # Given a first generation that compiles for long
    pod.engine.release.clear()
    status, answer = await asyncio.wait_for(pod.probe("GET", "startup"), 5)
    assert (status, answer["reason"]) == (503, "the first generation is running")
    # When it is done, the same generation counts
    pod.engine.release.set()
    assert (await pod.probe("GET", "startup"))[0] == 200
    assert pod.engine.generations == 1


async def test_ready_is_refused_by_a_dead_engine(pod: Any) -> None:
    """Rules no. 3 and 5: the engine is asked, and 500 and 503 both mean dead."""
    assert (await pod.probe("GET", "ready"))[0] == 200
    pod.engine.alive = False
    assert (await pod.probe("GET", "ready"))[0] == 503
    assert pod.engine.generations == 0


async def test_dead_engine_fails_liveness_after_the_limit(pod: Any) -> None:
    """Rule no. 26: restart on sustained 503."""
    pod.engine.alive = False
    assert (await pod.probe("GET", "live"))[0] == 200
    await asyncio.sleep(0.6)
    status, answer = await pod.probe("GET", "live")
    assert status == 503
    assert "dead" in answer["reason"]


async def test_live_fails_for_a_hung_engine(pod: Any) -> None:
    """Rule no. 4: a hung engine whose /health stays 200."""
    # Given a request that gets nowhere
    pod.engine.release.clear()
    request = asyncio.create_task(pod.generate())
    looks = []
    for _ in range(12):
        await asyncio.sleep(0.1)
        looks.append((await pod.probe("GET", "live"))[0])
    # Then the first looks are patient, the last aren't, and readiness is gone too
    assert looks[:4] == [200] * 4
    assert looks[-1] == 503
    assert (await pod.probe("GET", "ready"))[0] == 503
    # When the engine moves again
    pod.engine.release.set()
    await request
    # Then it is alive again
    assert (await pod.probe("GET", "live"))[0] == 200
    assert (await pod.probe("GET", "ready"))[0] == 200


async def test_live_holds_for_a_busy_engine_without_tokens(pod: Any) -> None:
    """A long prefill: no answer, but the scheduler steps."""
    pod.engine.release.clear()
    request = asyncio.create_task(pod.generate())
    for _ in range(12):
        pod.engine.steps += 1
        assert (await pod.probe("GET", "live"))[0] == 200
        await asyncio.sleep(0.1)
    pod.engine.release.set()
    await request


async def test_live_holds_for_a_slow_stream(pod: Any) -> None:
    request = asyncio.create_task(pod.generate(stream=True, max_tokens=5, pause=0.25))
    while not request.done():
        assert (await pod.probe("GET", "live"))[0] == 200
        await asyncio.sleep(0.1)


async def test_live_holds_where_the_scheduler_cannot_be_read(pod: Any) -> None:
    """Rule no. 14: scrape failure = unknown."""
    pod.engine.exports_metrics = False
    pod.engine.release.clear()
    request = asyncio.create_task(pod.generate())
    for _ in range(8):
        assert (await pod.probe("GET", "live"))[0] == 200
        await asyncio.sleep(0.1)
    pod.engine.release.set()
    await request


async def test_idle_engine_proves_itself_once_an_interval(pod: Any) -> None:
    # Given an idle engine, probed more often than the interval
    for _ in range(10):
        await pod.probe("GET", "live")
        await asyncio.sleep(0.1)
    # Then
    assert 2 <= pod.engine.generations <= 3
    assert (await pod.counters())["started"] == 0


async def test_idle_engine_that_hangs_fails(pod: Any) -> None:
    # Given an idle engine that hangs
    pod.engine.release.clear()
    await asyncio.sleep(0.4)
    looks = [(await pod.probe("GET", "live"))[0]]
    # When its own generation gets nowhere
    for _ in range(10):
        await asyncio.sleep(0.1)
        looks.append((await pod.probe("GET", "live"))[0])
    # Then
    assert looks[0] == 200
    assert looks[-1] == 503
    assert pod.engine.generations == 1


async def test_quiet_stops_generations_and_expires_by_itself(pod: Any) -> None:
    status, answer = await pod.probe("POST", "quiet?seconds=0.8")
    assert (status, answer["quietFor"]) == (200, pytest.approx(0.8, abs=0.1))
    await asyncio.sleep(0.5)
    await pod.probe("GET", "live")
    assert pod.engine.generations == 0
    # When it has expired
    await asyncio.sleep(0.4)
    await pod.probe("GET", "live")
    await asyncio.sleep(0.1)
    assert pod.engine.generations == 1
    assert (await pod.counters())["quietFor"] == 0.0


async def test_quiet_is_granted_only_when_nothing_of_the_guard_runs(pod: Any) -> None:
    # Given a generation of the guard's own
    pod.engine.release.clear()
    await asyncio.sleep(0.4)
    await pod.probe("GET", "live")
    assert (await pod.counters())["generating"] is True
    # When quiet is asked for, then the answer waits for its end
    quiet = asyncio.create_task(pod.probe("POST", "quiet?seconds=9"))
    await asyncio.sleep(0.2)
    assert not quiet.done()
    pod.engine.release.set()
    assert (await quiet)[0] == 200
    assert (await pod.counters())["generating"] is False


async def test_own_generation_carries_the_engines_key(pod: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from tailguard_runtime.guard.engine import Engine

    engine = Engine(pod.engine, served_name="tiny", api_key="k")
    assert await engine.generate() == ""
    assert pod.engine.authorization == [b"Bearer k"]
