"""`tailguard get` and `tailguard explain`: what is and why, readable at 80 columns, also where nothing was measured."""

from __future__ import annotations

from typing import Any

import pytest

SERVING = ("Ready", "True", "Serving", "revision raaaa serves with 1 Ready pods")
STABLE = {"revision": "raaaa", "specHash": "aaaa", "since": "2026-12-01T10:00:00Z"}


def rollout(state: str, reason: str, message: str, **more: Any) -> dict[str, Any]:
    """The rollout's part of a status."""
    return {"state": state, "reason": reason, "message": message, "specHash": "bbbb", **more}


def test_get_tells_the_story_of_each_service(tailguard: Any, service: Any) -> None:
    # Given a service whose last change was rejected
    complete = ("RolloutComplete", "False", "Rejected", "TTFT typical is 1.41 times the twin's, 136 ms against 96.5 ms")
    service(conditions=(SERVING, complete), stable=STABLE, verdict="ROLLBACK", p99="250ms")
    # When services are listed
    ended = tailguard("get")
    # Then the columns are there and the message is whole, at 80 columns
    assert ended.code == 0
    assert ended.lines[0].split() == ["NAME", "READY", "STABLE", "CANARY", "VERDICT", "P99", "MESSAGE"]
    assert ended.lines[1].split()[:5] == ["chat", "True", "raaaa", "ROLLBACK", "250ms"]
    assert "96.5" in ended.text
    assert max(map(len, ended.lines)) <= 80


def test_get_says_why_a_service_is_not_ready(tailguard: Any, service: Any) -> None:
    # Given a service that is down
    service(conditions=(("Ready", "False", "CrashLoopBackOff", "no pod is Ready: [/usr/lib] out of memory"),))
    # Then the reason is the message, markup or not
    assert "[/usr/lib] out of memory" in tailguard("get").text


def test_get_of_an_empty_namespace_says_so(api: Any, tailguard: Any) -> None:
    # Given no service
    ended = tailguard("get", "-n", "elsewhere")
    # Then that is what it says, and where it looked
    assert (ended.code, ended.text) == (0, "there is no InferenceService in namespace elsewhere")


def test_explain_tells_a_rollback_in_words_and_numbers(tailguard: Any, service: Any, samples: Any, stored: Any) -> None:
    """R-003: by how much, with interval and number of requests."""
    # Given a rejected change with its samples, one slot of them void
    stored(samples(30, ratio=1.4, void=(3,)))
    service(
        conditions=(SERVING,),
        stable=STABLE,
        rollout=rollout("Rejected", "GrossDrift", "drift", verdict="ROLLBACK", benchmark="chat-bbbb-b2"),
    )
    # When it is explained
    ended = tailguard("explain", "chat")
    # Then verdict, figures of both arms, interval, void slots, both plots and the way on are there
    assert ended.code == 0
    for part in (
        "last change: Rejected (GrossDrift), verdict ROLLBACK",
        "`tailguard retry chat`",
        "GrossAlarm (GrossLatencyDrift): TTFT typical is 1.41 times the twin's",
        "1.36 to 1.45",
        "900 requests to both arms",
        "slot 3 is void: GeneratorBehind",
        "TTFT in ms by percentile: t = twin, c = canary",
        "d = drift, p = proof, t = threshold 20",
    ):
        assert part in ended.text, part
    # And nothing is cut or wraps at 80 columns
    assert max(map(len, ended.lines)) <= 80
    assert "…" not in ended.text
    rows = [line.split() for line in ended.lines if line.strip().startswith("Latency")]
    assert [row[1] for row in rows] == ["typical", "P90", "P99"]


def test_explain_takes_another_benchmark_by_name(tailguard: Any, service: Any, samples: Any, stored: Any) -> None:
    # Given two Benchmarks
    stored(samples(30, ratio=1.4))
    stored(samples(120, noise=0.02), name="chat-bbbb-b1")
    service(conditions=(SERVING,), rollout=rollout("Rejected", "Drift", "", benchmark="chat-bbbb-b2"))
    # When the other one is asked for
    ended = tailguard("explain", "chat", "--benchmark", "chat-bbbb-b1")
    # Then that is explained
    assert "Promote (NonInferior): Proven" in ended.text


