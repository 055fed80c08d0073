"""The preStop hook: `python -m tailguard_runtime.guard.prestop --at-most SECONDS`.

Takes the pod out of its Service, waits until no connection had a request for five seconds, then has new
requests turned away, because between SIGTERM and its end vLLM answers them with 500. Always exits with 0:
a failed hook would only add an event, and the pod stops in any case.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from tailguard_runtime.guard.settings import Settings

_IDLE_SECONDS = 5.0
_STEP_SECONDS = 0.5
_ANSWER_SECONDS = 3.0

Ask = Callable[[str, str], "dict[str, Any] | None"]


def drain(
    ask: Ask,
    at_most: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Drain the pod within a bound.

    Args:
        ask: sends method and path to the probe port; None when it doesn't answer.
        at_most: seconds after which the pod stops even if requests still run or arrive.
        clock: seconds that never go back.
        sleep: waits for so many seconds.

    Returns:
        What happened, in one sentence.
    """
    began = clock()
    ask("POST", "/tailguard/drain")
    outcome = "still busy"
    while (spent := clock() - began) < at_most:
        counters = ask("GET", "/tailguard/counters")
        # Where the guard doesn't answer, nobody answers users either.
        idle = spent if counters is None else counters["idleSeconds"]
        if min(spent, idle) >= _IDLE_SECONDS:
            outcome = f"no request for {_IDLE_SECONDS:.0f} s" if counters else "the guard doesn't answer"
            break
        sleep(_STEP_SECONDS)
    ask("POST", "/tailguard/drain?refuse=1")
    return f"drained for {clock() - began:.1f} s: {outcome}"


def ask_port(port: int) -> Ask:
    """An `ask` that speaks to the probe port of this pod."""

    def ask(method: str, path: str) -> dict[str, Any] | None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)
        try:
            connection.request(method, path)
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            return answer
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    return ask


def main(arguments: list[str]) -> int:
    """Run the hook.

    Args:
        arguments: the command line without the program.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description="drain this pod before its engine stops")
    parser.add_argument("--at-most", type=float, required=True, metavar="SECONDS")
    at_most = parser.parse_args(arguments).at_most
    print(drain(ask_port(Settings.from_environment(os.environ).port), at_most))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
