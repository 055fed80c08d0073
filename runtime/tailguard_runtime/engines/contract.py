"""The contract that every engine adapter fulfils: plain data in, Kubernetes fragments out, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tailguard_runtime.engines.metrics import MetricNames
from tailguard_runtime.engines.problems import ArgProblem

CONTAINER_NAME = "engine"
SERVING_PORT = 8000
PROBE_PORT = 9901

Fragment = Mapping[str, Any]
"""A piece of a Kubernetes object, made of dicts, lists and scalars."""


@dataclass(frozen=True)
class EngineInput:
    """What a revision says about its server, with its engine profile resolved."""

    service: str
    """Name of the InferenceService; the served name unless that is given."""
    model_uri: str
    image: str
    guard_image: str
    """Image that holds `tailguard_runtime`; an init container copies the guard out of it."""
    version: str = ""
    """Engine version of the profile, such as `0.32.0`; empty = unknown."""
    model_revision: str = ""
    served_name: str = ""
    command: tuple[str, ...] = ()
    """The profile's command; empty = the adapter's own."""
    profile_args: tuple[str, ...] = ()
    """The profile's flags; a flag in `args` replaces the one of the same name."""
    args: tuple[str, ...] = ()
    """The user's flags, checked before."""
    env: tuple[Fragment, ...] = ()
    """The profile's variables, as entries of a container's `env`."""
    resources: Fragment = field(default_factory=dict)
    python: str = "python3"
    """Interpreter in the engine's image, for the preStop hook and the fetching of a model."""
    model_bytes: int | None = None
    """Size of the weights, None = not known."""
    longest_request_seconds: int = 120
    """How long a request may run; a drain waits for it."""


@dataclass(frozen=True)
class EngineRendering:
    """The engine's share of a pod, as fragments to be put into a pod template."""

    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: tuple[Fragment, ...]
    ports: tuple[Fragment, ...]
    startup_probe: Fragment
    readiness_probe: Fragment
    liveness_probe: Fragment
    lifecycle: Fragment
    termination_grace_seconds: int
    volumes: tuple[Fragment, ...]
    volume_mounts: tuple[Fragment, ...]
    init_containers: tuple[Fragment, ...]
    resources: Fragment
    served_name: str
    model_path: str
    """Path of the weights in the engine's container."""
    startup_seconds: int
    """How long the startup probe gives the engine."""
    memory_volume_bytes: int
    """Upper bound of the volumes that live in memory; it counts against the pod's memory."""
    manifest: Mapping[str, str]
    """The settings that go with every result (R-093, R-171, R-172, R-175)."""
    warnings: tuple[ArgProblem, ...]

    def container(self) -> dict[str, Any]:
        """The container named `engine`."""
        return {
            "name": CONTAINER_NAME,
            "image": self.image,
            "command": list(self.command),
            "args": list(self.args),
            "env": [dict(entry) for entry in self.env],
            "ports": [dict(port) for port in self.ports],
            "resources": dict(self.resources),
            "startupProbe": dict(self.startup_probe),
            "readinessProbe": dict(self.readiness_probe),
            "livenessProbe": dict(self.liveness_probe),
            "lifecycle": dict(self.lifecycle),
            "volumeMounts": [dict(mount) for mount in self.volume_mounts],
        }

    def pod_spec(self) -> dict[str, Any]:
        """A pod's spec without what other parts add: labels, affinity, security context.

        Service links are off: a Service named `vllm` would set VLLM_PORT to a URI, which stops vLLM. The containers
        share their process namespace: as process 1 of its own, an engine that is still importing has no handler for
        SIGTERM, so the kernel would drop it, and a pod that is deleted while it starts would last its whole grace
        period.
        """
        return {
            "shareProcessNamespace": True,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": self.termination_grace_seconds,
            "initContainers": [dict(container) for container in self.init_containers],
            "containers": [self.container()],
            "volumes": [dict(volume) for volume in self.volumes],
        }


class EngineAdapter(Protocol):
    """One engine, so that operator and benchmark treat all alike (R-072)."""

    @property
    def engine_type(self) -> str:
        """The value of `spec.engine.type`."""
        ...

    def check(self, args: Sequence[str], version: str, *, field: str = "spec.engine.args") -> list[ArgProblem]:
        """Everything that is wrong with a user's flags for this version."""
        ...

    def render(self, request: EngineInput) -> EngineRendering:
        """The engine's share of a pod; a pure function of its input.

        Raises:
            ModelUriError: the model's address can't be used.
        """
        ...

    def manifest(self, request: EngineInput) -> dict[str, str]:
        """The settings that go with every result."""
        ...

    def context_length(self, args: Sequence[str], model_config: Mapping[str, Any] | None = None) -> int | None:
        """Tokens of prompt and answer together; None where only the running engine knows."""
        ...

    def startup_seconds(self, model_bytes: int | None) -> int:
        """How long a start may take before it counts as failed."""
        ...

    def metric_names(self) -> MetricNames:
        """The engine's metrics under all names that its versions give them."""
        ...
