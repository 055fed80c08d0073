"""`tailguard explain`: the verdict in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table

from tailguard_runtime.cli import plot, words
from tailguard_runtime.judge import Estimate, JudgeSpec, Metric, Slot, Verdict, decode_slot, judge

Object = Mapping[str, Any]


def chosen_benchmark(service: Object) -> str | None:
    """The Benchmark that the service's last or present change was judged by."""
    status = service.get("status") or {}
    rollout = status.get("rollout") or {}
    name = rollout.get("benchmark") or (status.get("freeze") or {}).get("benchmark")
    return str(name) if name else None


def headline(service: Object) -> str:
    """What the service does now, in a sentence or two."""
    status = service.get("status") or {}
    rollout, stable = status.get("rollout") or {}, status.get("stable") or {}
    lines = [f"[bold]{service['metadata']['name']}[/bold]: {_condition(service, 'Ready')}"]
    if stable:
        lines.append(f"stable revision {stable['revision']} since {stable.get('since', '?')}")
    if rollout:
        verdict = f", verdict {rollout['verdict']}" if rollout.get("verdict") else ""
        lines.append(f"last change: {rollout['state']}{verdict}. {rollout.get('message') or ''}")
    return "\n".join(lines)


def explanation(benchmark: Object, slots: list[bytes]) -> RenderableType:
    """The verdict on a Benchmark, recomputed from its stored samples: words, figures, plots."""
    spec = JudgeSpec.from_json(benchmark["spec"]["judge"])
    decoded = [decode_slot(data) for data in slots]
    verdict = judge(decoded, spec)
    parts: list[RenderableType] = [
        f"\n[bold]Benchmark {benchmark['metadata']['name']}[/bold] ({benchmark['spec']['purpose']}): "
        f"[bold]{verdict.outcome}[/bold], {verdict.reason}",
        verdict.message,
        *([verdict.claim] if verdict.claim and verdict.claim not in verdict.message else []),
        f"{verdict.slots} slots, {verdict.void_slots} void, {verdict.requests} requests to both arms; "
        f"an alarm needs evidence of {words.evidence(spec.alarm_threshold)}, "
        f"a promotion {words.evidence(spec.promote_threshold)} for every claim",
        _table(verdict, spec),
        *[f"- {note}" for note in verdict.notes],
        *_voids(decoded),
        plot.quantiles(decoded, _drifted(verdict, spec)),
        plot.trail(verdict, spec.alarm_threshold),
    ]
    return Group(*parts)


def show(console: Console, service: Object, benchmark: Object | None, slots: list[bytes]) -> None:
    """Print all of it."""
    console.print(headline(service))
    if benchmark is not None and slots:
        console.print(explanation(benchmark, slots))


def _table(verdict: Verdict, spec: JudgeSpec) -> Table:
    table = Table()
    for name in ("metric", "statistic"):
        table.add_column(name)
    for name in ("canary", "twin", "ratio", f"{spec.interval_percent} % interval", "evidence of drift", "of proof"):
        table.add_column(name, justify="right")
    for estimate in verdict.estimates:
        table.add_row(*_cells(estimate))
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
        words.evidence(e.e_promote),
    )


def _drifted(verdict: Verdict, spec: JudgeSpec) -> Metric:
    """The metric with the strongest evidence of drift, for the plot."""
    judged = [e for e in verdict.estimates if e.metric]
    return Metric(max(judged, key=lambda e: e.e_alarm).metric) if judged else spec.metrics[0]


def _voids(slots: list[Slot]) -> list[str]:
    return [f"- slot {slot.number} is void: {slot.void}" for slot in slots if slot.void][:10]


def _condition(service: Object, type_: str) -> str:
    conditions = (service.get("status") or {}).get("conditions") or []
    found = next((c for c in conditions if c["type"] == type_), None)
    return (
        f"{type_}={found['status']} ({found['reason']}): {found['message']}" if found else f"{type_} is not known yet"
    )
