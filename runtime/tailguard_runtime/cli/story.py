"""What a service's status tells, in sentences: what serves, what became of the last change, and what can be done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Object = Mapping[str, Any]

UNMEASURED = frozenset({"Starting", "Held", "Rejected", "Aborted"})
"""States in which a change without a Benchmark was never measured."""
WITHOUT_BASELINE = frozenset({"BaselineMissing", "BaselineUnavailable"})
"""Reasons of a change that nothing can be said about, because there is no baseline."""
_WAYS_ON = {
    "Held": "decide: `tailguard promote {0}` takes it as it is, `abort {0}` ends it, `retry {0}` measures it again",
    "Rejected": "`tailguard retry {0}` tries it again; another spec, or the stable one, does so by itself",
    "Aborted": "`tailguard retry {0}` tries it again; another spec, or the stable one, does so by itself",
    "Kept": "`tailguard promote {0}` ends the time in which the previous revision is kept",
}


def story(service: Object) -> Iterator[str]:
    """A line for each thing worth knowing."""
    status, name = service.get("status") or {}, service["metadata"]["name"]
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    yield f"{name}: {_told(conditions.get('Ready')) or 'the operator has not looked at it yet'}"
    if stalled := _told(conditions.get("Stalled")):
        yield f"stalled: {stalled}"
    if stable := status.get("stable"):
        p99 = f", P99 {status['p99']} in its last benchmark" if status.get("p99") else ""
        yield f"stable revision {stable['revision']} since {stable.get('since', '?')}{p99}"
    if within := _told(conditions.get("WithinSLO")):
        yield f"objectives: {within}"
    yield from _baseline(status)
    yield from _change(status.get("rollout") or {}, name)


def measured_by(service: Object) -> str | None:
    """The Benchmark that the present or last change was judged by; for one that was not, the freeze under way."""
    status = service.get("status") or {}
    name = (status.get("rollout") or {}).get("benchmark") or (status.get("freeze") or {}).get("benchmark")
    return str(name) if name else None


def without_measurement(service: Object) -> str:
    """Why there is nothing to compare, in a sentence."""
    rollout = (service.get("status") or {}).get("rollout") or {}
    if rollout.get("state") in UNMEASURED:
        return "this change was not measured (yet), so there are no figures; the reason is above"
    return "nothing has been compared yet; the first change will be"


def _baseline(status: Object) -> Iterator[str]:
    freeze, baseline, offset = (status.get(name) or {} for name in ("freeze", "baseline", "offset"))
    if freeze.get("failed"):
        yield f"no new baseline could be frozen: {freeze.get('message')}"
    elif freeze:
        yield f"a baseline is being frozen: {freeze.get('message') or 'the pods start'}"
    if baseline:
        starts = f", identical pods differ by {float(offset['sd']):.1%} ({offset['starts']} starts)" if offset else ""
        yield f"baseline {baseline['name']}{starts}"


def _change(rollout: Object, name: str) -> Iterator[str]:
    if not rollout:
        return
    verdict = f", verdict {rollout['verdict']}" if rollout.get("verdict") else ""
    reason = f" ({rollout['reason']})" if rollout.get("reason") else ""
    yield f"last change: {rollout['state']}{reason}{verdict}. {rollout.get('message') or ''}".rstrip()
    if way_on := _WAYS_ON.get(rollout["state"]):
        yield way_on.format(name)


def _told(condition: Object | None) -> str:
    if condition is None:
        return ""
    return f"{condition['type']}={condition['status']} ({condition['reason']}): {condition['message']}"
