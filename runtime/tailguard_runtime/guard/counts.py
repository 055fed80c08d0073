"""The counts of all serving processes of the pod, read from their ring files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tailguard_runtime.guard import ring as r
from tailguard_runtime.guard.process import is_alive
from tailguard_runtime.guard.ring import Ring

_WORDS = {
    "started": r.STARTED,
    "running": r.RUNNING,
    "waiting": r.WAITING,
    "finished": r.FINISHED_COUNT,
    "clientErrors": r.CLIENT_ERRORS,
    "failed": r.FAILED_COUNT,
    "disconnected": r.DISCONNECTED_COUNT,
    "refused": r.REFUSED,
    "chunks": r.CHUNKS,
    "tokens": r.TOKENS,
}
# Samples of a crashed server are evidence, so its ring outlives it for a while.
_DEAD_RINGS_KEPT = 4


class Counts:
    """Rings lie in the shared directory as `ring-PID-STARTTIME`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._opened: dict[str, Ring] = {}

    def create_own(self, name: str, capacity: int) -> Ring:
        """Make the ring of this process, and remove the oldest ones of dead processes."""
        dead = sorted((n for n in self._names() if not is_alive(n)), key=self._modified)
        for old in dead[:-_DEAD_RINGS_KEPT]:
            self._path(old).unlink(missing_ok=True)
        return Ring.create(self._path(name), capacity)

    def rings(self) -> Mapping[str, Ring]:
        """Every readable ring by its process, the dead ones too."""
        names = self._names()
        for name in names - self._opened.keys():
            if (ring := Ring.open(self._path(name))) is not None:
                self._opened[name] = ring
        for name in self._opened.keys() - names:
            del self._opened[name]
        return dict(sorted(self._opened.items()))

    def alive(self) -> Mapping[str, Ring]:
        """The rings of the processes that still run."""
        return {name: ring for name, ring in self.rings().items() if is_alive(name)}

    def totals(self) -> dict[str, int]:
        """Each count summed over the processes that still run."""
        rings = self.alive().values()
        return {name: sum(ring.words[word] for ring in rings) for name, word in _WORDS.items()}

    def last_activity(self) -> float:
        """When a request last began or ended, or a process started, on the machine's steady clock."""
        return max((ring.times[r.LAST_ACTIVITY] for ring in self.alive().values()), default=0.0)

    def _names(self) -> set[str]:
        return {path.name.removeprefix("ring-") for path in self._directory.glob("ring-*")}

    def _path(self, name: str) -> Path:
        return self._directory / f"ring-{name}"

    def _modified(self, name: str) -> float:
        try:
            return self._path(name).stat().st_mtime
        except FileNotFoundError:
            return 0.0
