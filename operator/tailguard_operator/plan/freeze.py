"""Freezing the Baseline of the stable revision: an A/A pair, ten valid slots, one A/A start."""

from datetime import timedelta
from typing import Any

from tailguard_operator.api.base import moment, timestamp
from tailguard_operator.api.baseline import Calibration
from tailguard_operator.api.status import BaselineRef, FreezeStatus, State
from tailguard_operator.plan.arms import Arm, ArmState, measured_arm, starting_arm
from tailguard_operator.plan.decision import BaselineOrder
from tailguard_operator.plan.jobs import JOB_LIMIT, job_of, over, why_over
from tailguard_operator.plan.offset import learned_offset
from tailguard_operator.plan.orders import (
    FREEZE_SLOT_LIMIT,
    FREEZE_SLOTS,
    baseline_key,
    benchmark_name,
    current_baseline,
    order_baseline,
)
from tailguard_operator.plan.settings import Settings
from tailguard_operator.plan.slo import observe_objectives, p99
from tailguard_operator.plan.turn import Turn, aa_pair_of, cut, next_pair, pods_are_leaving, serving_of_stable
from tailguard_operator.plan.world import BenchmarkView

RETRY_AFTER = timedelta(minutes=30)
"""A freeze that failed is tried again after this, or when a rollout needs it."""
_BROKEN = frozenset({ArmState.FAILED, ArmState.UNSCHEDULABLE, ArmState.DISRUPTED})
IDLE = frozenset({State.STABLE, State.REJECTED, State.ABORTED})


def freeze(turn: Turn) -> Turn:
    """Starts, advances or ends the freeze. Runs beside a stable revision, or while a rollout waits for it."""
    if turn.status.stable is None or turn.world.problems or turn.world.workload.problem:
        return turn
    current = turn.status.freeze
    if current is None or _retry(turn, current):
        return _begin(turn.update(freeze=None)) if _wanted(turn) else turn
    if current.failed:
        return turn
    return _advance(turn) if _still_wanted(turn, current) else turn.update(freeze=None)


def needed_key(turn: Turn) -> str:
    """The key that a Baseline must have for the next rollout of the present spec."""
    if turn.status.stable is None:
        raise LookupError("no stable revision")
    return baseline_key(turn.status.stable.revision, freeze_settings(turn), turn.world.environment)


def freeze_settings(turn: Turn) -> Settings:
    """A rollout that waits freezes for its own settings, otherwise the spec's are used."""
    stored = turn.rollout.settings if turn.state == State.STARTING else None
    if stored and turn.status.rollout and turn.rollout.spec_hash == turn.world.spec_hash:
        return Settings.from_object(stored, turn.world.workload)
    return Settings.of(turn.world.spec, turn.world.workload)


def baseline_fits(turn: Turn) -> bool:
    """Whether the Baseline in force exists and has the needed key."""
    baseline = current_baseline(turn)
    return baseline is not None and baseline.key == needed_key(turn)


def _wanted(turn: Turn) -> bool:
    ready = any(p.ready for p in turn.world.pods_of(key)) if (key := serving_of_stable(turn.status)) else False
    if not ready:
        return False
    if turn.state == State.STARTING:
        return not baseline_fits(turn)
    baseline = current_baseline(turn)
    fresh = baseline is not None and turn.status.stable and baseline.revision == turn.status.stable.revision
    return turn.state in IDLE and not fresh


def _still_wanted(turn: Turn, current: FreezeStatus) -> bool:
    if turn.state not in IDLE | {State.STARTING}:
        return False
    return current.baseline is not None or current.key == needed_key(turn)


def _retry(turn: Turn, current: FreezeStatus) -> bool:
    return current.failed and turn.now - moment(current.since) > RETRY_AFTER


def _begin(turn: Turn, *, repeated: bool = False) -> Turn:
    room = turn.world.room
    if room.pods < 2 and pods_are_leaving(turn) and not repeated:
        return turn
    if room.pods < 1 and not repeated:
        return _failed(turn, "InsufficientCapacity", f"no room for a pod to freeze the baseline with: {room.shortage}")
    stable = turn.status.stable
    assert stable is not None
    begun = FreezeStatus(
        benchmark=benchmark_name(turn, stable.revision),
        key=needed_key(turn),
        pair=next_pair(turn.status),
        since=timestamp(turn.now),
        single=room.pods < 2 and not repeated,
        repeated=repeated,
        reason="Starting",
        message=f"freezing, 0 of {FREEZE_SLOTS} slots: the A/A pair starts",
    )
    counted = turn.update(freeze=begun, benchmarks=turn.status.benchmarks + 1, pairs=turn.status.pairs + 1)
    return counted.event("FreezingBaseline", f"an A/A pair of revision {stable.revision} is measured")


def _advance(turn: Turn) -> Turn:
    freeze = turn.status.freeze
    assert freeze is not None
    if freeze.baseline:
        return _finish(turn)
    view = turn.world.benchmark(freeze.benchmark)
    return _measure(turn, view) if freeze.canary_pod else _start(turn)


