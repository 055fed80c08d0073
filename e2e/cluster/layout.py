"""Names, addresses and folders of the local cluster: everything else refers to these."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "1.34.4"
HELM_VERSION = "3.19.5"
VLLM_VERSION = "0.32.0"

CLUSTER_NAME = "tailguard-local"
NODE = "tailguard-node"

# RFC 2544 keeps 198.18.0.0/15 for benchmarks: no real network uses it, so a pod can reach nothing else.
NODE_ADDRESS = "198.18.255.1"
POD_CIDR = "198.18.0.0/24"
SERVICE_CIDR = "198.19.0.0/16"
CLUSTER_CIDR = "198.18.0.0/15"
API_SERVICE_ADDRESS = "198.19.0.1"
DNS_ADDRESS = "198.19.0.10"
HOST_ADDRESS = "198.18.254.1/30"
INSIDE_ADDRESS = "198.18.254.2"
HOST_LINK = "tailguard0"
INSIDE_LINK = "tailguard1"
API_SERVER = f"https://{NODE_ADDRESS}:6443"

PAUSE_IMAGE = "local/pause:1"
PYTHON_IMAGE = "local/host-python:dev"

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent


def cache_folder() -> Path:
    """Folder for builds that outlive the checkout: TAILGUARD_CACHE, else XDG_CACHE_HOME, else ~/.cache."""
    if own := os.environ.get("TAILGUARD_CACHE"):
        return Path(own).resolve()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").resolve() / "tailguard"


@dataclass(frozen=True)
class State:
    """The folder that holds one cluster's whole state."""

    root: Path = REPOSITORY / "build" / "cluster"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def values(self) -> Path:
        return self.root / "values.yaml"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def containerd_socket(self) -> Path:
        return self.run / "containerd.sock"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"


@dataclass(frozen=True)
class Cores:
    """Which cores run the engines and which all else, so that a measured engine shares its core with nobody."""

    engines: int
    others: int

    @classmethod
    def of(cls, usable: set[int]) -> Cores:
        """The two lowest usable cores; a machine with one core shares it.

        Raises:
            ValueError: no core is usable.
        """
        if not usable:
            raise ValueError("no usable core: the set of usable cores is empty")
        lowest = sorted(usable)
        return cls(engines=lowest[1] if len(lowest) > 1 else lowest[0], others=lowest[0])
