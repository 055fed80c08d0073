"""The paths of the probe port, and what the serving port does with requests."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

ALL_PATHS = ("startup", "ready", "live", "drain", "quiet", "close", "samples", "counters", "", "x")


@pytest.mark.parametrize("path", ALL_PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_serving_port_answers_404(pod: Any, method: str, path: str) -> None:
    async with pod.client.request(method, pod.url(f"/tailguard/{path}")) as answer:
        assert answer.status == 404


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("GET", "nothing", 404, "no such path"),
        ("GET", "drain", 405, "takes POST, DELETE"),
        ("POST", "ready", 405, "takes GET"),
        ("POST", "quiet", 400, "seconds=''"),
        ("POST", "quiet?seconds=x", 400, "seconds='x'"),
        ("POST", "quiet?seconds=-1", 400, "between 0 and 3600"),
        ("POST", "quiet?seconds=3601", 400, "between 0 and 3600"),
        ("POST", "quiet?seconds=nan", 400, "between 0 and 3600"),
        ("GET", "samples?limit=0", 400, "limit=0"),
        ("GET", "samples?after=7", 400, "RING:SEQ"),
        ("GET", "counters?engine=yes", 400, "engine='yes'"),
    ],
)
async def test_bad_request_gets_a_clear_answer(pod: Any, method: str, path: str, status: int, said: str) -> None:
    found, answer = await pod.probe(method, path)
    assert found == status
    assert said in answer["error"]


async def test_plain_answer_is_counted_by_its_usage(pod: Any) -> None:
    # When one request is answered, whose text itself speaks of "completion_tokens"
    await pod.generate(max_tokens=5)
    # Then
    counters = await pod.counters()
    assert (counters["started"], counters["finished"], counters["tokens"]) == (1, 1, 5)
    sample, extent = await pod.samples()
    assert sample["seq"] == 1
    assert (sample["status"], sample["outcome"]) == (200, "finished")
    assert (sample["tokens"], sample["promptTokens"], sample["chunks"]) == (5, 7, 0)
    assert 0 < sample["ttft"] <= sample["e2e"]
    assert extent["rings"][sample["ring"]] == {"oldest": 1, "next": 2, "alive": True}


async def test_stream_is_counted_by_its_events(pod: Any) -> None:
    await pod.generate(stream=True, max_tokens=6)
    await pod.generate(stream=True, max_tokens=6, usage=True)
    counters = await pod.counters()
    assert counters["chunks"] == 6 + 7
    # The first stream says no usage, the second says 5.
    assert counters["tokens"] == 6 + 5
    first, second, _ = await pod.samples()
    assert (first["tokens"], first["chunks"]) == (None, 6)
    assert (second["tokens"], second["chunks"]) == (5, 7)


async def test_ttft_is_the_first_event_and_not_the_last(pod: Any) -> None:
    await pod.generate(stream=True, max_tokens=5, pause=0.05)
    sample, _ = await pod.samples()
    assert sample["ttft"] < 0.1
    assert sample["e2e"] >= 0.25


@pytest.mark.parametrize(
    ("request_", "outcome", "status"),
    [
        ({"fail": 400}, "finished", 400),
        ({"fail": 503}, "failed", 503),
        ({"raise": True}, "failed", 0),
        ({"stream": True, "max_tokens": 2, "dies": True}, "failed", 200),
        ({"stream": True, "max_tokens": 2, "cut": True}, "failed", 200),
    ],
)
async def test_outcome_of_what_goes_wrong(pod: Any, request_: dict[str, Any], outcome: str, status: int) -> None:
    """Rule no. 7: an error within a stream, or a missing end, is a failure although its status is 200."""
    try:
        await pod.generate(**request_)
    except aiohttp.ClientError:
        assert "cut" in request_
    sample, _ = await pod.samples()
    assert (sample["outcome"], sample["status"]) == (outcome, status)
    counters = await pod.counters()
    assert counters[outcome] == 1
    assert counters["clientErrors"] == (1 if status == 400 else 0)
    assert counters["running"] == counters["waiting"] == 0


@pytest.mark.parametrize("request_", [{"stream": True, "max_tokens": 500, "pause": 0.02}])
async def test_client_that_hangs_up_is_no_failure(pod: Any, request_: dict[str, Any], wait_until: Any) -> None:
    # Given a stream that its client leaves in the middle
    async with aiohttp.ClientSession() as client:
        answer = await client.post(pod.url("/v1/completions"), json=request_)
        await answer.content.readline()
        assert (await pod.counters())["running"] == 1
        answer.close()
    # Then
    await wait_until(lambda: pod.engine.in_flight == 0)
    counters = await pod.counters()
    assert (counters["disconnected"], counters["failed"], counters["running"]) == (1, 0, 0)


async def test_running_and_waiting_are_seen_while_it_lasts(pod: Any, wait_until: Any) -> None:
    pod.engine.release.clear()
    held = [asyncio.create_task(pod.generate()) for _ in range(3)]
    stream = asyncio.create_task(pod.generate(stream=True, max_tokens=2))
    await wait_until(lambda: pod.engine.in_flight == 4)
    await asyncio.sleep(0.05)
    counters = await pod.counters("?engine=1")
    assert (counters["running"], counters["waiting"], counters["idleSeconds"]) == (4, 3, 0.0)
    assert counters["engine"]["running"] == 4.0
    assert counters["engine"]["kvCacheUsage"] is None, "absent is not 0"
    pod.engine.release.set()
    await asyncio.gather(*held, stream)
    assert (await pod.counters())["running"] == 0


async def test_health_models_and_metrics_are_no_samples(pod: Any) -> None:
    for path in ("/health", "/metrics", "/v1/models", "/nothing"):
        async with pod.client.get(pod.url(path)):
            pass
    async with pod.client.post(pod.url("/tokenize"), json={}):
        pass
    assert (await pod.counters())["started"] == 0


async def test_samples_go_on_after_a_number(pod: Any) -> None:
    for _ in range(5):
        await pod.generate()
    *samples, extent = await pod.samples("?limit=3")
    assert [s["seq"] for s in samples] == [1, 2, 3]
    ring = samples[0]["ring"]
    *rest, _ = await pod.samples(f"?after={ring}:3")
    assert [s["seq"] for s in rest] == [4, 5]
    assert extent["rings"][ring]["next"] == 6
    assert (await pod.counters())["nextSeq"] == {ring: 6}


async def test_counters_are_one_line(pod: Any) -> None:
    async with pod.client.get(f"http://127.0.0.1:{pod.probe_port}/tailguard/counters") as answer:
        text = await answer.text()
    assert text.count("\n") == 1
    assert json.loads(text)["schema"] == 1


async def test_drain_takes_readiness_and_closes_every_connection(pod: Any) -> None:
    # Given
    assert await pod.probe("POST", "drain") == (200, {"draining": True, "refusing": False})
    # Then it isn't ready, still serves, and every answer is the last of its connection
    assert (await pod.probe("GET", "ready"))[0] == 503
    assert (await pod.probe("GET", "live"))[0] == 200
    for _ in range(2):
        status, answer, _ = await pod.generate()
        assert (status, answer.headers["connection"]) == (200, "close")
    # When the drain ends (a borrowed pod goes back)
    assert await pod.probe("DELETE", "drain") == (200, {"draining": False, "refusing": False})
    assert (await pod.probe("GET", "ready"))[0] == 200
    _, answer, _ = await pod.generate()
    assert "connection" not in answer.headers


async def test_refusal_is_a_clean_503(pod: Any) -> None:
    """Between SIGTERM and its end vLLM would answer 500 (runtimes.md 5)."""
    # Given a stream that runs when the refusal begins
    running = asyncio.create_task(pod.generate(stream=True, max_tokens=5, pause=0.1))
    await asyncio.sleep(0.1)
    await pod.probe("POST", "drain?refuse=1")
    # Then others are turned away with a reason to come back, and it ends well
    status, answer, _ = await pod.generate()
    assert (status, answer.headers["retry-after"], answer.headers["connection"]) == (503, "1", "close")
    assert (await running)[2].endswith(b"data: [DONE]\n\n")
    counters = await pod.counters()
    assert (counters["refused"], counters["started"], counters["failed"]) == (1, 1, 0)


async def test_close_tells_each_open_connection_once(pod: Any) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as kept:
        # Given one connection in use and one that was opened ahead and never used
        await pod.generate(kept)
        reader, writer = await asyncio.open_connection("127.0.0.1", pod.port)
        assert (await pod.probe("POST", "close"))[1] == {"closing": 2}
        assert (await pod.counters())["closing"] == 2
        # Then it stays ready, and each is told with its next answer
        assert (await pod.probe("GET", "ready"))[0] == 200
        _, answer, _ = await pod.generate(kept)
        assert answer.headers["connection"] == "close"
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"connection: close" in (await reader.read()).lower()
        writer.close()
        # And a new connection isn't
        _, answer, _ = await pod.generate(kept)
        assert "connection" not in answer.headers
        assert (await pod.counters())["closing"] == 0


async def test_close_finds_a_connection_behind_a_forwarding_sidecar(pod: Any) -> None:
    """uvicorn would take the client from X-Forwarded-For of a local sender; the adapter turns that off."""
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector, headers={"X-Forwarded-For": "10.9.9.9"}) as kept:
        await pod.generate(kept)
        await pod.probe("POST", "close")
        _, answer, _ = await pod.generate(kept)
        assert answer.headers["connection"] == "close"


async def test_close_lets_a_long_stream_end_where_it_began(pod: Any) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as kept:
        stream = asyncio.create_task(pod.generate(kept, stream=True, max_tokens=5, pause=0.05))
        await asyncio.sleep(0.1)
        await pod.probe("POST", "close")
        _, answer, body = await stream
        assert body.endswith(b"data: [DONE]\n\n")
        assert "connection" not in answer.headers
        _, answer, _ = await pod.generate(kept)
        assert answer.headers["connection"] == "close"


async def test_broken_request_on_the_probe_port_harms_nobody(pod: Any) -> None:
    for broken in (
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"a" * 40_000,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", pod.probe_port)
        writer.write(broken)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
    assert (await pod.probe("GET", "ready"))[0] == 200
