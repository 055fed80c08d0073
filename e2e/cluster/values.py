"""Helm values that fit charts/tailguard to this cluster: images without content, programs from the host's folders."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .engine import architectures
from .images import USER, VLLM_CACHE
from .layout import PYTHON_IMAGE, REPOSITORY, VLLM_VERSION, Cores

PROFILE = "vllm-cpu"
MODELS = Path("/models")
SOURCE_FOLDERS = ("operator", "runtime", "kernels")
CONTEXT = 256
CONCURRENT = 8
# The generator shares its core with the whole control plane.
GATE = {"latenessMilliseconds": 30, "loopLagMilliseconds": 60, "ratePercent": 3}
TASKSET = "/usr/bin/taskset"

# Measured: a pod is charged 1.42 to 1.58 GiB, and all of its KV cache, 256 MB, may not have been touched yet.
ENGINE_MEMORY = "1700Mi"


@dataclass(frozen=True)
class Mount:
    """A host folder that pods see read-only, by default under its own path."""

    source: Path
    target: Path


def same(path: Path) -> Mount:
    return Mount(path, path)


def outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths that lie under none of the others, in order: a mount below another one is not needed."""
    unique = sorted(set(paths))
    return [path for path in unique if not any(other in path.parents for other in unique)]


def system_folders() -> list[Path]:
    """`/usr`, and what older hosts keep beside it instead of as links into it."""
    beside = [Path("/", name) for name in ("bin", "lib", "lib64", "sbin")]
    return [Path("/usr"), *(path for path in beside if path.is_dir() and not path.is_symlink())]


def base_prefix(python: Path) -> Path:
    """Where the interpreter behind a virtual environment has its standard library."""
    code = "import sys; print(sys.base_prefix)"
    return Path(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip())


def environment_folders(python: Path) -> list[Path]:
    """All that the interpreter of a virtual environment needs."""
    return outermost([*system_folders(), python.parent.parent, base_prefix(python)])


@dataclass(frozen=True)
class HostFolders:
    """Mounts of one kind of container; the prefix keeps two kinds in one pod apart."""

    prefix: str
    mounts: Sequence[Mount]

    def volumes(self) -> list[dict[str, Any]]:
        """The pod's side."""
        return [
            {"name": f"{self.prefix}-{index}", "hostPath": {"path": str(mount.source), "type": "Directory"}}
            for index, mount in enumerate(self.mounts)
        ]

    def volume_mounts(self) -> list[dict[str, Any]]:
        """The container's side."""
        return [
            {"name": f"{self.prefix}-{index}", "mountPath": str(mount.target), "readOnly": True}
            for index, mount in enumerate(self.mounts)
        ]


def environment(values: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def engine_profile(python: Path, folders: HostFolders, core: int) -> dict[str, Any]:
    """Profile `vllm-cpu`: every engine on one core, without a CPU limit, which would throttle it.

    `--max-num-seqs` is low on purpose: lowering it further really harms.
    """
    return {
        "type": "VLLM",
        "version": VLLM_VERSION,
        "image": PYTHON_IMAGE,
        "python": str(python),
        "command": [TASKSET, "-c", str(core), str(python), "-m", "vllm.entrypoints.openai.api_server"],
        "args": [
            "--enforce-eager",
            "--dtype=float32",
            f"--max-model-len={CONTEXT}",
            f"--max-num-seqs={CONCURRENT}",
            "--kv-cache-memory-bytes=256M",
        ],
        "env": environment({
            "OMP_NUM_THREADS": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            # The engine's worker in the engine's own process: one import of torch less at every start.
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CACHE_ROOT": VLLM_CACHE,
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }),
        "resources": {"requests": {"cpu": "100m", "memory": ENGINE_MEMORY}},
        "template": {
            "spec": {
                "volumes": folders.volumes(),
                "containers": [{"name": "engine", "volumeMounts": folders.volume_mounts()}],
            }
        },
    }  # fmt: skip


def runtime_overlays(python: Path, folders: HostFolders) -> dict[str, Any]:
    """What benchmark Jobs, and the init container that copies the guard, need to find Python and the checkout."""
    path = {"PATH": f"{python.parent}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    container = {"volumeMounts": folders.volume_mounts(), "env": environment(path)}
    volumes = folders.volumes()
    return {
        "jobTemplate": {"spec": {"volumes": volumes, "containers": [{"name": "benchmark", **container}]}},
        "guardTemplate": {"spec": {"volumes": volumes, "initContainers": [{"name": "guard", **container}]}},
        "gate": GATE,
    }


def helm_values(dev_python: Path, engine_python: Path, models: Mapping[str, Path], cores: Cores) -> dict[str, Any]:
    """Values for charts/tailguard: the project's own pods run from the checkout, engines from the cache.

    Args:
        dev_python: interpreter of the environment in which the project is installed in editable form.
        engine_python: interpreter of the environment that has vLLM.
        models: host folders of the models, seen by engines as `/models/NAME`.
        cores: which core engines run on, and which all else.
    """
    sources = [REPOSITORY / name for name in SOURCE_FOLDERS]
    own = [same(path) for path in outermost([*environment_folders(dev_python), *sources])]
    engine_folders = [
        *(same(path) for path in environment_folders(engine_python)),
        *(Mount(folder, MODELS / name) for name, folder in models.items()),
        Mount(architectures(engine_python), Path(VLLM_CACHE, "modelinfos")),
    ]
    tailguard = HostFolders("tailguard", own)
    return {
        "image": PYTHON_IMAGE,
        "command": [TASKSET, "-c", str(cores.others), str(dev_python)],
        "env": environment({"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}),
        "volumes": tailguard.volumes(),
        "volumeMounts": tailguard.volume_mounts(),
        "podSecurityContext": {"runAsUser": USER, "runAsGroup": USER},
        "runtime": runtime_overlays(dev_python, tailguard),
        "defaultProfile": PROFILE,
        "engines": {PROFILE: engine_profile(engine_python, HostFolders("engine", engine_folders), cores.engines)},
    }