@pytest.mark.parametrize(
    ("state", "reason", "message"),
    [
        ("Rejected", "ImagePullBackOff", "the canary could not start: no such image"),
        ("Held", "InsufficientCapacity", "2 more engine pods are needed to compare, the nodes have room for 1"),
        ("Aborted", "Aborted", "aborted by hand (ann)"),
    ],
)
def test_explain_of_a_change_that_was_never_measured(
    state: str, reason: str, message: str, tailguard: Any, service: Any
) -> None:
    # Given a change that ended before a Benchmark
    service(conditions=(SERVING,), stable=STABLE, rollout=rollout(state, reason, message))
    # When it is explained
    ended = tailguard("explain", "chat")
    # Then the reason is the explanation, with the way on, and the lack of figures is said, not an error
    assert ended.code == 0
    assert f"last change: {state} ({reason}). {message}" in ended.text
    assert "tailguard retry chat" in ended.text or "`retry chat`" in ended.text
    assert "this change was not measured (yet)" in ended.text


def test_explain_during_a_freeze_tells_how_far_it_is_and_shows_what_there_is(
    tailguard: Any, service: Any, samples: Any, stored: Any
) -> None:
    # Given a freeze with four slots
    stored(samples(4), name="chat-aaaa-b1", verdict=False)
    service(
        conditions=(SERVING,),
        stable=STABLE,
        freeze={"benchmark": "chat-aaaa-b1", "message": "freezing, 4 of 10 slots"},
        rollout=rollout("Stable", "FirstRevision", "revision raaaa is the first and serves"),
    )
    # When it is explained
    ended = tailguard("explain", "chat")
    # Then both are told
    assert ended.code == 0
    assert "a baseline is being frozen: freezing, 4 of 10 slots" in ended.text
    assert "Continue (Running)" in ended.text


def test_explain_before_the_first_slot_is_no_data(tailguard: Any, service: Any, api: Any, stored: Any) -> None:
    # Given a Benchmark that has stored nothing yet
    stored([], verdict=False)
    service(conditions=(SERVING,), rollout=rollout("Benchmark", "Measuring", "m", benchmark="chat-bbbb-b2"))
    # Then what is known is told, and the exit code is 3
    ended = tailguard("explain", "chat")
    assert ended.code == 3
    assert "last change: Benchmark (Measuring)" in ended.text
    assert "has no stored samples" in ended.text


@pytest.mark.parametrize("reason", ["BaselineMissing", "BaselineUnavailable"])
def test_explain_without_a_baseline_is_no_data(reason: str, tailguard: Any, service: Any) -> None:
    """R-020: a missing baseline is an error, exit code 3."""
    # Given a change that waits for a baseline, or cannot have one
    service(conditions=(SERVING,), stable=STABLE, rollout=rollout("Starting", reason, "no baseline is frozen"))
    # Then it says so with its own exit code
    ended = tailguard("explain", "chat")
    assert (ended.code, f"({reason}). no baseline is frozen" in ended.text) == (3, True)


def test_explain_of_a_new_service(tailguard: Any, service: Any) -> None:
    # Given a service that the operator has not seen
    service()
    # Then that is what it says
    ended = tailguard("explain", "chat")
    assert ended.code == 0
    assert "chat: the operator has not looked at it yet" in ended.text


def test_explain_reports_objectives_with_their_overrun(tailguard: Any, service: Any) -> None:
    """R-003: the report says by how much."""
    message = "Latency P99 of class all is 3268ms, 118 % over the bound of 1500ms"
    # Given a service over its bound
    service(conditions=(SERVING, ("WithinSLO", "False", "Benchmark", message)), stable=STABLE, p99="3268ms")
    # Then objective, bound, value and overrun are told
    assert f"objectives: WithinSLO=False (Benchmark): {message}" in tailguard("explain", "chat").text


def test_a_message_with_brackets_is_shown_as_it_is(tailguard: Any, service: Any) -> None:
    # Given a pod whose last words look like markup
    service(conditions=(SERVING,), rollout=rollout("Rejected", "Error", "the engine exited: [/bin/x] [bold] failed"))
    # Then nothing is swallowed
    assert "[/bin/x] [bold] failed" in tailguard("explain", "chat").text


def test_a_benchmark_that_is_kept_no_more(tailguard: Any, service: Any) -> None:
    # Given a status that names a Benchmark that was removed
    service(conditions=(SERVING,), rollout=rollout("Rejected", "Drift", "drifted", benchmark="chat-bbbb-b2"))
    # Then what status knows is told, and the rest is no data
    ended = tailguard("explain", "chat")
    assert ended.code == 3
    assert "drifted" in ended.text and "there is no Benchmark chat-bbbb-b2" in ended.text
