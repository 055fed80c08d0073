"""Whether the engine hangs: decided from what moved since the last look, pure.

A busy engine is never called hung. Any sign of work counts: an event sent to a client, a request answered,
or any figure that the engine itself changed (its scheduler reports KV-cache use at every step, even when a
long prefill produces no token yet). What can't be read is unknown, and unknown is not a standstill.
"""

from __future__ import annotations

from dataclasses import dataclass

Progress = tuple[float, ...]


@dataclass(frozen=True)
class Verdict:
    """The answer of a probe."""

    ok: bool
    reason: str


class Watchdog:
    """Looks at the engine from time to time; all times are seconds of one steady clock."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._answered = -1
        self._engine: Progress | None = None
        self._still_since: float | None = None
        self._dead_since: float | None = None

    def moved(self, *, running: int, answered: int) -> bool:
        """Whether the requests alone show work, so that the engine's own figures needn't be read.

        Args:
            running: requests that wait for an answer or for the rest of one.
            answered: events sent and answers completed since the process began.
        """
        return running == 0 or answered != self._answered

    def observe(self, now: float, *, running: int, answered: int, engine: Progress | None) -> None:
        """Take in one look.

        Args:
            now: the time of the look.
            running: as in `moved`.
            answered: as in `moved`.
            engine: the engine's own figures; None = not read or not readable.
        """
        moved = self.moved(running=running, answered=answered)
        # Without an earlier reading to compare with, nothing is known to have stood still.
        if moved or engine is None or engine != self._engine:
            self._still_since = now if running else None
        self._engine = None if moved else engine
        self._answered = answered

    def observe_health(self, now: float, *, alive: bool) -> None:
        """Take in the engine's own word on whether it is alive."""
        if alive:
            self._dead_since = None
        elif self._dead_since is None:
            self._dead_since = now

    def verdict(self, now: float) -> Verdict:
        """Alive, unless nothing moved, or the engine called itself dead, for the limit."""
        if self._dead_since is not None and now - self._dead_since >= self._limit:
            return Verdict(False, f"the engine has said for {now - self._dead_since:.0f} s that it is dead")
        if self._still_since is not None and now - self._still_since >= self._limit:
            still = now - self._still_since
            return Verdict(False, f"requests run, but neither tokens nor scheduler moved for {still:.0f} s")
        return Verdict(True, "no request stands still")
