"""What a new spec does: start, wait in the queue, replace the change under way, or go back."""

from tailguard_operator.api.base import timestamp
from tailguard_operator.api.status import RevisionRef, RolloutStatus, State
from tailguard_operator.plan.refuse import close_pair, hold, remembered
from tailguard_operator.plan.settings import Settings
from tailguard_operator.plan.switching import kept_message
from tailguard_operator.plan.turn import BEFORE_PROMOTION, Turn, serving_of_previous

DROPPABLE = BEFORE_PROMOTION | {State.SWITCH}
"""States in which a change may be dropped; in Switch only as long as users have not been sent to it."""
_QUEUED = "a new spec waits until the previous revision's window is over; `tailguard promote` ends it now"


def changed_spec(turn: Turn) -> Turn:
    """Compares the spec's hash with stable's, the rollout's and the remembered ones."""
    stable, wanted = turn.status.stable, turn.world.spec_hash
    if stable is None:
        return turn
    if turn.state == State.SWITCH and turn.status.route == turn.rollout.revision:
        return turn
    if turn.world.problems:
        return _drop_change(turn)
    if turn.state == State.KEPT:
        return _while_kept(turn)
    if wanted == stable.spec_hash:
        return _back_to_stable(turn)
    if wanted == turn.rollout.spec_hash and turn.state != State.STABLE:
        return turn
    if known := remembered(turn, wanted):
        return _again_refused(turn, known.revision, known.verdict, known.reason, known.message)
    if turn.world.spec.replicas == 0:
        return _not_while_scaled_to_zero(turn)
    return begin(turn)


def begin(turn: Turn) -> Turn:
    """Starting, with the settings of this moment."""
    now = timestamp(turn.now)
    under_way = turn.state in DROPPABLE
    freeze = turn.status.freeze
    turn = turn.update(
        rollout=RolloutStatus(
            state=State.STARTING,
            reason="Starting",
            message="the change is being prepared",
            spec_hash=turn.world.spec_hash,
            since=now,
            started_at=now,
            settings=Settings.of(turn.world.spec, turn.world.workload).to_object(),
        ),
        freeze=None if freeze and freeze.failed else freeze,
    )
    text = "the spec changed in the middle of a rollout, which is replaced" if under_way else "the spec changed"
    return turn.event("RolloutStarted", text)


def _not_while_scaled_to_zero(turn: Turn) -> Turn:
    """Nothing starts; a change under way is not what the spec says any more."""
    if turn.state not in DROPPABLE:
        return turn
    return close_pair(turn).to(State.STABLE, "NoReplicas", "the change before the present spec is dropped")


def _drop_change(turn: Turn) -> Turn:
    if turn.state not in DROPPABLE:
        return turn
    if turn.status.observed_generation == turn.world.generation:
        return _blocked(turn)
    message = "the new spec is invalid, so the change before it is dropped; users stay on the stable revision"
    return close_pair(turn).to(State.STABLE, "InvalidSpec", message)


def _blocked(turn: Turn) -> Turn:
    """The spec is as it was, yet it cannot be carried out. Dropping the change would only start it again."""
    if turn.state == State.HELD:
        return turn
    return hold(turn, "Blocked", "; ".join(turn.world.problems))


def _back_to_stable(turn: Turn) -> Turn:
    if turn.state == State.STABLE and turn.rollout.spec_hash == turn.world.spec_hash:
        return turn
    stable = turn.status.stable
    assert stable is not None
    turn = close_pair(turn)
    turn = turn.roll(spec_hash=stable.spec_hash, revision=stable.revision, settings=None)
    return turn.to(State.STABLE, "Complete", f"revision {stable.revision} serves").event(
        "BackToStable", "the spec is the stable revision's again"
    )


def _again_refused(turn: Turn, revision: str, verdict: str, reason: str, message: str) -> Turn:
    state = State.ABORTED if verdict == "Aborted" else State.REJECTED
    turn = close_pair(turn)
    text = f"this spec was refused before and is not tried again: {message}"
    turn = turn.roll(spec_hash=turn.world.spec_hash, revision=revision, settings=None)
    return turn.to(state, reason, text).event(state.value, text, warning=True)


def _while_kept(turn: Turn) -> Turn:
    status = turn.status
    if turn.world.spec_hash == turn.rollout.spec_hash:
        return turn if turn.rollout.reason == "Complete" else turn.explain("Complete", kept_message(turn))
    if status.previous and turn.world.spec_hash == status.previous.spec_hash:
        return _to_previous(turn)
    return turn.explain("GuardRunning", _QUEUED)


def _to_previous(turn: Turn) -> Turn:
    """Users go back at once, if previous can take them; otherwise as soon as it can."""
    previous, pool = turn.status.previous, serving_of_previous(turn.status)
    assert previous is not None and pool is not None
    if not any(p.ready for p in turn.world.pods_of(pool)):
        return turn.explain("PreviousNotReady", f"revision {previous.revision} has no Ready pod to go back to")
    back = RevisionRef(
        revision=previous.revision,
        spec_hash=previous.spec_hash,
        since=timestamp(turn.now),
        slot=previous.slot,
        moved_by=turn.world.lease_transitions,
    )
    turn = turn.update(stable=back, previous=None, route=back.revision)
    turn = turn.roll(spec_hash=back.spec_hash, revision=back.revision, settings=None, baseline=None, pair=None)
    message = f"users are back on revision {back.revision}"
    return turn.to(State.STABLE, "Complete", message).event("BackToPrevious", message)
