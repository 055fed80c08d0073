"""The three probes of a pod, from the engine, the counts and the shared orders."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tailguard_runtime.guard.control import Control
from tailguard_runtime.guard.counts import Counts
from tailguard_runtime.guard.engine import Engine
from tailguard_runtime.guard.patience import within
from tailguard_runtime.guard.settings import Settings
from tailguard_runtime.guard.watchdog import Verdict, Watchdog

# A probe answers within the kubelet's timeout, whatever the engine does.
_PATIENCE_SECONDS = 3.0


class Probes:
    """Startup, readiness and liveness; times come from `clock` (seconds, never going back)."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        counts: Counts,
        control: Control,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._counts = counts
        self._control = control
        self._clock = clock
        self._watchdog = Watchdog(settings.stall_seconds)
        self._start: asyncio.Task[str] | None = None
        self._generation: asyncio.Task[str] | None = None
        self._generations = 0
        self._proven_at = clock()
        self.started = False

    @property
    def generating(self) -> bool:
        """Whether a generation of the guard's own is in flight."""
        return self._generation is not None and not self._generation.done()

    async def startup(self) -> Verdict:
        """True for ever once the port offers our model and one generation went well."""
        if not self.started:
            task = self._start = self._start or asyncio.get_running_loop().create_task(self._prove_start())
            await asyncio.wait([task], timeout=_PATIENCE_SECONDS)
            if not task.done():
                return Verdict(False, "the first generation is running")
            self._start = None
            if reason := task.result():
                return Verdict(False, reason)
            self.started = True
        return Verdict(True, "a generation went well")

    async def ready(self) -> Verdict:
        """Engine alive and not draining; never generates, so a busy engine keeps its endpoint."""
        if self._control.draining:
            return Verdict(False, "draining")
        if not await self._is_alive():
            return Verdict(False, "the engine's /health doesn't answer 200")
        working = self._watchdog.verdict(self._clock())
        return working if not working.ok else Verdict(True, "the engine is alive")

    async def live(self) -> Verdict:
        """False only when the engine hangs, or has called itself dead, for the limit."""
        running, answered = self._work()
        figures = None
        if not self._watchdog.moved(running=running, answered=answered):
            figures = await within(_PATIENCE_SECONDS, self._engine.progress())
        now = self._clock()
        self._watchdog.observe(now, running=running, answered=answered, engine=figures)
        self._watchdog.observe_health(now, alive=await self._is_alive())
        if running == 0:
            self._prove_when_idle(now)
        return self._watchdog.verdict(now)

    async def silence(self) -> bool:
        """Wait until no generation of the guard's own is in flight; False when one goes on."""
        if self._generation is not None:
            await asyncio.wait([self._generation], timeout=_PATIENCE_SECONDS + 2.0)
        return not self.generating

    def _work(self) -> tuple[int, int]:
        totals = self._counts.totals()
        answered = totals["chunks"] + totals["finished"] + self._generations
        return totals["running"] + int(self.generating), answered

    async def _is_alive(self) -> bool:
        return bool(await within(_PATIENCE_SECONDS, self._engine.is_alive()))

    async def _prove_start(self) -> str:
        if not await self._is_alive():
            return "the engine's /health doesn't answer 200"
        return await self._engine.serves() or await self._start_generation()

    def _prove_when_idle(self, now: float) -> None:
        rested = now - max(self._proven_at, self._counts.last_activity())
        if rested >= self._settings.idle_seconds and not self._control.quiet_for and not self._control.refusing:
            self._start_generation()

    def _start_generation(self) -> asyncio.Task[str]:
        self._generation = asyncio.get_running_loop().create_task(self._generate())
        return self._generation

    async def _generate(self) -> str:
        reason = await self._engine.generate()
        self._proven_at = self._clock()
        if not reason:
            self._generations += 1
        return reason
