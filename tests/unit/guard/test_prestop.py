"""The preStop hook with a fake clock: it waits for idle connections, within a bound."""

from collections.abc import Callable
from typing import Any

from tailguard_runtime.guard.prestop import ask_port, drain


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def run(idle: Callable[[float], float | None], at_most: float) -> tuple[float, list[str], str]:
    """Drain a pod whose idle seconds are a function of time; None = the guard doesn't answer."""
    clock, asked = Clock(), []

    def ask(method: str, path: str) -> dict[str, Any] | None:
        if method == "POST":
            asked.append(path)
        seconds = idle(clock.now)
        return None if seconds is None else {"idleSeconds": seconds, "running": 0}

    said = drain(ask, at_most, clock=clock, sleep=clock.sleep)
    return clock.now, asked, said


def test_idle_pod_still_waits_until_its_endpoint_is_gone() -> None:
    """Rule no. 6: SIGTERM only after the pod has left its Service."""
    spent, asked, said = run(lambda now: 1000 + now, at_most=60)
    assert spent == 5.0
    assert asked == ["/tailguard/drain", "/tailguard/drain?refuse=1"]
    assert said == "drained for 5.0 s: no request for 5 s"


def test_it_waits_five_seconds_after_the_last_request() -> None:
    # Given a stream that ends after 20 seconds
    spent, _, _ = run(lambda now: max(0.0, now - 20), at_most=60)
    assert spent == 25.0


def test_it_is_bounded_when_requests_never_end() -> None:
    spent, asked, said = run(lambda now: 0.0, at_most=60)
    assert spent == 60.0
    assert asked[-1] == "/tailguard/drain?refuse=1"
    assert said.endswith("still busy")


def test_a_guard_that_does_not_answer_does_not_hold_the_pod() -> None:
    spent, _, said = run(lambda now: None, at_most=60)
    assert spent == 5.0
    assert said.endswith("the guard doesn't answer")


def test_nobody_on_the_port_is_no_answer() -> None:
    assert ask_port(9)("GET", "/tailguard/counters") is None


async def test_it_drains_a_real_pod(pod: Any) -> None:
    import asyncio

    said = await asyncio.to_thread(drain, ask_port(pod.probe_port), 30)
    assert said.endswith("no request for 5 s")
    assert (await pod.generate())[0] == 503
