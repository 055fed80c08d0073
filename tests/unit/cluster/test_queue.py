"""The work queue: once each, never twice at a time, later when told, and nobody waits for somebody else's error."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailguard_operator.cluster import queue as module
from tailguard_operator.cluster.errors import Conflict, NotLeader
from tailguard_operator.cluster.queue import Key, Result, WorkQueue

A, B = Key("default", "a"), Key("default", "b")
Pass = Callable[[Key], Awaitable[Result]]


async def run(queue: WorkQueue, seconds: float = 0.05) -> None:
    """Let the queue work for a while."""
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.wait([task])


def make(reconcile: Pass, workers: int = 4, reported: list[tuple[Key, Exception]] | None = None) -> WorkQueue:
    async def report(key: Key, error: Exception) -> None:
        if reported is not None:
            reported.append((key, error))

    return WorkQueue(reconcile, report, workers, jitter=lambda: 1.0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_DELAY_S", 0.01)


async def test_a_key_added_many_times_is_looked_at_once() -> None:
    # Given a queue that counts
    seen: Counter[Key] = Counter()

    async def reconcile(key: Key) -> Result:
        seen[key] += 1
        return Result()

    queue = make(reconcile)
    # When a key is added often before a worker is free
    for _ in range(100):
        queue.add(A)
    queue.add(B)
    await run(queue)
    # Then each was looked at once
    assert seen == {A: 1, B: 1}


@settings(max_examples=30, deadline=None)
@given(adds=st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 3)), min_size=1, max_size=20))
def test_no_key_runs_twice_at_once_and_an_event_during_a_pass_is_never_lost(adds: list[tuple[Key, int]]) -> None:
    # Given a world that changes at times, and passes that read it at their start
    world: Counter[Key] = Counter()
    read: dict[Key, int] = {}
    running: Counter[Key] = Counter()
    most = 0

    async def reconcile(key: Key) -> Result:
        nonlocal most
        running[key] += 1
        most = max(most, running[key])
        read[key] = world[key]
        await asyncio.sleep(0.001)
        running[key] -= 1
        return Result()

    async def story() -> None:
        queue = make(reconcile)
        task = asyncio.create_task(queue.run())
        # When every change is followed by an event
        for key, pause in adds:
            world[key] += 1
            queue.add(key)
            await asyncio.sleep(pause / 2000)
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(story())
    # Then the last pass of each key has read its last state, and no two overlapped
    assert read == dict(world)
    assert most == 1


async def test_a_broken_object_never_stops_the_others(quick: None) -> None:
    # Given one service whose pass always fails
    seen: Counter[Key] = Counter()
    reported: list[tuple[Key, Exception]] = []

    async def reconcile(key: Key) -> Result:
        seen[key] += 1
        if key == A:
            raise ValueError("broken")
        return Result(requeue_after=0.005)

    # When both are worked on by a single worker
    queue = make(reconcile, workers=1, reported=reported)
    queue.add(A)
    queue.add(B)
    await run(queue, 0.1)
    # Then the other is looked at as often as it asks, the broken one after growing delays, and is told about once
    assert seen[B] >= 5
    assert 2 <= seen[A] <= 5
    assert [key for key, _ in reported] == [A]


async def test_a_conflict_is_planned_again_at_once(quick: None) -> None:
    # Given a pass that is overtaken three times
    tries = 0

    async def reconcile(key: Key) -> Result:
        nonlocal tries
        tries += 1
        if tries <= 3:
            raise Conflict("apply", 409, "modified")
        return Result()

    reported: list[tuple[Key, Exception]] = []
    queue = make(reconcile, reported=reported)
    queue.add(A)
    # When it runs for much less than one back-off
    await run(queue, 0.005)
    # Then it has come to its end, and nobody was told
    assert tries == 4
    assert reported == []


async def test_losing_the_lease_is_no_error_and_ends_the_key(quick: None) -> None:
    # Given a process that may not write any more
    tries = 0

    async def reconcile(key: Key) -> Result:
        nonlocal tries
        tries += 1
        raise NotLeader("paused")

    reported: list[tuple[Key, Exception]] = []
    queue = make(reconcile, reported=reported)
    queue.add(A)
    await run(queue)
    # Then it is not tried again
    assert tries == 1
    assert reported == []


async def test_the_sooner_of_two_delays_holds_and_an_event_comes_before_both() -> None:
    # Given a key that is due in a minute and, by another reason, in ten milliseconds
    seen = 0

    async def reconcile(key: Key) -> Result:
        nonlocal seen
        seen += 1
        return Result()

    queue = make(reconcile)
    queue.add_after(A, 0.01)
    queue.add_after(A, 60)
    await run(queue, 0.03)
    assert seen == 1
    # When an event comes while it waits
    queue.add_after(B, 60)
    queue.add(B)
    await run(queue, 0.02)
    # Then it is looked at, once
    assert seen == 2
    assert queue.slowest() == 0.0


async def test_a_pass_that_hangs_is_ended_and_counts_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a pass that never ends
    monkeypatch.setattr(module, "PASS_TIMEOUT_S", 0.02)
    reported: list[tuple[Key, Exception]] = []

    async def reconcile(key: Key) -> Result:
        await asyncio.sleep(60)
        return Result()

    queue = make(reconcile, reported=reported)
    queue.add(A)
    # When it runs longer than a pass may
    await run(queue, 0.05)
    # Then it was ended
    assert [type(error) for _, error in reported] == [TimeoutError]
