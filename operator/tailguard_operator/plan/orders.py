"""Benchmarks, Jobs and Baselines as they should be: names, seeds, budgets and what the judge is asked."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tailguard_operator.api.base import timestamp
from tailguard_operator.api.benchmark import Arm, Arms, BenchmarkSpec, Purpose, WorkloadSource
from tailguard_operator.plan.decision import BaselineOrder, BenchmarkOrder, JobOrder, PodTarget
from tailguard_operator.plan.settings import Settings
from tailguard_operator.plan.turn import Turn
from tailguard_operator.plan.world import BaselineView, BenchmarkView, PodView, PoolKey

FREEZE_SLOTS = 10
"""Valid slots of an A/A start: 500 requests an arm at the default size."""
FREEZE_SLOT_LIMIT = 20
"""Slots after which a freeze is given up, void ones included."""
DEFAULT_OFFSET_SD_MILLIONTHS = 40_000
"""s while fewer than four A/A starts are known (judge-designs: identical pods differ by 2 to 4 %)."""


def benchmark_name(turn: Turn, revision: str) -> str:
    """Name of the next Benchmark."""
    return f"{turn.world.name}-{revision}-b{turn.status.benchmarks + 1}"


def baseline_key(revision: str, settings: Settings, environment: Mapping[str, str]) -> str:
    """What a Baseline is valid for: revision, workload, classes, and the environment that it is measured in."""
    rollout = settings.rollout.benchmark
    parts = {
        "revision": revision,
        "workload": settings.workload.hash,
        "load": [rollout.rate_per_second, rollout.slot.requests, rollout.slot.min_seconds],
        "metrics": settings.metrics(),
        "classes": settings.classes(),
        "environment": dict(environment),
    }
    return _digest(parts)[:16]


def order_benchmark(
    turn: Turn,
    name: str,
    purpose: Purpose,
    pair: tuple[PoolKey, PoolKey],
    settings: Settings,
    *,
    confirms: str | None = None,
) -> BenchmarkOrder:
    """The Benchmark of `pair` under `settings`."""
    frozen, thresholds = _yardstick(turn, purpose, confirms)
    canary, twin = (Arm(revision=key.revision, role=key.role, slot=key.slot) for key in pair)
    spec = BenchmarkSpec(
        service=turn.world.name,
        purpose=purpose,
        arms=Arms(canary=canary, twin=twin),
        confirms=confirms,
        baseline=frozen,
        workload=WorkloadSource(config_map=settings.workload.config_map, hash=settings.workload.hash),
        rate_per_second=settings.rollout.benchmark.rate_per_second,
        slot=settings.rollout.benchmark.slot,
        seed=int(hashlib.sha256(f"{turn.world.uid}/{name}".encode()).hexdigest()[:7], 16),
        judge=judge_spec(turn, settings, purpose, thresholds),
        objectives=settings.objectives() or None,
        environment=dict(turn.world.environment) or None,
    )
    return BenchmarkOrder(name, spec.to_object())


def _yardstick(turn: Turn, purpose: Purpose, confirms: str | None) -> tuple[str | None, dict[str, Any]]:
    """Name and thresholds of the Baseline; a confirmation keeps those of the suspicion that it checks."""
    if purpose == Purpose.BASELINE:
        return None, {}
    if suspicion := turn.world.benchmark(confirms):
        return suspicion.spec.get("baseline"), dict(suspicion.spec["judge"]["thresholdsMicroseconds"])
    baseline = current_baseline(turn)
    return (baseline.name, dict(baseline.spec["thresholds"])) if baseline else (None, {})


def judge_spec(turn: Turn, settings: Settings, purpose: Purpose, thresholds: Mapping[str, Any]) -> dict[str, Any]:
    """The judge's specification. Its budget holds the one extension; planning grants it only once a rollout."""
    rollout = settings.rollout
    offset = turn.status.offset
    size = rollout.benchmark.slot.requests
    budget = 2 * rollout.benchmark.budget.requests
    spent = turn.status.rollout.spent_requests if turn.status.rollout and purpose != Purpose.BASELINE else 0
    return {
        "metrics": settings.metrics(),
        "classes": settings.classes(),
        "tolerance": rollout.tolerance,
        "proof": rollout.proof.to_object(),
        "errorRates": rollout.error_rates.to_object(),
        "slotRequests": size,
        "maxRequests": FREEZE_SLOT_LIMIT * 2 * size if purpose == Purpose.BASELINE else budget,
        "spentRequests": spent,
        "offsetSdMillionths": round(float(offset.sd) * 1e6) if offset else DEFAULT_OFFSET_SD_MILLIONTHS,
        "offsetStarts": offset.starts if offset else 0,
        "thresholdsMicroseconds": dict(thresholds),
    }


def slots_left(turn: Turn, settings: Settings, view: BenchmarkView) -> int:
    """Slots that the budget still pays for, stored ones included (the Job counts from slot 0)."""
    if view.spec["purpose"] == Purpose.BASELINE:
        return FREEZE_SLOT_LIMIT
    budget = settings.rollout.benchmark.budget.requests * (2 if turn.rollout.extended else 1)
    return (budget - turn.rollout.spent_requests) // (2 * settings.rollout.benchmark.slot.requests)


def order_job(view: BenchmarkView, number: int, canary: PodView, twin: PodView, max_slots: int) -> JobOrder:
    """Job `number`, which goes on where the one before stopped.

    A Job counts stored numbers, and every earlier Job may have taken one of them for its manifest.
    """
    freezes = view.spec["purpose"] == Purpose.BASELINE
    valid = view.evidence.slots - view.evidence.void_slots
    return JobOrder(
        benchmark=view.name,
        benchmark_uid=view.uid,
        number=number,
        start_slot=view.evidence.slots,
        max_slots=max_slots + number,
        valid_slots=max(FREEZE_SLOTS - valid, 1) if freezes else None,
        spec=view.spec,
        canary=PodTarget(canary.name, canary.ip, canary.pool.revision),
        twin=PodTarget(twin.name, twin.ip, twin.pool.revision),
    )


def current_baseline(turn: Turn) -> BaselineView | None:
    """The Baseline in force; None when there is none or when it has gone."""
    ref = turn.status.baseline
    return next((b for b in turn.world.baselines if ref and b.name == ref.name), None)


def order_baseline(turn: Turn, view: BenchmarkView, revision: str, spec_hash: str, key: str, how: str) -> BaselineOrder:
    """The Baseline that a decided Benchmark's samples make, named by the hash of its content."""
    frozen: Mapping[str, Any] = view.evidence.frozen or {}
    spec = {
        "service": turn.world.name,
        "revision": revision,
        "specHash": spec_hash,
        "key": key,
        "workloadHash": view.spec["workload"]["hash"],
        "environment": dict(view.spec.get("environment") or {}),
        "calibration": how,
        "quantiles": list(frozen["quantiles"]),
        "thresholds": dict(frozen["thresholds"]),
        "samples": {
            "benchmark": view.name,
            "slots": frozen["slots"],
            "sha256": list(view.evidence.sha256[: frozen["slots"]]),
        },
        "frozenAt": timestamp(view.evidence.last_at or view.created),
    }
    if frozen.get("offsets"):
        spec["offsets"] = list(frozen["offsets"])
    return BaselineOrder(f"{turn.world.name}-{_digest(spec)[:10]}", spec)


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
