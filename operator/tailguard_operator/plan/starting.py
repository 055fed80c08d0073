"""Starting: the baseline must be there, then canary and twin start side by side."""

from dataclasses import replace

from tailguard_operator.api.base import moment
from tailguard_operator.api.service import Capacity
from tailguard_operator.api.status import State
from tailguard_operator.plan.arms import Arm, ArmState, deadline_seconds, starting_arm
from tailguard_operator.plan.freeze import baseline_fits
from tailguard_operator.plan.orders import FREEZE_SLOTS, benchmark_name, current_baseline
from tailguard_operator.plan.refuse import close_pair, hold, reject
from tailguard_operator.plan.settings import Settings
from tailguard_operator.plan.switching import ALONE
from tailguard_operator.plan.turn import Turn, next_pair, pair_of, pods_are_leaving, serving_of_stable

PAIR = 2


def starting(turn: Turn) -> Turn:
    """Renders, waits for the Baseline, checks the room, starts the pair, and hands over to Benchmark."""
    revision = turn.world.revision_of(turn.world.spec_hash)
    if revision is None:
        return turn.explain("Rendering", "the revision is being rendered")
    if turn.rollout.revision != revision.revision:
        turn = turn.roll(revision=revision.revision)
    if stable_is_down(turn):
        return without_comparison(turn)
    if turn.world.workload.problem:
        return turn.explain("WorkloadUnusable", turn.world.workload.problem)
    if workload_gone(turn):
        turn = turn.roll(settings=replace(settings_of(turn), workload=turn.world.workload).to_object())
    if turn.rollout.pair is not None and current_baseline(turn) is None:
        turn = close_pair(turn)
    if turn.rollout.pair is None:
        return _prepare(turn)
    pair = pair_of(turn.status)
    assert pair is not None
    return _judge_arms(turn, *(starting_arm(turn.world, key, turn.now) for key in pair))


def settings_of(turn: Turn) -> Settings:
    """The settings that were copied when the rollout started."""
    return Settings.from_object(turn.rollout.settings or {}, turn.world.workload)


def workload_gone(turn: Turn) -> bool:
    """Whether the user's requests are not those any more that were there when the rollout started."""
    kept = settings_of(turn).workload
    return kept.config_map is not None and kept.hash != turn.world.workload.hash


def stable_is_down(turn: Turn) -> bool:
    """Whether stable has had no Ready pod for the progress deadline, though it should have one."""
    stable, pool = turn.status.stable, serving_of_stable(turn.status)
    if stable is None or pool is None or turn.world.spec.replicas == 0:
        return False
    pods = turn.world.pods_of(pool)
    ready = next((c for c in turn.status.conditions or () if c.type == "Ready"), None)
    if ready is None or ready.status == "True" or any(p.ready for p in pods):
        return False
    # Pods that have just been asked for (a service scaled up from 0) have their own time to start.
    asked = min((p.created for p in pods), default=moment(turn.rollout.started_at))
    waited = (turn.now - max(moment(ready.last_transition_time), asked)).total_seconds()
    return waited > deadline_seconds(turn.world, stable.revision)


def without_comparison(turn: Turn) -> Turn:
    """Nothing serves, so nothing can be compared: the new revision serves as soon as it is Ready."""
    message = "the stable revision has had no Ready pod for the progress deadline, so there is nothing to compare with"
    turn = _with_pair(turn) if turn.rollout.pair is None or turn.state == State.CONFIRM else turn
    return turn.to(State.SWITCH, ALONE, message).event(ALONE, message, warning=True)


def _prepare(turn: Turn) -> Turn:
    if turn.world.spec.replicas == 0:
        return turn.explain("NoReplicas", "spec.replicas is 0: the rollout goes on when it is 1 or more")
    if not baseline_fits(turn):
        return _wait_for_baseline(turn)
    room, borrow = turn.world.room, settings_of(turn).rollout.capacity == Capacity.BORROW
    if room.pods >= PAIR:
        return _with_pair(turn).roll(borrowed=False)
    if borrow and room.pods >= 1 and turn.world.spec.replicas >= PAIR:
        return _with_pair(turn).roll(borrowed=True)
    if pods_are_leaving(turn):
        return turn.explain("StartingPods", "pods of an earlier pair are leaving; then there may be room")
    return hold(turn, "InsufficientCapacity", _shortage(turn, PAIR))


def _wait_for_baseline(turn: Turn) -> Turn:
    freeze = turn.status.freeze
    if freeze and freeze.failed:
        return hold(turn, "BaselineUnavailable", f"no baseline could be frozen: {freeze.message}")
    progress = freeze.message if freeze and freeze.message else f"freezing, 0 of {FREEZE_SLOTS} slots"
    return turn.explain("BaselineMissing", f"no baseline is frozen for the stable revision yet: {progress}")


def _with_pair(turn: Turn) -> Turn:
    number = next_pair(turn.status)
    turn = turn.update(pairs=turn.status.pairs + 1)
    return turn.roll(
        pair=number, canary_pod=None, twin_pod=None, reason="StartingPods", message="canary and twin are starting"
    )


def _judge_arms(turn: Turn, canary: Arm, twin: Arm) -> Turn:
    if canary.state == ArmState.FAILED:
        return reject(turn, canary.reason, f"the canary could not start: {canary.reason}: {canary.message}")
    if ArmState.UNSCHEDULABLE in (canary.state, twin.state):
        return hold(close_pair(turn), "InsufficientCapacity", _shortage(turn, 1))
    if twin.state == ArmState.FAILED:
        return hold(turn, "TwinUnavailable", f"the twin of the stable revision could not start: {twin.message}")
    if ArmState.DISRUPTED in (canary.state, twin.state):
        return hold(turn, "Disrupted", canary.message or twin.message)
    if canary.state == twin.state == ArmState.READY and canary.pod and twin.pod:
        return _to_benchmark(turn, canary, twin)
    return turn.explain("StartingPods", _progress(canary, twin))


def _to_benchmark(turn: Turn, canary: Arm, twin: Arm) -> Turn:
    assert canary.pod is not None and twin.pod is not None and turn.rollout.revision is not None
    name = benchmark_name(turn, turn.rollout.revision)
    turn = turn.update(benchmarks=turn.status.benchmarks + 1)
    message = "canary and twin get the same requests in turn"
    turn = turn.to(
        State.BENCHMARK,
        "Measuring",
        message,
        benchmark=name,
        job=0,
        canary_pod=canary.pod.name,
        twin_pod=twin.pod.name,
        canary_node=canary.pod.node,
        twin_node=twin.pod.node,
    )
    return turn.event("BenchmarkStarted", f"Benchmark {name}: {message}")


def _progress(canary: Arm, twin: Arm) -> str:
    waiting = [f"{name}: {arm.message}" for name, arm in (("canary", canary), ("twin", twin)) if arm.message]
    return "; ".join(waiting) or "canary and twin are starting"


def _shortage(turn: Turn, needed: int) -> str:
    room = turn.world.room
    text = f"{needed} more engine pods are needed to compare, the nodes have room for {room.pods}"
    return f"{text}: {room.shortage}" if room.shortage else text
