"""Build results that outlive the checkout, one folder for each hash of what they were made from."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .progress import step

KEEP_UNUSED_DAYS = 14
MARKER = ".complete"


def fingerprint(parts: Iterable[str | bytes | Path]) -> str:
    """Twelve hex digits over texts and file contents; order and boundaries count."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part
        data = content.encode() if isinstance(content, str) else content
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()[:12]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, so that two runs never build the same entry."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def cached(base: Path, name: str, key: str, title: str, build: Callable[[Path], None]) -> Path:
    """The folder `base/name-key`, built on first use; a build that ended half way is thrown away.

    Args:
        base: the cache folder.
        name: what is built; entries of the same name that nobody used for two weeks are removed.
        key: hash of everything the result depends on.
        title: the progress line while it is built.
        build: fills the empty folder it is given; built in place, because virtual environments hold their path.
    """
    entry = base / f"{name}-{key}"
    with locked(base / f"{name}.lock"):
        if not (entry / MARKER).exists():
            shutil.rmtree(entry, ignore_errors=True)
            entry.mkdir(parents=True)
            with step(title):
                build(entry)
        (entry / MARKER).touch()
        prune(base, name, keep=entry, now=time.time())
    return entry


def prune(base: Path, name: str, keep: Path, now: float) -> None:
    """Remove the other entries of this name whose marker is older than KEEP_UNUSED_DAYS."""
    for marker in base.glob(f"{name}-*/{MARKER}"):
        idle_days = (now - marker.stat().st_mtime) / 86400
        if marker.parent != keep and idle_days > KEEP_UNUSED_DAYS:
            shutil.rmtree(marker.parent, ignore_errors=True)
