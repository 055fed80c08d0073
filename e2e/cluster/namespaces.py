"""The set of namespaces that holds the whole cluster: its handle, its network, and what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .layout import (
    HOST_ADDRESS,
    HOST_LINK,
    INSIDE_ADDRESS,
    INSIDE_LINK,
    NODE_ADDRESS,
    POD_CIDR,
    SERVICE_CIDR,
    SOURCES,
    State,
)
from .packages import SYSTEM_PATH
from .progress import ClusterError, call

INIT = SOURCES / "init.sh"
KUBELET_CGROUP = "tailguard-local"
CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids", "systemd")
# kubelet sets these three for the whole machine; they are put back when the cluster goes.
KUBELET_SYSCTLS = ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory")


@dataclass(frozen=True)
class Handle:
    """A living cluster: `outer` is unshare (killing it ends everything), `inner` its first process inside."""

    outer: int
    inner: int


def wait_until(condition: Callable[[], bool], seconds: float, what: str, log: Path | None = None) -> None:
    """Poll ten times a second.

    Raises:
        ClusterError: it did not become true in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {seconds:.0f} s", log)
        time.sleep(0.1)


def arguments_of(pid: int) -> list[str]:
    """A process's command line; empty if it is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def outer_processes() -> Iterator[tuple[int, str]]:
    """Every handle on this machine with its state folder, found by its command line.

    A remembered process number may mean another process after a reboot or a crash; a command line doesn't.
    """
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            words = arguments_of(int(entry.name))
            scripts = [i for i, word in enumerate(words) if word.endswith("e2e/cluster/init.sh")]
            if scripts and Path(words[0]).name == "unshare":
                yield int(entry.name), words[scripts[0] + 1]


def children(pid: int) -> list[int]:
    """The direct children of a process; none if it is gone."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def find(state: State) -> Handle | None:
    """The living handle of this state folder, if there is one."""
    for pid, folder in outer_processes():
        inside = children(pid)
        if folder == str(state.root) and inside:
            return Handle(pid, inside[0])
    return None


def refuse_foreign(state: State) -> None:
    """The addresses are fixed, so one machine holds one such cluster.

    Raises:
        ClusterError: a cluster with another state folder lives; says which and what to do.
    """
    for _, folder in outer_processes():
        if folder != str(state.root):
            raise ClusterError(
                f"a local cluster of another checkout runs, with its state in {folder}: end it there first "
                "with `make cluster-down`"
            )


def network_namespace(pid: int) -> str:
    """Identity of a process's network namespace; empty if it is gone."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def create(state: State, core: int) -> Handle:
    """Start the namespaces, pinned to a core, and connect them to the host by a veth pair and three routes."""
    save_sysctls(state)
    make_cgroups()
    log = state.log("namespaces")
    command = ["taskset", "-c", str(core), "unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork",
               "--kill-child", "--mount-proc", "bash", str(INIT), str(state.root), INSIDE_LINK, INSIDE_ADDRESS,
               NODE_ADDRESS, SERVICE_CIDR]  # fmt: skip
    with log.open("ab") as out:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", start_new_session=True)
    own = network_namespace(os.getpid())

    def separate() -> bool:
        handle = find(state)
        return handle is not None and network_namespace(handle.inner) not in ("", own)

    wait_until(separate, 10, "the namespaces", log)
    handle = find(state)
    if handle is None:
        raise ClusterError("the namespaces ended at once", log)
    connect(handle)
    wait_until((state.run / "namespaces-ready").exists, 10, "the network inside the namespaces", log)
    return handle


def connect(handle: Handle) -> None:
    """Put one end of a veth pair inside, and route the cluster's three networks through it."""
    call(["ip", "link", "add", HOST_LINK, "type", "veth", "peer", "name", INSIDE_LINK, "netns", str(handle.inner)])
    call(["ip", "address", "add", HOST_ADDRESS, "dev", HOST_LINK])
    call(["ip", "link", "set", HOST_LINK, "up"])
    for network in (POD_CIDR, SERVICE_CIDR, f"{NODE_ADDRESS}/32"):
        call(["ip", "route", "add", network, "via", INSIDE_ADDRESS])


