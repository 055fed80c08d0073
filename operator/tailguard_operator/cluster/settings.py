"""How one operator process is run."""

import os
import socket
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tailguard_operator.cluster.leader import LeaseSettings
from tailguard_operator.resources.profile import Installation


def new_identity() -> str:
    """A name that no other process has, for the Lease."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True)
class Settings:
    """All that `main.run` needs to know."""

    installation: Installation
    lease: LeaseSettings
    namespace: str | None = None
    """The one namespace to look after; None: all."""
    kubeconfig: Path | None = None
    context: str | None = None
    identity: str = field(default_factory=new_identity)
    """Name in the Lease. It must be unique among living processes; a process that takes over its own name (a restarted
    container) need not wait for the Lease to run out."""
    workers: int = 8
    host: str = "0.0.0.0"
    health_port: int = 8080
    """0: any free port."""
    metrics_port: int = 9090
    hub: str = "https://huggingface.co"


def read_installation(path: Path) -> Installation:
    """The installation file that the chart mounts.

    Raises:
        OSError: it cannot be read.
        InvalidObject: naming every field that is wrong.
    """
    return Installation.parse(yaml.safe_load(path.read_text()), "installation")
