"""Liveness on a real engine: one that is busy for longer than the limit lives, one that hangs is started again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from e2e.demo.kube import KubeError
from e2e.tests.room import sized
from e2e.tests.scenario import DEEP, START, Object, Scenario, engine, is_ready, restarts

pytestmark = pytest.mark.e2e

STALL_SECONDS = 60
"""The guard's limit (runtime/tailguard_runtime/guard/settings.py)."""
BUSY_SECONDS = STALL_SECONDS + 60
"""Longer than the limit and the four failures that the kubelet waits for."""
HANG_SECONDS = 600.0

# One answer after many sequences of a whole context, one after another: minutes without a word to the client.
ASK = """
import http.client, json
body = {{"model": {name!r}, "prompt": [5], "n": {answers}, "max_tokens": {tokens}}}
body |= {{"temperature": 1, "ignore_eos": True}}
connection = http.client.HTTPConnection("127.0.0.1", 8000, timeout={seconds})
connection.request("POST", "/v1/completions", json.dumps(body), {{"Content-Type": "application/json"}})
try:
    print(connection.getresponse().status)
except TimeoutError:
    print("no answer")
"""
# The engine's core is a process of its own here, the largest below the API server.
FREEZE_CORE = """
import os, pathlib, signal
def pages(pid): return int(pathlib.Path("/proc", pid, "statm").read_text().split()[1])
def parent(pid): return pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[1]
pids = [p.name for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and p.name not in ("1", str(os.getpid()))]
core = max((p for p in pids if parent(p) == "1"), key=pages)
os.kill(int(core), signal.SIGSTOP)
print(core)
"""


@pytest.fixture(scope="module")
def served(s: Scenario) -> Scenario:
    """One slow engine, whose core is a process of its own; no room for a second one, so nothing measures it."""
    large = sized(s.kube, pods=1)
    split = {"name": "engine", "env": [{"name": "VLLM_ENABLE_V1_MULTIPROCESSING", "value": "1"}]}
    template = {"spec": large["template"]["spec"] | {"containers": [split]}}
    args = ["--max-num-seqs=1", "--max-model-len=1024"]
    return s.when_applied(DEEP, engine=large | {"template": template, "args": args}).then_ready()


def test_no_room_to_freeze_a_baseline_is_told_and_users_are_served(served: Scenario) -> None:
    # Given
    s = served
    # Then
    s.then("the freeze has failed", lambda s: s.status["freeze"]["failed"])
    assert s.status["freeze"]["reason"] == "InsufficientCapacity"
    assert "memory (needed" in s.status["freeze"]["message"]
    s.then_ready()


def test_an_engine_that_is_busy_for_minutes_is_not_killed(served: Scenario) -> None:
    # Given
    s = served
    # When
    with _asked(s, tokens=1000, answers=64, seconds=BUSY_SECONDS) as answer:
        # Then
        s.then_stays("Ready and never restarted", _well, BUSY_SECONDS - 5)
    assert answer == ["no answer"]
    assert not [e["message"] for e in _pod_events(s) if "Liveness" in e.get("message", "")]


def test_an_engine_that_hangs_is_started_again(served: Scenario) -> None:
    # Given
    s = served
    (pod,) = s.pods()
    # When
    core = _python(s, FREEZE_CORE).strip()
    # Then
    with _asked(s, tokens=16, answers=1, seconds=STALL_SECONDS):
        s.then(f"the container is started again, its core {core} hangs", lambda s: restarts(s.pods()[0]), HANG_SECONDS)
    s.then("it serves again", lambda s: is_ready(s.pods()[0]), START).then_ready()
    assert s.pods()[0]["metadata"]["uid"] == pod["metadata"]["uid"]
    assert [e for e in _pod_events(s) if "Liveness" in e.get("message", "")]
    assert _python(s, ASK.format(name=s.name, tokens=16, answers=1, seconds=30)).strip() == "200"


def _well(s: Scenario) -> bool:
    (pod,) = s.pods()
    return is_ready(pod) and not restarts(pod)


@contextmanager
def _asked(s: Scenario, tokens: int, answers: int, seconds: int) -> Iterator[list[str]]:
    """Meanwhile a client waits for an answer, at most so long; what it got is in the list afterwards."""
    got: list[str] = []
    script = ASK.format(name=s.name, tokens=tokens, answers=answers, seconds=seconds)

    def ask() -> None:
        try:
            got.append(_python(s, script).strip())
        except KubeError as error:  # the container ends while it waits
            got.append(str(error))

    client = threading.Thread(target=ask, daemon=True)
    client.start()
    yield got
    client.join(seconds + 30)


def _python(s: Scenario, script: str) -> str:
    """What a script prints in the engine's container, run by the engine's own Python."""
    (pod,) = s.pods()
    words: list[str] = engine(pod)["command"]
    python = words[words.index("-m") - 1]
    return s.kube.kubectl("exec", pod["metadata"]["name"], "--container=engine", "--", python, "-c", script)


def _pod_events(s: Scenario) -> list[Object]:
    found: list[Object] = json.loads(s.kube.kubectl("get", "events", "-o", "json"))["items"]
    return [e for e in found if e["involvedObject"]["kind"] == "Pod"]
