"""Switch and Kept: users move in one step, and the previous revision stays as a way back."""

from datetime import timedelta

from tailguard_operator.api.base import after, moment, seconds, timestamp
from tailguard_operator.api.status import BaselineRef, RevisionRef, State
from tailguard_operator.plan.arms import deadline_seconds, image_moved
from tailguard_operator.plan.refuse import account_pods, hold, reject
from tailguard_operator.plan.slo import observe_objectives, p99
from tailguard_operator.plan.turn import Turn, pair_of, pods_are_leaving, serving_of_stable
from tailguard_operator.plan.world import PodView, PoolKey, Role

ALONE = "NoStableToCompare"
"""Reason of a Switch without a comparison, because nothing serves."""
CLOSING_SECONDS = 6.0
"""After a move: how long the pods that users left are asked to end their keep-alive connections."""


def wanted_replicas(turn: Turn) -> int:
    """Serving pods that the new revision needs before users move to it."""
    return max(turn.world.spec.replicas, 1)


def switching(turn: Turn) -> Turn:
    """Scales the new revision to N Ready pods, then moves users by the Service's selector."""
    key, service, stable = new_pool(turn), turn.world.service, turn.status.stable
    if turn.status.route == turn.rollout.revision and service and service.revision == turn.rollout.revision:
        return _moved(turn)
    pods = tuple(p for p in turn.world.pods_of(key) if not p.disrupted)
    ready, alone = sum(p.ready and not image_moved(turn.world, p) for p in pods), turn.rollout.reason == ALONE
    if alone and _stable_is_back(turn):
        message = "the stable revision is Ready again, so the change is compared with it"
        return turn.to(State.STARTING, "StartingPods", message, pair=None).event("StableIsBack", message)
    if ready >= _needed(turn):
        moved = turn.world.lease_transitions
        return turn.update(route=turn.rollout.revision).roll(moved_by=moved, message="users move to the new revision")
    # A route that was decided before pods were lost, and that the Service does not have yet, is taken back.
    turn = turn.update(route=stable.revision if stable else None)
    if refused := _refused(turn, key, pods):
        return refused
    if alone:
        return turn
    return turn.explain("Promoting", f"{ready} of {wanted_replicas(turn)} pods of the new revision are Ready")


def preflight(turn: Turn) -> Turn:
    """Held before a pod is started where the new revision has no room beside the old one."""
    shortage = _no_room(turn, turn.world.pods_of(new_pool(turn)))
    return hold(turn, "InsufficientCapacity", shortage) if shortage else turn


def _needed(turn: Turn) -> int:
    """Ready pods that users may be moved to; where nothing serves, one is better than none."""
    return 1 if turn.rollout.reason == ALONE else wanted_replicas(turn)


def _stable_is_back(turn: Turn) -> bool:
    pool = serving_of_stable(turn.status)
    routed = turn.status.route == turn.rollout.revision
    return pool is not None and not routed and any(p.ready for p in turn.world.pods_of(pool))


def new_pool(turn: Turn) -> PoolKey:
    """The serving pool of the revision that users move to."""
    rollout = turn.rollout
    if rollout.revision is None or rollout.pair is None:
        raise LookupError(f"{turn.world.name}: a rollout in state {rollout.state} has a revision and a pair")
    return PoolKey(rollout.revision, Role.SERVING, rollout.pair)


def kept(turn: Turn) -> Turn:
    """After the move: the way back is kept for `keepPrevious`, then the new Baseline becomes current."""
    until = after(turn.rollout.since, seconds(turn.world.spec.rollout.keep_previous))
    return end_window(turn) if turn.now >= until else turn


def kept_message(turn: Turn) -> str:
    """What Kept means, in a sentence."""
    revision = turn.status.stable.revision if turn.status.stable else ""
    return f"users are on revision {revision}, the previous one is kept for {turn.world.spec.rollout.keep_previous}"


def end_window(turn: Turn) -> Turn:
    """Stable: previous is removed, the Baseline of the promotion becomes current."""
    rollout = turn.rollout
    baseline = next((b for b in turn.world.baselines if b.name == rollout.baseline), None)
    ref = BaselineRef(name=baseline.name, key=baseline.key) if baseline else turn.status.baseline
    revision = turn.status.stable.revision if turn.status.stable else ""
    turn = turn.update(previous=None, baseline=ref).roll(pair=None)
    message = f"revision {revision} serves; the previous one is removed"
    return turn.to(State.STABLE, "Complete", message).event("Completed", message)


def closing(turn: Turn) -> bool:
    """Whether pods that users have just left should end their open connections."""
    return turn.state == State.KEPT and 0 <= (turn.now - moment(turn.rollout.since)).total_seconds() < CLOSING_SECONDS


def _moved(turn: Turn) -> Turn:
    rollout, old = turn.rollout, turn.status.stable
    key = new_pool(turn)
    new = RevisionRef(
        revision=key.revision,
        spec_hash=rollout.spec_hash,
        since=timestamp(turn.now),
        slot=key.slot,
        moved_by=rollout.moved_by,
    )
    turn = account_pods(turn)
    view = turn.world.benchmark(rollout.benchmark)
    if rollout.baseline and view:
        turn = observe_objectives(turn, view, "canary").update(p99=p99(view.evidence) or turn.status.p99)
    turn = turn.update(stable=new, previous=old).roll(canary_pod=None, twin_pod=None)
    if rollout.reason == ALONE:
        return end_window(turn)
    return turn.to(State.KEPT, "Complete", kept_message(turn)).event("TrafficMoved", kept_message(turn))


def _refused(turn: Turn, key: PoolKey, pods: tuple[PodView, ...]) -> Turn | None:
    for pod in pods:
        if pod.failure and pod.failure.fatal:
            message = f"a pod of the new revision does not start: {pod.failure.reason}: {pod.failure.message}"
            return reject(turn, pod.failure.reason, message)
        if moved := image_moved(turn.world, pod):
            return hold(turn, "ImageMoved", moved)
    if shortage := _no_room(turn, pods):
        return hold(turn, "InsufficientCapacity", shortage)
    late = timedelta(seconds=deadline_seconds(turn.world, key.revision))
    slow = [p for p in pods if not p.ready and turn.now - max(p.created, moment(turn.rollout.since)) > late]
    if not slow:
        return _never_created(turn, pods, late)
    if slow[0].unschedulable:
        return hold(turn, "InsufficientCapacity", slow[0].unschedulable)
    message = f"pod {slow[0].name} of the new revision was not Ready within {late.total_seconds():.0f} s"
    return hold(turn, "ProgressDeadlineExceeded", message)


def _never_created(turn: Turn, pods: tuple[PodView, ...], late: timedelta) -> Turn | None:
    missing = _needed(turn) - len(pods)
    if missing <= 0 or turn.now - moment(turn.rollout.since) <= late:
        return None
    text = f"{missing} pods of the new revision were not created within {late.total_seconds():.0f} s"
    return hold(turn, "InsufficientCapacity", f"{text}: look for a quota or an admission rule in the way")


def _no_room(turn: Turn, pods: tuple[PodView, ...]) -> str:
    """2N pods must fit without a gateway; the twin's room counts, since it leaves."""
    missing = _needed(turn) - len(pods)
    pair = pair_of(turn.status)
    twins = sum(1 for p in turn.world.pods if pair and p.pool == pair[1] and p.node)
    room = turn.world.room
    if missing <= room.pods + twins or (missing > 0 and pods_are_leaving(turn)):
        return ""
    return (
        f"the switch needs {missing} more engine pods beside the stable ones, the nodes have room for "
        f"{room.pods + twins}: {room.shortage}"
    )
