"""The parts of a pod that don't depend on the engine: guard, probes, drain, caches, model volume."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailguard_runtime.engines.contract import PROBE_PORT, SERVING_PORT, EngineInput, Fragment
from tailguard_runtime.engines.model_uri import ModelSource

GUARD_PATH = "/tailguard/lib"
STATE_PATH = "/tailguard/state"
CACHE_PATH = "/tailguard/cache"
MODEL_PATH = "/tailguard/model"
SHARED_MEMORY_PATH = "/dev/shm"

STATE_BYTES = 64 * 2**20
SHARED_MEMORY_BYTES_A_WORKER = 2**30

_STARTUP_PERIOD = 2
_DRAIN_MARGIN = 15
_EXIT_MARGIN = 15

_FETCH = (
    "import sys; from huggingface_hub import snapshot_download; "
    "print(snapshot_download(sys.argv[1], revision=sys.argv[2] or None, local_dir=sys.argv[3], "
    "ignore_patterns=['original/**/*']))"
)


@dataclass(frozen=True)
class Shutdown:
    """The bounds of a pod's end, in seconds: preStop, then SIGTERM, then SIGKILL."""

    longest_request: int

    @property
    def prestop(self) -> int:
        """At most so long the hook waits for connections to fall idle."""
        return self.longest_request + _DRAIN_MARGIN

    @property
    def engine(self) -> int:
        """So long the engine lets running requests end after SIGTERM."""
        return self.longest_request

    @property
    def grace(self) -> int:
        """Longer than both together and the engine's own exit (vllm PR #43208 asks for about 10 s more)."""
        return self.prestop + self.engine + _EXIT_MARGIN

    def lifecycle(self, python: str) -> dict[str, Any]:
        """The container's preStop hook."""
        command = [python, "-m", "tailguard_runtime.guard.prestop", "--at-most", str(self.prestop)]
        return {"preStop": {"exec": {"command": command}}}


def startup_probe(seconds: int) -> dict[str, Any]:
    """Gives the engine so many seconds to load and to answer one real generation."""
    return _probe("startup", period=_STARTUP_PERIOD, failures=math.ceil(seconds / _STARTUP_PERIOD), timeout=5)


def readiness_probe() -> dict[str, Any]:
    """Never generates, so a busy engine keeps its endpoint."""
    return _probe("ready", period=2, failures=3, timeout=5)


def liveness_probe() -> dict[str, Any]:
    """Says no only to an engine that hangs; patient with a slow answer, because busy isn't hung."""
    return _probe("live", period=10, failures=4, timeout=10)


def _probe(path: str, *, period: int, failures: int, timeout: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": f"/tailguard/{path}", "port": "tailguard"},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": timeout,
    }


def ports() -> tuple[Fragment, ...]:
    """`http` for users and `tailguard` for probes, which no Service names."""
    return (
        {"name": "http", "containerPort": SERVING_PORT, "protocol": "TCP"},
        {"name": "tailguard", "containerPort": PROBE_PORT, "protocol": "TCP"},
    )


def cache_environment() -> dict[str, str]:
    """Writable places for a user without a home or an entry in /etc/passwd."""
    return {
        "HOME": CACHE_PATH,
        "USER": "tailguard",
        "XDG_CACHE_HOME": f"{CACHE_PATH}/xdg",
        "XDG_CONFIG_HOME": f"{CACHE_PATH}/config",
        "HF_HOME": f"{CACHE_PATH}/huggingface",
        "TORCHINDUCTOR_CACHE_DIR": f"{CACHE_PATH}/inductor",
        "TRITON_CACHE_DIR": f"{CACHE_PATH}/triton",
    }


def guard_environment(served_name: str) -> dict[str, str]:
    """The guard's settings."""
    return {
        "TAILGUARD_STATE_DIR": STATE_PATH,
        "TAILGUARD_PORT": str(PROBE_PORT),
        "TAILGUARD_SERVING_PORT": str(SERVING_PORT),
        "TAILGUARD_SERVED_NAME": served_name,
    }


def merge_environment(
    fixed: Mapping[str, str], defaults: Mapping[str, str], profile: Sequence[Fragment]
) -> tuple[Fragment, ...]:
    """Variables of the container: fixed ones win over the profile, the profile wins over defaults.

    The guard's directory is put before the profile's PYTHONPATH.
    """
    given = {entry["name"]: dict(entry) for entry in profile}
    python_path = given.pop("PYTHONPATH", {}).get("value", "")
    merged: dict[str, Fragment] = {name: {"name": name, "value": value} for name, value in defaults.items()}
    merged |= given
    merged |= {name: {"name": name, "value": value} for name, value in fixed.items()}
    path = ":".join(filter(None, (GUARD_PATH, python_path)))
    merged["PYTHONPATH"] = {"name": "PYTHONPATH", "value": path}
    return tuple(merged.values())


def volumes(source: ModelSource, shared_memory_bytes: int) -> tuple[Fragment, ...]:
    """Guard, state, cache, shared memory, and the model unless it is in the image."""
    found: list[Fragment] = [
        {"name": "guard", "emptyDir": {}},
        {"name": "state", "emptyDir": {"medium": "Memory", "sizeLimit": str(STATE_BYTES)}},
        {"name": "cache", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(shared_memory_bytes)}},
    ]
    if source.scheme == "pvc":
        found.append({"name": "model", "persistentVolumeClaim": {"claimName": source.claim, "readOnly": True}})
    elif source.scheme == "hf":
        found.append({"name": "model", "emptyDir": {}})
    return tuple(found)


def volume_mounts(source: ModelSource) -> tuple[Fragment, ...]:
    """Where the engine's container finds the volumes; code and model are read-only."""
    mounts: list[Fragment] = [
        {"name": "guard", "mountPath": GUARD_PATH, "readOnly": True},
        {"name": "state", "mountPath": STATE_PATH},
        {"name": "cache", "mountPath": CACHE_PATH},
        {"name": "shm", "mountPath": SHARED_MEMORY_PATH},
    ]
    if source.scheme != "file":
        mounts.append({"name": "model", "mountPath": MODEL_PATH, "readOnly": True})
    return tuple(mounts)


def model_path(source: ModelSource) -> str:
    """Path of the weights in the engine's container."""
    if source.scheme == "file":
        return source.path
    return f"{MODEL_PATH}/{source.path}" if source.path else MODEL_PATH


def init_containers(request: EngineInput, source: ModelSource) -> tuple[Fragment, ...]:
    """One copies the guard; with `hf://` another fetches the model, in the engine's own image."""
    guard = {
        "name": "guard",
        "image": request.guard_image,
        "command": ["python3", "-m", "tailguard_runtime.guard.install", GUARD_PATH],
        "volumeMounts": [{"name": "guard", "mountPath": GUARD_PATH}],
    }
    return (guard, _fetch(request, source)) if source.scheme == "hf" else (guard,)


def _fetch(request: EngineInput, source: ModelSource) -> Fragment:
    env = {name: {"name": name, "value": value} for name, value in cache_environment().items()}
    env |= {entry["name"]: dict(entry) for entry in request.env}
    return {
        "name": "fetch-model",
        "image": request.image,
        "command": [request.python, "-c", _FETCH, source.repository, source.revision, MODEL_PATH],
        "env": list(env.values()),
        "volumeMounts": [
            {"name": "model", "mountPath": MODEL_PATH},
            {"name": "cache", "mountPath": CACHE_PATH},
        ],
    }
