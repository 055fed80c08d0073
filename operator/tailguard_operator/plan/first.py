"""The first revision: nothing to compare with, so it serves as soon as it is Ready."""

from tailguard_operator.api.base import timestamp
from tailguard_operator.api.status import RevisionRef, RolloutStatus, State
from tailguard_operator.plan.arms import Arm, ArmState, starting_arm
from tailguard_operator.plan.turn import Turn
from tailguard_operator.plan.world import PoolKey, Role

FIRST_SLOT = 0


def first_revision(turn: Turn) -> Turn:
    """No stable yet: start what the spec says; a new spec replaces it at once; the first Ready pod makes it stable."""
    world = turn.world
    if world.problems:
        return turn
    if turn.status.rollout is None or turn.rollout.spec_hash != world.spec_hash:
        turn = turn.update(rollout=_begun(turn)).event("Starting", "the first revision starts")
    revision = world.revision_of(world.spec_hash)
    if revision is None:
        return turn.explain("Rendering", "the revision is being rendered")
    turn = turn.roll(revision=revision.revision)
    if world.spec.replicas == 0:
        return turn.explain("NoReplicas", "spec.replicas is 0: set it to 1 or more to start the service")
    arm = starting_arm(world, PoolKey(revision.revision, Role.SERVING, FIRST_SLOT), turn.now)
    if arm.state == ArmState.READY:
        return _serve(turn, revision.revision)
    return turn.explain(*_why(arm))


def _begun(turn: Turn) -> RolloutStatus:
    now = timestamp(turn.now)
    return RolloutStatus(state=State.STARTING, spec_hash=turn.world.spec_hash, since=now, started_at=now)


def _serve(turn: Turn, revision: str) -> Turn:
    stable = RevisionRef(revision=revision, spec_hash=turn.world.spec_hash, since=timestamp(turn.now), slot=FIRST_SLOT)
    turn = turn.update(stable=stable, route=revision)
    message = f"revision {revision} is the first and serves"
    return turn.to(State.STABLE, "FirstRevision", message).event("Serving", message)


def _why(arm: Arm) -> tuple[str, str]:
    if arm.state in (ArmState.FAILED, ArmState.UNSCHEDULABLE):
        return arm.reason, arm.message
    return "Starting", arm.message
