"""Reading of an engine's Prometheus metrics under whatever name its version gives them.

Absent is None and never 0: a renamed metric must not look like an idle engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\d+)?$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Metric(StrEnum):
    """What Tailguard asks of every engine."""

    REQUESTS_RUNNING = "requestsRunning"
    REQUESTS_WAITING = "requestsWaiting"
    KV_CACHE_USAGE = "kvCacheUsage"
    """Share of the KV cache in use, 0 to 1."""
    PROMPT_TOKENS = "promptTokens"
    GENERATION_TOKENS = "generationTokens"
    ITERATIONS = "iterations"
    PREFIX_CACHE_QUERIES = "prefixCacheQueries"
    """In tokens, as the hits."""
    PREFIX_CACHE_HITS = "prefixCacheHits"
    PREEMPTIONS = "preemptions"
    REJECTIONS = "rejections"
    """Requests turned away by an admission limit."""


@dataclass(frozen=True)
class Series:
    """One line of an exposition."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Exposition:
    """A scrape: all series by metric name."""

    series: Mapping[str, tuple[Series, ...]]

    def total(self, name: str) -> float | None:
        """Sum over all label sets, None when the metric isn't exported."""
        found = self.series.get(name)
        return None if found is None else sum(series.value for series in found)


@dataclass(frozen=True)
class MetricNames:
    """For each metric its names, the newest first."""

    names: Mapping[Metric, tuple[str, ...]]

    def read(self, exposition: Exposition, metric: Metric) -> float | None:
        """The metric summed over its label sets; None when this engine exports it under no known name."""
        totals = (exposition.total(name) for name in self.names.get(metric, ()))
        return next((total for total in totals if total is not None), None)


def parse_exposition(text: str) -> Exposition:
    """Read Prometheus text; lines that aren't samples are skipped.

    Labels with the value "undefined" (TensorRT-LLM up to 1.2) are left out.
    """
    series: dict[str, list[Series]] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is not None:
            labels = {k: v for k, v in _LABEL.findall(match[2] or "") if v != "undefined"}
            series.setdefault(match[1], []).append(Series(labels, float(match[3])))
    return Exposition({name: tuple(found) for name, found in series.items()})


VLLM_METRICS = MetricNames(
    {
        Metric.REQUESTS_RUNNING: ("vllm:num_requests_running",),
        Metric.REQUESTS_WAITING: ("vllm:num_requests_waiting",),
        Metric.KV_CACHE_USAGE: ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        Metric.PROMPT_TOKENS: ("vllm:prompt_tokens_total",),
        Metric.GENERATION_TOKENS: ("vllm:generation_tokens_total",),
        # A histogram despite its name, so its count is the number of steps that gave output.
        Metric.ITERATIONS: ("vllm:iteration_tokens_total_count",),
        Metric.PREFIX_CACHE_QUERIES: (
            "vllm:prefix_cache_queries_total",
            "vllm:gpu_prefix_cache_queries_total",
        ),
        Metric.PREFIX_CACHE_HITS: ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        Metric.PREEMPTIONS: ("vllm:num_preemptions_total",),
        Metric.REJECTIONS: ("vllm:admission_rejections_total",),
    }
)
