"""Commands of people: annotations `tailguard.dev/{retry,promote,abort,pin,refresh}`; each token acts once."""

from collections.abc import Callable, Iterator

from tailguard_operator.api.status import HandledCommands, State
from tailguard_operator.plan.change import begin
from tailguard_operator.plan.measuring import PROMOTE
from tailguard_operator.plan.refuse import abort, account
from tailguard_operator.plan.switching import end_window
from tailguard_operator.plan.turn import Turn, next_pair

OVERRIDDEN = "Overridden"
TOKEN_LENGTH = 256
"""Characters of a token that status holds."""
_MAY_ABORT = frozenset({State.HELD, State.PINNED, State.LIVE, State.BENCHMARK, State.STARTING, State.CONFIRM})
_MAY_RETRY = frozenset({State.REJECTED, State.ABORTED, State.HELD})


def commanded(turn: Turn) -> Turn:
    """Acts on every command whose token is new, at most one a turn."""
    if turn.status.stable is None:
        return turn
    for name, token in unhandled(turn):
        handled = turn.status.handled or HandledCommands()
        return _COMMANDS[name](turn.update(handled=handled.model_copy(update={name: token})), token)
    return turn


def unhandled(turn: Turn) -> Iterator[tuple[str, str]]:
    """Commands with a token that has not been acted upon; a long one counts by what status can hold of it."""
    handled = turn.status.handled or HandledCommands()
    for name in _COMMANDS:
        token = turn.world.commands.get(name, "")[:TOKEN_LENGTH]
        if token and token != getattr(handled, name):
            yield name, token


def _abort(turn: Turn, token: str) -> Turn:
    if turn.state not in _MAY_ABORT:
        return _nothing(turn, "abort")
    turn = account(turn, turn.world.benchmark(turn.rollout.benchmark)) if turn.state in _MEASURING else turn
    return abort(turn, "Aborted", f"aborted by hand ({token})")


def _retry(turn: Turn, token: str) -> Turn:
    if turn.state not in _MAY_RETRY or turn.world.problems:
        return _nothing(turn, "retry")
    kept = [r for r in turn.status.remembered or () if r.spec_hash != turn.world.spec_hash]
    return begin(turn.update(remembered=kept or None))


def _promote(turn: Turn, token: str) -> Turn:
    if turn.state == State.KEPT:
        return end_window(turn)
    if turn.state not in (State.HELD, State.PINNED):
        return _nothing(turn, "promote")
    proved = turn.rollout.verdict == PROMOTE and turn.rollout.baseline
    if turn.rollout.pair is None:
        turn = turn.update(pairs=turn.status.pairs + 1).roll(pair=next_pair(turn.status))
    turn = turn.update(verdict=OVERRIDDEN).roll(verdict=OVERRIDDEN, baseline=turn.rollout.baseline if proved else None)
    message = f"promoted by hand ({token}), against: {turn.rollout.message}"
    return turn.to(State.SWITCH, "Promoting", message).event("Promoted", message, warning=True)


def _pin(turn: Turn, token: str) -> Turn:
    return _nothing(turn, "pin")


def _refresh(turn: Turn, token: str) -> Turn:
    return turn.event("Refresh", f"the revision is rendered again ({token})")


def _nothing(turn: Turn, command: str) -> Turn:
    text = f"tailguard.dev/{command} does nothing in state {turn.state}"
    return turn.event("CommandIgnored", text, warning=True)


_MEASURING = frozenset({State.BENCHMARK, State.CONFIRM})
_COMMANDS: dict[str, Callable[[Turn, str], Turn]] = {
    "abort": _abort,
    "retry": _retry,
    "promote": _promote,
    "pin": _pin,
    "refresh": _refresh,
}
