"""What an environment manifest says about an engine, and what differs between two of them.

It goes with every result: a comparison is fair only when all that differs is what the revision changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailguard_runtime.engines.arguments import Use, read_arguments
from tailguard_runtime.engines.flags import FlagTable

CHOSEN_AT_START = "engine default"
"""A value that the engine picks by device and model."""

_RECORDED = (
    "max_model_len", "max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill", "block_size",
    "long_prefill_token_threshold", "scheduling_policy", "async_scheduling", "stream_interval",
    "enable_prefix_caching", "kv_cache_dtype", "kv_cache_memory_bytes", "gpu_memory_utilization",
    "dtype", "quantization", "load_format", "trust_remote_code", "seed",
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "enable_expert_parallel",
    "attention_backend", "moe_backend", "linear_backend", "speculative_config", "enable_lora",
    "compilation_config", "optimization_level", "performance_mode", "enforce_eager",
)  # fmt: skip
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD")
# Names, addresses and housekeeping: they don't change what the engine computes.
_LEFT_OUT = ("--model", "--revision", "--served-model-name", "--host", "--port", "--middleware")


@dataclass(frozen=True)
class Difference:
    """One entry of two manifests that isn't the same; empty = the entry is missing."""

    name: str
    canary: str
    twin: str


@dataclass(frozen=True)
class ManifestComparison:
    """What differs between the arms of a comparison."""

    declared: tuple[Difference, ...]
    """Changed by the revision under test; listed with the verdict."""
    undeclared: tuple[Difference, ...]
    """Changed by nobody's word; the comparison is refused."""

    @property
    def comparable(self) -> bool:
        """Whether a verdict may be given."""
        return not self.undeclared


def compare_manifests(
    canary: Mapping[str, str], twin: Mapping[str, str], declared: Collection[str]
) -> ManifestComparison:
    """Sort the differences of two manifests by whether the revision declares them.

    Args:
        canary: manifest of the one arm.
        twin: manifest of the other.
        declared: names of the entries that the revision under test changes.
    """
    names = sorted(n for n in canary.keys() | twin.keys() if canary.get(n) != twin.get(n))
    differences = [Difference(n, canary.get(n, ""), twin.get(n, "")) for n in names]
    return ManifestComparison(
        declared=tuple(d for d in differences if d.name in declared),
        undeclared=tuple(d for d in differences if d.name not in declared),
    )


def engine_settings(args: Sequence[str], table: FlagTable) -> dict[str, str]:
    """The effective settings of a command line: what was given, else the version's default.

    Every setting that shapes latency is there by name even when it wasn't given; others only when given.
    """
    settings = {
        name: table.flag(name).default or CHOSEN_AT_START
        for name in _RECORDED
        if "--" + name.replace("_", "-") in table.by_name
    }
    for use in read_arguments(args, table):
        if use.written and not (use.flag and use.flag.name in _LEFT_OUT):
            settings[_setting(use)] = use.text
    settings["compile_state"] = _compile_state(settings)
    return settings


def environment_settings(env: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The container's variables; of a secret one only that it is set, or where it comes from."""
    return {f"env.{entry['name']}": _shown(entry) for entry in env}


def _shown(entry: Mapping[str, Any]) -> str:
    if "valueFrom" in entry:
        return "from " + json.dumps(entry["valueFrom"], sort_keys=True)
    return "set, not shown" if _SECRET.search(entry["name"]) else str(entry.get("value", ""))


def _setting(use: Use) -> str:
    name = use.flag.setting if use.flag else use.written.lstrip("-").replace("-", "_")
    return f"{name}.{use.path}" if use.path else name


def _compile_state(settings: Mapping[str, str]) -> str:
    if settings.get("enforce_eager") == "True":
        return "eager"
    mode = settings.get("compilation_config.mode") or _mode_in_json(settings.get("compilation_config", ""))
    level = settings.get("optimization_level", CHOSEN_AT_START)
    return "eager" if "0" in (mode, level) else f"compiled, mode {mode or CHOSEN_AT_START}, level {level}"


def _mode_in_json(text: str) -> str:
    try:
        mode = json.loads(text).get("mode")
    except (ValueError, AttributeError):
        return ""
    return "" if mode is None else str(mode)
