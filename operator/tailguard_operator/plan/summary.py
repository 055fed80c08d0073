"""What people and tools see: conditions and columns, from the decided status and the world."""

from tailguard_operator.api.conditions import Condition, set_condition
from tailguard_operator.api.service import OnRejected
from tailguard_operator.api.status import State
from tailguard_operator.plan.arms import ArmState, starting_arm
from tailguard_operator.plan.turn import BEFORE_PROMOTION, Turn, serving_of_stable

_WORKING = frozenset({State.STARTING, State.BENCHMARK, State.CONFIRM, State.LIVE, State.SWITCH})
_REASONS = {
    State.BENCHMARK: "Benchmarking",
    State.CONFIRM: "Confirming",
    State.SWITCH: "Promoting",
    State.REJECTED: "Rejected",
    State.ABORTED: "Aborted",
}


def summarize(turn: Turn) -> Turn:
    """The turn with observedGeneration, columns and conditions brought up to date."""
    stable = serving_of_stable(turn.status)
    pods = turn.world.pods_of(stable) if stable else ()
    on_trial = turn.state in BEFORE_PROMOTION | {State.SWITCH} and stable is not None
    turn = turn.update(
        observed_generation=turn.world.generation,
        replicas=len(pods),
        ready_replicas=sum(p.ready for p in pods),
        selector=_selector(turn),
        address=f"http://{turn.world.name}.{turn.world.namespace}.svc",
        canary=turn.rollout.revision if on_trial else None,
        weight=0 if on_trial else None,
        images=_images(turn) or None,
    )
    return turn.update(conditions=_conditions(turn))


def _images(turn: Turn) -> dict[str, str]:
    """Remembers which image a tag meant when the first pod of its revision was Ready."""
    known = turn.status.images or {}
    first: dict[str, str] = {}
    for pod in sorted(turn.world.pods, key=lambda p: (p.created, p.name)):
        if pod.ready and pod.image_id:
            first.setdefault(pod.pool.revision, pod.image_id[:512])
    found = {r.revision: known.get(r.revision) or first.get(r.revision, "") for r in turn.world.revisions}
    return {revision: image for revision, image in found.items() if image}


def _selector(turn: Turn) -> str:
    parts = [f"tailguard.dev/service={turn.world.name}", "tailguard.dev/role=serving"]
    if turn.status.stable:
        parts.append(f"tailguard.dev/revision={turn.status.stable.revision}")
    return ",".join(parts)


def _conditions(turn: Turn) -> list[Condition]:
    old = list(turn.status.conditions or ())
    within = [c for c in old if c.type == "WithinSLO"]

    def condition(type_: str, status: bool | None, reason: str, message: str) -> Condition:
        return set_condition(old, type_, status, reason, message, generation=turn.world.generation, now=turn.now)

    found = [condition("Ready", *_ready(turn))]
    if working := _reconciling(turn):
        found.append(condition("Reconciling", True, *working))
    if stalled := _stalled(turn):
        found.append(condition("Stalled", True, *stalled))
    if turn.status.rollout:
        found.append(condition("RolloutComplete", *_complete(turn)))
    return [*found, *within]


def _ready(turn: Turn) -> tuple[bool, str, str]:
    stable = turn.status.stable
    if stable is None:
        return _not_yet(turn)
    pods = turn.world.pods_of(key) if (key := serving_of_stable(turn.status)) else ()
    ready = sum(p.ready for p in pods)
    if ready and turn.world.service is None:
        return False, "Starting", f"the Service that selects revision {stable.revision} is being made"
    if ready:
        return True, "Serving", f"revision {stable.revision} serves with {ready} Ready pods"
    if turn.world.spec.replicas == 0:
        return False, "NoReplicas", "spec.replicas is 0, so nothing serves"
    failing = next((p.failure for p in pods if p.failure), None)
    if failing:
        return (
            False,
            failing.reason,
            f"no pod of revision {stable.revision} is Ready: {failing.message or failing.reason}",
        )
    return False, "NoReadyPod", f"no pod of revision {stable.revision} is Ready"


def _not_yet(turn: Turn) -> tuple[bool, str, str]:
    if turn.world.problems:
        return False, "InvalidSpec", "; ".join(turn.world.problems)
    rollout = turn.status.rollout
    if rollout is None:
        return False, "Starting", "the first revision has not started yet"
    return False, rollout.reason or "Starting", rollout.message or "the first revision is starting"


def _reconciling(turn: Turn) -> tuple[str, str] | None:
    rollout = turn.status.rollout
    if turn.world.problems or rollout is None:
        return None
    if turn.status.stable is None and not _first_failed(turn):
        return rollout.reason or "Starting", rollout.message or "the first revision is starting"
    if turn.status.stable is not None and rollout.state in _WORKING:
        return _reason(turn), rollout.message or ""
    return None


def _first_failed(turn: Turn) -> bool:
    keys = {p.pool for p in turn.world.pods if p.pool.revision == turn.rollout.revision}
    return any(starting_arm(turn.world, key, turn.now).state == ArmState.FAILED for key in keys)


def _stalled(turn: Turn) -> tuple[str, str] | None:
    world = turn.world
    if world.problems:
        return "InvalidSpec", "; ".join(world.problems)
    if world.workload.problem:
        return "WorkloadUnusable", world.workload.problem
    rollout = turn.status.rollout
    if rollout is None:
        return None
    if rollout.state == State.REJECTED and world.spec.rollout.on_rejected == OnRejected.STALLED:
        return "Rejected", rollout.message or ""
    if turn.status.stable is None and _first_failed(turn):
        return rollout.reason or "Failed", rollout.message or ""
    return None


def _complete(turn: Turn) -> tuple[bool, str, str]:
    rollout, stable = turn.rollout, turn.status.stable
    message = rollout.message or ""
    if stable is None:
        return False, "Starting", message or "the first revision is starting"
    if turn.world.problems:
        return False, "InvalidSpec", "; ".join(turn.world.problems)
    if turn.world.spec_hash == stable.spec_hash and rollout.state in (State.STABLE, State.KEPT):
        return True, "Complete", message or f"revision {stable.revision} serves"
    if turn.world.spec.replicas == 0 and turn.world.spec_hash not in (stable.spec_hash, rollout.spec_hash):
        return False, "NoReplicas", "spec.replicas is 0: a rollout starts when it is 1 or more"
    return False, _reason(turn), message


def _reason(turn: Turn) -> str:
    rollout = turn.rollout
    if rollout.state in _REASONS:
        return _REASONS[rollout.state]
    return rollout.reason or rollout.state.value
