"""Identity of a serving process that survives the reuse of process numbers."""

from __future__ import annotations

import os
from pathlib import Path


def process_name(pid: int | None = None) -> str | None:
    """`PID-STARTTIME` of a process (own by default), None when no such process lives.

    The start time is field 22 of /proc/PID/stat, in clock ticks since the machine booted.
    """
    pid = os.getpid() if pid is None else pid
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command may hold spaces and brackets, so fields are counted after the last bracket.
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else f"{pid}-{fields[18]}"


def is_alive(name: str) -> bool:
    """Whether the process that once had this name still runs."""
    pid = name.partition("-")[0]
    return pid.isdigit() and process_name(int(pid)) == name
