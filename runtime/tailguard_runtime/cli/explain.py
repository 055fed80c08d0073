"""`tailguard explain`: the verdict in words and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tailguard_runtime.cli import plot, words
from tailguard_runtime.cli.record import Record
from tailguard_runtime.judge import Estimate, JudgeSpec, Metric, Slot, Verdict, judge

Object = Mapping[str, Any]
_MOST_VOIDS = 10


def explanation(benchmark: Object, record: Record) -> RenderableType:
    """The verdict on a Benchmark, recomputed from its stored samples: words, figures, plots.

    Raises:
        SampleFormatError, SpecError: something stored can't be read.
    """
    spec = JudgeSpec.from_json(benchmark["spec"]["judge"])
    stored = record.decoded()
    verdict = judge(stored, spec)
    slots = stored[: verdict.slots]
    name, purpose = benchmark["metadata"]["name"], benchmark["spec"]["purpose"]
    return Group(
        f"\n[bold]Benchmark {escape(name)}[/bold] ({_PURPOSES.get(purpose, purpose)})",
        f"[bold]{verdict.outcome}[/bold] ({verdict.reason}): {escape(verdict.message)}",
        *([escape(verdict.claim)] if verdict.claim and verdict.claim not in verdict.message else []),
        f"{verdict.slots} slots, {verdict.void_slots} void, {verdict.requests} requests to both arms. An alarm needs "
        f"evidence of {words.evidence(spec.alarm_threshold)} for one of the rows, a promotion "
        f"{words.evidence(spec.promote_threshold)} for every claim.",
        _table(verdict, spec),
        *[escape(f"- {note}") for note in verdict.notes],
        *[escape(line) for line in _voids(slots)],
        plot.quantiles(slots, _drifted(verdict, spec)),
        plot.trail(verdict, spec.alarm_threshold),
    )


_PURPOSES = {
    "Baseline": "two pods of the same revision",
    "Canary": "the change against the stable revision",
    "Confirm": "a suspicion, checked on a fresh pair of pods",
}


def _table(verdict: Verdict, spec: JudgeSpec) -> Table:
    table = Table(box=None, padding=(0, 1))
    for name in ("METRIC", "STATISTIC"):
        table.add_column(name, no_wrap=True)
    for name in ("CANARY", "TWIN", "RATIO", f"{spec.interval_percent} % INTERVAL", "DRIFT", "PROOF"):
        table.add_column(name, justify="right", no_wrap=True)
    for estimate in verdict.estimates:
        table.add_row(*map(Text, _cells(estimate)))
    return table


def _cells(e: Estimate) -> tuple[str, ...]:
    name = f"{e.metric}" + (f" ({e.request_class})" if e.request_class not in ("", "all") else "")
    value = words.latency if e.metric else words.share
    return (
        name or "all",
        e.statistic,
        value(e.canary_value),
        value(e.twin_value),
        words.ratio(e.ratio),
        words.interval(e.low, e.high),
        words.evidence(e.e_alarm),
        words.evidence(e.e_promote) if e.metric else "",
    )


def _drifted(verdict: Verdict, spec: JudgeSpec) -> Metric:
    """The metric with the strongest evidence of drift, for the plot."""
    judged = [e for e in verdict.estimates if e.metric]
    return Metric(max(judged, key=lambda e: e.e_alarm).metric) if judged else spec.metrics[0]


def _voids(slots: list[Slot]) -> Iterator[str]:
    void = [slot for slot in slots if slot.void]
    yield from (f"- slot {slot.number} is void: {slot.void}" for slot in void[:_MOST_VOIDS])
    if len(void) > _MOST_VOIDS:
        yield f"- and {len(void) - _MOST_VOIDS} more void slots"
