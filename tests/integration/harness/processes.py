"""Child processes that never outlive the tests, with their logs."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TAIL_LINES = 40


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on, all different."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log; a missing one is empty."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""


class Child:
    """A process in its own group, killed by the kernel when its starter dies, even by SIGKILL."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None):
        self.name, self.log = name, log
        words = ["setpriv", "--pdeathsig", "KILL", "--", *map(str, command)]
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, start_new_session=True
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def check(self) -> None:
        """Fail with the log's last lines when the process has ended."""
        if not self.alive:
            code = self._process.returncode
            raise RuntimeError(f"{self.name} ended with {code}; last lines of {self.log}:\n{tail(self.log)}")

    def kill(self) -> None:
        """End the process and its children at once; no error when it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
