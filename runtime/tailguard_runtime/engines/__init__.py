"""Engines: flags, probes, drain, metric names and pod fragments of each model server. Pure, no I/O."""

from __future__ import annotations

from tailguard_runtime.engines.argcheck import check_args
from tailguard_runtime.engines.contract import (
    CONTAINER_NAME,
    PROBE_PORT,
    SERVING_PORT,
    EngineAdapter,
    EngineInput,
    EngineRendering,
)
from tailguard_runtime.engines.flags import FlagTable, flag_table, latest_flag_table
from tailguard_runtime.engines.manifest import Difference, ManifestComparison, compare_manifests
from tailguard_runtime.engines.metrics import Exposition, Metric, MetricNames, parse_exposition
from tailguard_runtime.engines.model_uri import ModelSource, ModelUriError, parse_model_uri
from tailguard_runtime.engines.problems import ArgProblem, Severity, errors
from tailguard_runtime.engines.vllm import VllmAdapter

__all__ = [
    "CONTAINER_NAME",
    "PROBE_PORT",
    "SERVING_PORT",
    "ArgProblem",
    "Difference",
    "EngineAdapter",
    "EngineInput",
    "EngineRendering",
    "Exposition",
    "FlagTable",
    "ManifestComparison",
    "Metric",
    "MetricNames",
    "ModelSource",
    "ModelUriError",
    "Severity",
    "UnknownEngineError",
    "adapter_for",
    "check_args",
    "compare_manifests",
    "errors",
    "flag_table",
    "latest_flag_table",
    "parse_exposition",
    "parse_model_uri",
]

_ADAPTERS: dict[str, EngineAdapter] = {"VLLM": VllmAdapter()}


class UnknownEngineError(ValueError):
    """`spec.engine.type` names an engine that has no adapter."""


def adapter_for(engine_type: str) -> EngineAdapter:
    """The adapter of `spec.engine.type`.

    Raises:
        UnknownEngineError: there is none; the message names those that exist.
    """
    adapter = _ADAPTERS.get(engine_type)
    if adapter is None:
        known = ", ".join(sorted(_ADAPTERS))
        raise UnknownEngineError(
            f"spec.engine.type: {engine_type!r} has no adapter; allowed: {known}. Use one of these."
        )
    return adapter