def _start(turn: Turn) -> Turn:
    pair = aa_pair_of(turn.status)
    assert pair is not None
    arms = [starting_arm(turn.world, key, turn.now) for key in pair]
    blocked = next((arm for arm in arms if arm.pod and arm.pod.unschedulable), None)
    if blocked and not _single(turn) and not pods_are_leaving(turn):
        return _narrow(turn, blocked)
    broken = next((arm for arm in arms if arm.state in _BROKEN), None)
    if broken:
        return _failed(turn, broken.reason, broken.message)
    if all(arm.state == ArmState.READY and arm.pod for arm in arms):
        names = [arm.pod.name for arm in arms if arm.pod]
        return _set(turn, canary_pod=names[0], twin_pod=names[1], reason="Measuring")
    return turn


def _single(turn: Turn) -> bool:
    return bool(turn.status.freeze and turn.status.freeze.single)


def _narrow(turn: Turn, arm: Arm) -> Turn:
    """The scheduler has no room for the second pod: one pod is enough for a Baseline without A/A."""
    return _set(turn, single=True, reason="InsufficientCapacity", message=arm.message or "no room for an A/A pair")


def _measure(turn: Turn, view: BenchmarkView | None) -> Turn:
    freeze, pair = turn.status.freeze, aa_pair_of(turn.status)
    assert freeze is not None and pair is not None
    for key, name in zip(pair, (freeze.canary_pod, freeze.twin_pod), strict=True):
        arm = measured_arm(turn.world, key, name)
        if arm.state in (ArmState.FAILED, ArmState.DISRUPTED):
            return _failed(turn, arm.reason, arm.message)
    if view is None:
        return turn
    evidence = view.evidence
    if evidence.broken:
        return _failed(turn, "EvidenceUnreadable", evidence.broken)
    valid = evidence.slots - evidence.void_slots
    if valid >= FREEZE_SLOTS and evidence.frozen is not None:
        return _decide(turn, view)
    if evidence.slots >= FREEZE_SLOT_LIMIT:
        return _failed(turn, "SlotsVoid", f"only {valid} of {evidence.slots} slots were valid: {evidence.message}")
    job = job_of(view, freeze.job)
    if job and over(job, turn.now):
        if freeze.job + 1 >= JOB_LIMIT:
            return _failed(turn, "BenchmarkFailed", why_over(job))
        return _set(turn, job=freeze.job + 1)
    return _set(turn, message=f"freezing, {valid} of {FREEZE_SLOTS} slots")


def _decide(turn: Turn, view: BenchmarkView) -> Turn:
    freeze, stable, frozen = turn.status.freeze, turn.status.stable, view.evidence.frozen
    assert freeze is not None and stable is not None and frozen is not None
    if not freeze.single and "startOffset" in frozen:
        turn = turn.update(offset=learned_offset(turn.status.offset, frozen))
    if frozen.get("alarm") and not freeze.repeated and not freeze.single:
        message = f"identical pods differed by more than the tolerance: {view.evidence.message}; measured once more"
        return _begin(turn.update(freeze=None), repeated=True).event("PodsDiffer", message, warning=True)
    return _set(turn, baseline=frozen_baseline(turn, view).name, message="the Baseline is being written")


def frozen_baseline(turn: Turn, view: BenchmarkView) -> BaselineOrder:
    """The Baseline of a finished freeze."""
    freeze, stable = turn.status.freeze, turn.status.stable
    assert freeze is not None and stable is not None
    how = Calibration.MISSING if freeze.single else Calibration.MEASURED
    return order_baseline(turn, view, stable.revision, stable.spec_hash, freeze.key, how)


def _finish(turn: Turn) -> Turn:
    freeze = turn.status.freeze
    assert freeze is not None
    view = turn.world.benchmark(freeze.benchmark)
    if not any(b.name == freeze.baseline for b in turn.world.baselines) or freeze.baseline is None:
        if view is None or view.evidence.frozen is None:
            return turn.update(freeze=None).event("SamplesLost", f"the samples of {freeze.benchmark} are gone")
        return _set(turn, baseline=frozen_baseline(turn, view).name)
    if view:
        turn = observe_objectives(turn, view, "canary").update(p99=p99(view.evidence) or turn.status.p99)
    done = turn.update(freeze=None, baseline=BaselineRef(name=freeze.baseline, key=freeze.key))
    return done.event("BaselineFrozen", f"Baseline {freeze.baseline} is frozen")


def _failed(turn: Turn, reason: str, message: str) -> Turn:
    if turn.status.freeze is None:
        stable = turn.status.stable
        assert stable is not None
        begun = FreezeStatus(benchmark="", key=needed_key(turn), pair=0, since=timestamp(turn.now))
        turn = turn.update(freeze=begun)
    changed = _set(turn, failed=True, reason=reason, message=message, since=timestamp(turn.now))
    return changed.event("BaselineUnavailable", f"the baseline could not be frozen: {message}", warning=True)


def _set(turn: Turn, **fields: Any) -> Turn:
    freeze = turn.status.freeze
    assert freeze is not None
    return turn.update(freeze=freeze.model_copy(update=cut(fields)))
