"""What the user sees: one line a step with its seconds, and a failure that shows its log."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

TAIL_LINES = 15


class ClusterError(RuntimeError):
    """A step failed; `log` is the failing component's log, shown to the user."""

    def __init__(self, message: str, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """The last lines of a log."""
    return "\n".join(text.splitlines()[-lines:])


def explain(error: ClusterError) -> str:
    """The message of a failure followed by the last lines of the component's log."""
    if error.log is None or not error.log.exists():
        return str(error)
    return f"{error}\n--- last lines of {error.log}\n{tail(error.log.read_text(errors='replace'))}"


def say(text: str) -> None:
    """One line of progress, at once."""
    print(text, flush=True)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Show a step when it ends, with its seconds; a failed one is shown as failed."""
    started = time.monotonic()
    if sys.stdout.isatty():
        print(f"  ...      {title}", end="\r", flush=True)
    try:
        yield
    except BaseException:
        say(f"  failed   {title} ({time.monotonic() - started:.1f} s)")
        raise
    say(f"  {time.monotonic() - started:6.1f} s {title}")


def call(
    command: Sequence[str | Path],
    log: Path | None = None,
    *,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a command to its end and give its standard output.

    Raises:
        ClusterError: it ended with another code than 0, or does not exist; names the command and its last lines.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=cwd, check=False)
    except OSError as error:
        raise ClusterError(f"cannot run {words[0]}: {error.strerror}") from error
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as out:
            out.write(f"$ {' '.join(words)}\n{done.stdout}{done.stderr}")
    if done.returncode:
        said = tail(done.stderr or done.stdout)
        raise ClusterError(f"{' '.join(words[:6])} ended with {done.returncode}:\n{said}", None)
    return done.stdout
