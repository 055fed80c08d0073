"""The adapter of vLLM."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailguard_runtime.engines import pod
from tailguard_runtime.engines.argcheck import check_args
from tailguard_runtime.engines.arguments import read_arguments
from tailguard_runtime.engines.contract import SERVING_PORT, EngineInput, EngineRendering
from tailguard_runtime.engines.flags import FlagTable, flag_table, latest_flag_table
from tailguard_runtime.engines.manifest import engine_settings, environment_settings
from tailguard_runtime.engines.metrics import VLLM_METRICS, MetricNames
from tailguard_runtime.engines.model_uri import ModelSource, parse_model_uri
from tailguard_runtime.engines.problems import ArgProblem, Severity

COMMAND = ("python3", "-m", "vllm.entrypoints.openai.api_server")
MIDDLEWARE = "tailguard_runtime.guard.middleware.GuardMiddleware"

# Loads of 10 to 17 minutes are reported from the field (vllm#45551), and vLLM's own limit of 600 s is then
# too short: https://github.com/vllm-project/vllm/issues/45551.
STARTUP_BASE_SECONDS = 600
LOAD_BYTES_A_SECOND = 100 * 10**6
STARTUP_UNKNOWN_SECONDS = 3600

# vLLM's own buckets start at 10 ms between tokens and 300 ms for queue and prefill, too coarse for a P99.
HISTOGRAM_BUCKETS = {
    "inter_token_latency": [
        0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.007, 0.008, 0.01, 0.012, 0.015, 0.02, 0.025, 0.03, 0.04,
        0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0,
    ],
    "time_to_first_token": [
        0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0,
        5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    ],
    "request_latency": [
        0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0,
        15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0,
    ],
}  # fmt: skip

_CONTEXT_KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length",
    "model_max_length", "max_seq_length",
)  # fmt: skip
_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_SUFFIXES = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class VllmAdapter:
    """vLLM's OpenAI server, with the guard as its middleware."""

    @property
    def engine_type(self) -> str:
        """The value of `spec.engine.type`."""
        return "VLLM"

    def check(self, args: Sequence[str], version: str, *, field: str = "spec.engine.args") -> list[ArgProblem]:
        """Everything that is wrong with a user's flags for this version."""
        table = flag_table(version)
        if table is not None:
            return check_args(args, table, field=field)
        latest = latest_flag_table()
        return [_no_table(version, latest), *check_args(args, latest, field=field, names_only=True)]

    def render(self, request: EngineInput) -> EngineRendering:
        """The engine's share of a pod.

        Raises:
            ModelUriError: the model's address can't be used.
        """
        source = parse_model_uri(request.model_uri, request.model_revision)
        served_name = request.served_name or request.service
        path = pod.model_path(source)
        shutdown = pod.Shutdown(request.longest_request_seconds)
        seconds = self.startup_seconds(request.model_bytes)
        flags = _merged_args(request)
        shared_memory = pod.SHARED_MEMORY_BYTES_A_WORKER * _workers(flags, _table(request.version))
        return EngineRendering(
            image=request.image,
            command=request.command or COMMAND,
            args=(*_own_args(path, served_name, shutdown), *flags),
            env=_environment(request, served_name, seconds),
            ports=pod.ports(),
            startup_probe=pod.startup_probe(seconds),
            readiness_probe=pod.readiness_probe(),
            liveness_probe=pod.liveness_probe(),
            lifecycle=shutdown.lifecycle(request.python),
            termination_grace_seconds=shutdown.grace,
            volumes=pod.volumes(source, shared_memory),
            volume_mounts=pod.volume_mounts(source),
            init_containers=pod.init_containers(request, source),
            resources=request.resources,
            served_name=served_name,
            model_path=path,
            startup_seconds=seconds,
            memory_volume_bytes=shared_memory + pod.STATE_BYTES,
            manifest=self.manifest(request),
            warnings=tuple(_unpinned(source)),
        )

    def manifest(self, request: EngineInput) -> dict[str, str]:
        """The settings that go with every result (R-093, R-171, R-172, R-175)."""
        return {
            "engine": self.engine_type,
            "engine_version": request.version or "unknown",
            "image": request.image,
            "model": request.model_uri,
            "model_revision": request.model_revision or "default branch",
            **engine_settings(_merged_args(request), _table(request.version)),
            **environment_settings(request.env),
        }

    def context_length(self, args: Sequence[str], model_config: Mapping[str, Any] | None = None) -> int | None:
        """`--max-model-len`, else what the model's config.json says; None where neither tells.

        Args:
            args: the merged flags.
            model_config: content of the model's config.json, if it was read.
        """
        for use in reversed(read_arguments(args, latest_flag_table())):
            if use.flag is not None and use.flag.name == "--max-model-len":
                given = _count(use.text)
                return given if given is not None and given > 0 else _context_of(model_config or {})
        return _context_of(model_config or {})

    def startup_seconds(self, model_bytes: int | None) -> int:
        """Ten minutes for compilation and warm-up, and the load at 100 MB/s; an hour for an unknown size."""
        if model_bytes is None:
            return STARTUP_UNKNOWN_SECONDS
        return STARTUP_BASE_SECONDS + -(-model_bytes // LOAD_BYTES_A_SECOND)

    def metric_names(self) -> MetricNames:
        """The metrics of vLLM under their present and former names."""
        return VLLM_METRICS


def _table(version: str) -> FlagTable:
    return flag_table(version) or latest_flag_table()


def _own_args(path: str, served_name: str, shutdown: pod.Shutdown) -> tuple[str, ...]:
    return (
        f"--model={path}",
        f"--served-model-name={served_name}",
        "--host=0.0.0.0",
        f"--port={SERVING_PORT}",
        f"--middleware={MIDDLEWARE}",
        f"--shutdown-timeout={shutdown.engine}",
        f"--custom-histogram-buckets={json.dumps(HISTOGRAM_BUCKETS, separators=(',', ':'))}",
    )


def _merged_args(request: EngineInput) -> tuple[str, ...]:
    """The profile's flags without those that the user sets, then the user's."""
    table = _table(request.version)
    user = {use.key for use in read_arguments(request.args, table)}
    whole = {key.partition(".")[0] for key in user}
    kept: list[str] = []
    for use in read_arguments(request.profile_args, table):
        replaced = use.key in user or (not use.path and use.key in whole) or use.key.partition(".")[0] in user
        if not replaced:
            kept.extend(use.tokens)
    return (*kept, *request.args)


def _environment(request: EngineInput, served_name: str, startup_seconds: int) -> tuple[Mapping[str, Any], ...]:
    defaults = {
        **pod.cache_environment(),
        "VLLM_CACHE_ROOT": f"{pod.CACHE_PATH}/vllm",
        "VLLM_CONFIG_ROOT": f"{pod.CACHE_PATH}/config/vllm",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_ENGINE_READY_TIMEOUT_S": str(startup_seconds),
        # The model lies on a volume, and an answer must not depend on a hub that may be away.
        "HF_HUB_OFFLINE": "1",
        # A sidecar that forwards must not hide a connection's own address from the guard.
        "FORWARDED_ALLOW_IPS": "",
    }
    return pod.merge_environment(pod.guard_environment(served_name), defaults, request.env)


def _workers(args: Sequence[str], table: FlagTable) -> int:
    sizes = {"--tensor-parallel-size": 1, "--pipeline-parallel-size": 1, "--data-parallel-size": 1}
    for use in read_arguments(args, table):
        if use.flag is not None and use.flag.name in sizes:
            sizes[use.flag.name] = max(1, _count(use.text) or 1)
    workers = 1
    for size in sizes.values():
        workers *= size
    return workers


def _count(text: str) -> int | None:
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)([kKmMgGtT]?)", text)
    if match is None:
        return None
    return int(float(match[1]) * (_SUFFIXES | _BINARY_SUFFIXES)[match[2]])


def _context_of(config: Mapping[str, Any]) -> int | None:
    for candidate in (config, config.get("text_config") or {}):
        for key in _CONTEXT_KEYS:
            if isinstance(candidate.get(key), int):
                return int(candidate[key])
    return None


def _no_table(version: str, latest: FlagTable) -> ArgProblem:
    return ArgProblem(
        Severity.WARNING,
        "spec.engine.profile",
        version or "unknown version",
        "has no flag table, so only names are checked",
        f"vLLM {latest.version} for a full check",
        "Read the engine's own log if it doesn't start.",
    )


def _unpinned(source: ModelSource) -> list[ArgProblem]:
    if source.pinned:
        return []
    return [
        ArgProblem(
            Severity.WARNING,
            "spec.model.revision",
            source.revision,
            "can mean other weights tomorrow",
            "a commit of 40 hex digits",
            "Pin the commit so that a verdict stays about these weights.",
        )
    ]
