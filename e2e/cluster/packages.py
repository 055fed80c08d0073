"""Programs that come from the machine's own packages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from .progress import ClusterError, call, step

CNI_PLUGINS = Path("/usr/lib/cni")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# A package is installed only if its program is missing: the user's own containerd, of whatever origin, stays.
PACKAGE_OF = {
    "etcd": "etcd-server",
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ethtool": "ethtool",
    "ip": "iproute2",
    "openssl": "openssl",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "taskset": "util-linux",
    "gcc": "gcc",
    f"{CNI_PLUGINS}/bridge": "containernetworking-plugins",
    "/usr/lib/x86_64-linux-gnu/libc.a": "libc6-dev",
}


def present(program: str) -> bool:
    """Whether a program is on the system's path, or a file given by its full path exists."""
    if program.startswith("/"):
        return Path(program).exists()
    return shutil.which(program, path=SYSTEM_PATH) is not None


def missing(programs: Iterable[str], has: Callable[[str], bool]) -> list[str]:
    """The packages to install, each once, in the order of the table."""
    return list(dict.fromkeys(PACKAGE_OF[name] for name in programs if not has(name)))


def ensure_packages() -> None:
    """Install the packages whose programs are missing.

    Raises:
        ClusterError: not root, no apt, or apt failed; names the packages to install by hand.
    """
    wanted = missing(PACKAGE_OF, present)
    if not wanted:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ClusterError(
            f"missing programs; install these packages (or what they are called here): {' '.join(wanted)}"
        )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with step(f"system packages: {', '.join(wanted)}"):
        call(["apt-get", "update", "-qq"], env=environment)
        call(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted], env=environment)
