"""Liveness: a queue that stands still and a watch that fell silent are noticed, a process in waiting is not blamed."""

import httpx

from tailguard_operator.cluster.health import STUCK_SECONDS, WatchEcho, queue_check, serve


async def test_healthz_fails_with_the_reason_and_metrics_are_served() -> None:
    # Given a process whose second check finds something
    problems = {"queue": "", "watch": "the watch is stale"}
    checks = {name: (lambda name=name: problems[name]) for name in problems}
    runner, (health, metrics) = await serve("127.0.0.1", {"health": 0, "metrics": 0}, checks)
    async with httpx.AsyncClient(trust_env=False) as http:
        # When it is asked
        answer = await http.get(f"http://127.0.0.1:{health}/healthz")
        # Then it is not alive, and says why; when that has passed, it is
        assert (answer.status_code, answer.json()["problems"]) == (503, {"watch": "the watch is stale"})
        problems["watch"] = ""
        assert (await http.get(f"http://127.0.0.1:{health}/healthz")).status_code == 200
        assert "tailguard_queue_depth" in (await http.get(f"http://127.0.0.1:{metrics}/metrics")).text
    await runner.cleanup()


def test_a_write_that_never_comes_back_as_an_event_means_a_stale_watch() -> None:
    # Given two services that were written, one of which was heard of
    now = 0.0
    echo = WatchEcho(lambda: now)
    echo.writing("default", "chat")
    echo.writing("default", "code")
    echo.heard("default", "code")
    now = 59.0
    assert echo.check() == ""
    # When nothing comes for a minute
    now = 61.0
    # Then the watch is stale, until an event comes
    assert "default/chat was written 61 s ago" in echo.check()
    echo.heard("default", "chat")
    assert echo.check() == ""


def test_a_process_that_waits_for_the_lease_is_alive() -> None:
    # Given a key that waits for ever
    active = False
    check = queue_check(lambda: STUCK_SECONDS + 1, lambda: active)
    # Then only a leader is to blame for it
    assert check() == ""
    active = True
    assert "waiting" in check()


def test_an_event_that_overtakes_the_writes_answer_is_not_missed() -> None:
    # Given a write whose event comes before its answer, and one that changes nothing
    now = 0.0
    echo = WatchEcho(lambda: now)
    echo.writing("default", "chat")
    echo.heard("default", "chat")
    echo.writing("default", "code")
    echo.unchanged("default", "code")
    # When a long time passes without another event
    now = 3600.0
    # Then the watch is not taken for stale
    assert echo.check() == ""
