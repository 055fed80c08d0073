"""Kills the API server of a living cluster and starts it again: what a crash of the control plane looks like."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from . import config, namespaces
from .cluster import Kubectl, Starting
from .layout import State
from .progress import ClusterError

GONE_SECONDS = 10


def restart_api_server(state: State) -> None:
    """Kill the API server at once, start it with its own command, and wait until it answers.

    Raises:
        ClusterError: no such cluster lives, no API server runs in it, or the new one does not answer.
    """
    handle = namespaces.find(state)
    if handle is None:
        raise ClusterError("no local cluster runs; start one with `make cluster-up`")
    programs = (state.bin / "kubectl").resolve().parent
    daemon = config.api_server(state, programs)
    kill(handle, daemon)
    starting = Starting(state, handle)
    starting.start(daemon)
    kubectl = Kubectl(state, programs)
    starting.wait(daemon.name, lambda: kubectl.succeeds("get", "--raw", "/readyz"), "the API server")


def kill(handle: namespaces.Handle, daemon: config.Daemon) -> None:
    """End a daemon without a chance to tidy up, and wait until it is gone.

    Raises:
        ClusterError: it does not run.
    """
    pid = find(handle, daemon)
    if pid is None:
        raise ClusterError(f"{daemon.name} does not run")
    os.kill(pid, signal.SIGKILL)
    namespaces.wait_until(lambda: not namespaces.arguments_of(pid), GONE_SECONDS, f"the end of {daemon.name}")


def find(handle: namespaces.Handle, daemon: config.Daemon) -> int | None:
    """The process of a daemon, by its command line and its PID namespace; None if it does not run."""
    inside = process_namespace(handle.inner)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and namespaces.arguments_of(int(entry.name)) == daemon.command:
            pid = int(entry.name)
            if process_namespace(pid) == inside:
                return pid
    return None


def process_namespace(pid: int) -> str:
    """Identity of the PID namespace that a process lives in; empty if it is gone."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""
