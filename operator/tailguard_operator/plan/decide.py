"""`decide`: the whole decision, as a pure function of the observed world and the time."""

from collections.abc import Callable
from datetime import datetime

from tailguard_operator.api.status import State
from tailguard_operator.plan.change import changed_spec
from tailguard_operator.plan.commands import commanded
from tailguard_operator.plan.decision import Decision
from tailguard_operator.plan.desired import desired
from tailguard_operator.plan.first import first_revision
from tailguard_operator.plan.freeze import freeze
from tailguard_operator.plan.measuring import follow_baseline, measuring
from tailguard_operator.plan.starting import starting
from tailguard_operator.plan.summary import summarize
from tailguard_operator.plan.switching import kept, preflight, switching
from tailguard_operator.plan.turn import Turn
from tailguard_operator.plan.world import World

_ADVANCE: dict[State, Callable[[Turn], Turn]] = {
    State.STARTING: starting,
    State.BENCHMARK: measuring,
    State.CONFIRM: measuring,
    State.SWITCH: switching,
    State.KEPT: kept,
}


def decide(world: World, now: datetime) -> Decision:
    """What should be, given what is. At most one step of the state table a call.

    Args:
        world: the service and all that belongs to it, observed before this call.
        now: the time of the decision.

    Returns:
        The whole desired state. Its status is to be written before anything else, so that a decision survives the
        death of the operator at any moment: the next call reads it back and wants the same objects.
    """
    turn = Turn(world, now, world.status)
    if world.deleting:
        return Decision(status=world.status)
    return desired(summarize(_advance(turn)))


def _advance(turn: Turn) -> Turn:
    if turn.status.stable is None:
        return first_revision(turn)
    before = turn.state
    turn = changed_spec(commanded(turn))
    if turn.state == before:
        turn = _ADVANCE.get(turn.rollout.state, _stay)(turn)
    if turn.state == State.SWITCH != before:
        turn = preflight(turn)
    return freeze(follow_baseline(turn))


def _stay(turn: Turn) -> Turn:
    return turn
