"""The work queue: each key once, one worker a key at a time, later by the clock or after an error with back-off."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from prometheus_client import Counter, Gauge, Histogram

from tailguard_operator.cluster import calls
from tailguard_operator.cluster.errors import Conflict, NotLeader

LOG = logging.getLogger(__name__)

RECONCILES = Counter("tailguard_reconciles_total", "Finished reconcile passes, by result.", ["result"])
SECONDS = Histogram(
    "tailguard_reconcile_seconds",
    "Duration of a reconcile pass.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120),
)
CALLS = Histogram(
    "tailguard_reconcile_api_requests",
    "API requests of a reconcile pass.",
    buckets=(1, 2, 5, 8, 10, 12, 15, 20, 30, 50),
)
DEPTH = Gauge("tailguard_queue_depth", "Keys that wait for a worker.")

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 300.0
CONFLICTS_AT_ONCE = 5
PASS_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """One InferenceService."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Result:
    """What a finished pass asks for."""

    requeue_after: float | None = None
    """Seconds until the next look; None: only when something happens."""


Reconcile = Callable[[Key], Awaitable[Result]]
Report = Callable[[Key, Exception], Awaitable[None]]


@dataclass(slots=True)
class _Entry:
    """What the queue knows of one key; forgotten when there is nothing to know."""

    waiting_since: float | None = None
    running_since: float | None = None
    again: bool = False
    errors: int = 0
    conflicts: int = 0
    timer: asyncio.TimerHandle | None = None

    def cancel_timer(self) -> None:
        if self.timer:
            self.timer.cancel()
        self.timer = None


class WorkQueue:
    """Runs `reconcile` for every key that was added, never twice at once for the same key.

    A pass that fails is tried again after a growing delay with jitter, the others go on meanwhile, and `report` is
    told at the first failure in a row. A `Conflict` means that the plan was made from something old: the key is
    planned again at once, a few times.
    """

    def __init__(
        self,
        reconcile: Reconcile,
        report: Report,
        workers: int = 8,
        jitter: Callable[[], float] = random.random,
    ):
        self._reconcile = reconcile
        self._report = report
        self._workers = workers
        self._jitter = jitter
        self._entries: dict[Key, _Entry] = {}
        self._ready: asyncio.Queue[Key] = asyncio.Queue()

    def add(self, key: Key) -> None:
        """Look at `key` as soon as a worker is free; once, however often it is added before."""
        entry = self._entries.setdefault(key, _Entry())
        entry.cancel_timer()
        if entry.running_since is not None:
            entry.again = True
        elif entry.waiting_since is None:
            entry.waiting_since = time.monotonic()
            self._ready.put_nowait(key)
            DEPTH.set(self._ready.qsize())

    def add_after(self, key: Key, delay: float) -> None:
        """Look at `key` after `delay` seconds, or earlier when it is added before; the sooner of two delays holds."""
        entry = self._entries.setdefault(key, _Entry())
        loop = asyncio.get_running_loop()
        if entry.waiting_since is not None or (entry.timer and entry.timer.when() <= loop.time() + delay):
            return
        entry.cancel_timer()
        entry.timer = loop.call_later(delay, self.add, key)

    def slowest(self) -> float:
        """Seconds that the longest waiting or running key has been at it; 0 when there is none."""
        since = [
            moment
            for entry in self._entries.values()
            for moment in (entry.waiting_since, entry.running_since)
            if moment is not None
        ]
        return time.monotonic() - min(since) if since else 0.0

    async def run(self) -> None:
        """Work for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._ready.get()
            DEPTH.set(self._ready.qsize())
            entry = self._entries[key]
            entry.cancel_timer()
            entry.waiting_since, entry.running_since, entry.again = None, time.monotonic(), False
            try:
                delay = await self._pass(key, entry)
            finally:
                entry.running_since = None
            if (task := asyncio.current_task()) and task.cancelling():
                raise asyncio.CancelledError
            self._schedule(key, entry, delay)

    async def _pass(self, key: Key, entry: _Entry) -> float | None:
        """Run one pass; how many seconds later the next one is due."""
        try:
            with SECONDS.time(), calls.counting() as counted:
                async with asyncio.timeout(PASS_TIMEOUT_S):
                    result = await self._reconcile(key)
            CALLS.observe(counted.total)
        except NotLeader as error:
            LOG.warning("%s: %s", key, error)
            RECONCILES.labels("not_leader").inc()
            return None
        except Conflict as error:
            return self._after_conflict(key, entry, error)
        except Exception as error:  # a broken object must never stop the others
            return await self._after_error(key, entry, error)
        RECONCILES.labels("done").inc()
        entry.errors = entry.conflicts = 0
        return result.requeue_after

    def _after_conflict(self, key: Key, entry: _Entry, error: Conflict) -> float:
        LOG.info("%s: planned from something old, planning again: %s", key, error)
        RECONCILES.labels("conflict").inc()
        entry.conflicts += 1
        return 0.0 if entry.conflicts <= CONFLICTS_AT_ONCE else self._delay(entry.conflicts - CONFLICTS_AT_ONCE)

    async def _after_error(self, key: Key, entry: _Entry, error: Exception) -> float:
        RECONCILES.labels("error").inc()
        entry.errors += 1
        delay = self._delay(entry.errors)
        LOG.error("%s: failed %d times, next in %.0f s", key, entry.errors, delay, exc_info=error)
        if entry.errors == 1:
            try:
                await self._report(key, error)
            except Exception as problem:
                LOG.warning("%s: the failure could not be reported: %s", key, problem)
        return delay

    def _delay(self, times: int) -> float:
        longest = min(FIRST_DELAY_S * 2.0 ** min(times - 1, 30), LONGEST_DELAY_S)
        return longest * (0.5 + 0.5 * self._jitter())

    def _schedule(self, key: Key, entry: _Entry, delay: float | None) -> None:
        if entry.again or delay == 0.0:
            self.add(key)
        elif delay is not None:
            self.add_after(key, delay)
        elif entry.waiting_since is None and not entry.timer:
            del self._entries[key]
