"""What a rollout is judged by, copied from the spec when it starts so that later edits count for the next one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailguard_operator.api.base import seconds
from tailguard_operator.api.service import InferenceServiceSpec, Metric, Objective, Rollout, ServiceLevel
from tailguard_operator.plan.world import Workload

LATENCY_METRICS = (Metric.TTFT, Metric.TPOT, Metric.LATENCY)
ALL_REQUESTS = "all"


@dataclass(frozen=True, slots=True)
class Settings:
    """The part of a spec that enters a verdict, and the workload."""

    rollout: Rollout
    slos: tuple[ServiceLevel, ...]
    workload: Workload

    @classmethod
    def of(cls, spec: InferenceServiceSpec, workload: Workload) -> "Settings":
        """The settings of the spec as it is now."""
        return cls(spec.rollout, tuple(spec.slos or ()), workload)

    def to_object(self) -> dict[str, Any]:
        """Plain data for status."""
        return {
            "rollout": self.rollout.to_object(),
            "slos": [level.to_object() for level in self.slos],
            "workload": {"hash": self.workload.hash, "configMap": self.workload.config_map or ""},
        }

    @classmethod
    def from_object(cls, data: Mapping[str, Any], workload: Workload) -> "Settings":
        """The inverse of `to_object`; `workload` is the present content, used while its hash is unchanged."""
        stored = data["workload"]
        kept = Workload(hash=stored["hash"], config_map=stored["configMap"] or None, jsonl=workload.jsonl)
        return cls(
            Rollout.parse(data["rollout"], "status.rollout.settings.rollout"),
            tuple(ServiceLevel.parse(level, "status.rollout.settings.slos") for level in data["slos"]),
            kept,
        )

    def metrics(self) -> list[str]:
        """The latency metrics that are judged: those with an objective, or all three."""
        named = {o.metric for level in self.slos for o in level.objectives}
        return [m.value for m in LATENCY_METRICS if m in named] or [m.value for m in LATENCY_METRICS]

    def classes(self) -> list[dict[str, Any]]:
        """Request classes as the judge's specification writes them."""
        return [_class(level) for level in self.slos] or [{"name": ALL_REQUESTS, "minPromptTokens": 0}]

    def objectives(self) -> list[dict[str, Any]]:
        """Every bound on a latency percentile: requestClass, metric, percentile, maxMicroseconds."""
        return [
            {
                "requestClass": level.name,
                "metric": o.metric.value,
                "percentile": o.percentile,
                "maxMicroseconds": round(seconds(o.max) * 1e6),
            }
            for level in self.slos
            for o in level.objectives
            if o.metric in LATENCY_METRICS and _bounded(o) and o.max is not None
        ]


def _bounded(objective: Objective) -> bool:
    return objective.percentile is not None and objective.max is not None and not objective.max.endswith("%")


def _class(level: ServiceLevel) -> dict[str, Any]:
    tokens = level.when.prompt_tokens if level.when else None
    row: dict[str, Any] = {"name": level.name, "minPromptTokens": (tokens.min if tokens else None) or 0}
    return row | {"maxPromptTokens": tokens.max} if tokens and tokens.max is not None else row