def start(handle: Handle, state: State, component: str, command: list[str]) -> subprocess.Popen[bytes]:
    """Start a daemon inside; it inherits the core, writes to its own log, and ends with the namespaces."""
    inside = ["nsenter", "--target", str(handle.inner), "--mount", "--net", "--pid", "--ipc", "--uts", "--"]
    affinity = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(handle.inner))))]
    environment = {"PATH": SYSTEM_PATH, "HOME": str(state.run), "KUBECONFIG": str(state.kubeconfig)}
    with state.log(component).open("ab") as out:
        return subprocess.Popen(
            [*affinity, *inside, *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd="/",
            env=environment,
            start_new_session=True,
        )


def end(state: State) -> bool:
    """Kill the handle of this state folder and wait until everything in it is gone; False if none lived."""
    handle = find(state)
    stray = [pid for pid, folder in outer_processes() if folder == str(state.root)]
    for pid in stray:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if handle is not None:
        # The first process of a PID namespace is gone only after every other one in it.
        wait_until(lambda: not Path(f"/proc/{handle.inner}").exists(), 30, "the end of the cluster's processes")
    subprocess.run(["ip", "link", "delete", HOST_LINK], capture_output=True, check=False)
    wait_until(lambda: not link_exists(), 10, f"the removal of {HOST_LINK}")
    return bool(stray)


def link_exists() -> bool:
    """Whether the host's end of the veth pair is there; it goes with the namespaces, a little after them."""
    return subprocess.run(["ip", "link", "show", HOST_LINK], capture_output=True, check=False).returncode == 0


def wipe(state: State) -> None:
    """Remove all that an ended cluster leaves: cgroups, changed sysctls, the state folder."""
    remove_cgroups()
    restore_sysctls(state)
    if state.root.exists():
        # One file system: should a mount be left after all, the host's files under it stay.
        call(["rm", "-rf", "--one-file-system", str(state.root)])


def boot_id() -> str:
    """Changes at every start of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def sysctl_file(state: State) -> Path:
    """Where the sysctls from before the cluster are kept: outside of what a new start wipes."""
    return state.root.with_name(state.root.name + "-sysctls.json")


def save_sysctls(state: State) -> None:
    """Remember kubelet's sysctls once a boot: after a crash they already hold kubelet's values."""
    kept = sysctl_file(state)
    if kept.exists() and json.loads(kept.read_text())["boot"] == boot_id():
        return
    values = {name: Path("/proc/sys", name).read_text().strip() for name in KUBELET_SYSCTLS}
    kept.write_text(json.dumps({"boot": boot_id(), "values": values}))


def restore_sysctls(state: State) -> None:
    """Put back what was saved in this boot."""
    kept = sysctl_file(state)
    if not kept.exists():
        return
    saved = json.loads(kept.read_text())
    if saved["boot"] == boot_id():
        for name, value in saved["values"].items():
            Path("/proc/sys", name).write_text(value)
    kept.unlink()


def make_cgroups() -> None:
    """Make a cgroup in every hierarchy of version 1, or in the one of version 2, as kubelet's root.

    Without a root of its own it would rewrite the limits of another kubelet's pods.
    """
    hierarchies = [CGROUPS] if (CGROUPS / "cgroup.controllers").exists() else [CGROUPS / name for name in CONTROLLERS]
    for hierarchy in hierarchies:
        if hierarchy.is_dir():
            (hierarchy / KUBELET_CGROUP).mkdir(exist_ok=True)


def remove_cgroups() -> None:
    """Remove the empty cgroups, the deepest first; runc makes one more where both versions are mounted."""
    for top in [CGROUPS / KUBELET_CGROUP, *CGROUPS.glob(f"*/{KUBELET_CGROUP}")]:
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
