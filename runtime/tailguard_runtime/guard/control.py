"""Drain, quiet and close: the orders that all serving processes of a pod share.

The orders lie in one memory-mapped file, so reading them costs a few nanoseconds a request. They outlive a
restart of the container (a borrowed pod stays out of the Service); quiet expires by itself.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path

from tailguard_runtime.guard.connections import Peer

MAX_QUIET_SECONDS = 3600.0

_SIZE = 64
_DRAIN, _REFUSE, _CLOSE_ROUND, _QUIET_UNTIL = range(4)


class Control:
    """The shared orders of one pod.

    Args:
        directory: the shared state directory; it is created when missing.
        clock: seconds that never go back and that all processes of the machine share.
    """

    def __init__(self, directory: Path, clock: Callable[[], float] = time.monotonic) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._clock = clock
        self._close_path = directory / "close.json"
        descriptor = os.open(directory / "control", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, _SIZE)
            view = memoryview(mmap.mmap(descriptor, _SIZE))
        finally:
            os.close(descriptor)
        self._words = view.cast("Q")
        self._times = view.cast("d")
        self._seen_round = self._words[_CLOSE_ROUND]
        self._to_close: set[Peer] = set()

    @property
    def draining(self) -> bool:
        """Whether the pod is to lose its traffic."""
        return bool(self._words[_DRAIN])

    @property
    def refusing(self) -> bool:
        """Whether new requests are turned away because the engine is about to stop."""
        return bool(self._words[_REFUSE])

    @property
    def quiet_for(self) -> float:
        """Seconds for which the guard still makes no generation of its own."""
        remaining = self._times[_QUIET_UNTIL] - self._clock()
        # After a reboot of the node the clock starts again, and an old deadline would lie far ahead.
        return remaining if 0.0 < remaining <= MAX_QUIET_SECONDS else 0.0

    def drain(self, *, refuse: bool = False) -> None:
        """Take the pod out of its Service; with refuse, also turn new requests away."""
        self._words[_DRAIN] = 1
        self._words[_REFUSE] = int(refuse)

    def end_drain(self) -> None:
        """Let the pod serve again."""
        self._words[_REFUSE] = 0
        self._words[_DRAIN] = 0

    def quiet(self, seconds: float) -> None:
        """Make no generation for so many seconds; 0 ends it.

        Raises:
            ValueError: seconds outside 0 to 3600.
        """
        if not 0.0 <= seconds <= MAX_QUIET_SECONDS:
            raise ValueError(f"seconds={seconds:g} is not between 0 and {MAX_QUIET_SECONDS:g}")
        self._times[_QUIET_UNTIL] = self._clock() + seconds

    def close(self, peers: set[Peer]) -> None:
        """Ask that the next answer on each of these connections says `Connection: close`."""
        temporary = self._close_path.with_suffix(".new")
        temporary.write_text(json.dumps(sorted(peers)))
        temporary.replace(self._close_path)
        self._words[_CLOSE_ROUND] += 1

    def takes_leave(self, peer: Peer | None) -> bool:
        """Whether the answer that starts now on this connection must be its last."""
        if self._words[_DRAIN]:
            return True
        if self._words[_CLOSE_ROUND] != self._seen_round:
            self._load_round()
        if not self._to_close or peer not in self._to_close:
            return False
        self._to_close.discard(peer)
        return True

    def to_close(self) -> set[Peer]:
        """The connections named by the last close, told or not."""
        try:
            return {(str(host), int(port)) for host, port in json.loads(self._close_path.read_text())}
        except FileNotFoundError:
            return set()

    def _load_round(self) -> None:
        self._seen_round = self._words[_CLOSE_ROUND]
        self._to_close |= self.to_close()
