"""One planning in progress: the world, the time, and the status as it is being rewritten."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from tailguard_operator.api.base import timestamp
from tailguard_operator.api.status import InferenceServiceStatus as Status
from tailguard_operator.api.status import RolloutStatus, State
from tailguard_operator.plan.decision import Event
from tailguard_operator.plan.world import PoolKey, Role, World

BEFORE_PROMOTION = frozenset({State.STARTING, State.BENCHMARK, State.CONFIRM, State.LIVE, State.HELD, State.PINNED})
"""States in which users are on the stable revision and the change may still be dropped."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Immutable; every method that changes something returns a new Turn."""

    world: World
    now: datetime
    status: Status
    events: tuple[Event, ...] = ()

    @property
    def rollout(self) -> RolloutStatus:
        """The change under way, or the last one. Only asked where there is one."""
        if self.status.rollout is None:
            raise LookupError(f"{self.world.namespace}/{self.world.name} has no rollout")
        return self.status.rollout

    @property
    def state(self) -> State | None:
        """State of the rollout; None before the first."""
        return self.status.rollout.state if self.status.rollout else None

    def update(self, **fields: Any) -> Self:
        """The turn with other status fields."""
        return replace(self, status=self.status.model_copy(update=fields))

    def roll(self, **fields: Any) -> Self:
        """The turn with other rollout fields; texts are cut to what the schema holds."""
        return self.update(rollout=self.rollout.model_copy(update=cut(fields)))

    def to(self, state: State, reason: str, message: str, **fields: Any) -> Self:
        """The turn with the rollout in `state`; the clock of the state starts when the state is another."""
        since = self.rollout.since if self.rollout.state == state else timestamp(self.now)
        return self.roll(state=state, reason=reason, message=message, since=since, **fields)

    def explain(self, reason: str, message: str) -> Self:
        """The turn that stays in its state and says why it waits."""
        return self.roll(reason=reason, message=message)

    def event(self, reason: str, message: str, *, warning: bool = False) -> Self:
        """The turn with one more Event."""
        return replace(self, events=(*self.events, Event("Warning" if warning else "Normal", reason, message)))


def cut(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with reason and message cut to the schema's limits: a pod's last log lines may be long."""
    limits = {"reason": 128, "message": 2048}
    return {k: v[: limits[k]] if k in limits and isinstance(v, str) else v for k, v in fields.items()}


def serving_of_stable(status: Status) -> PoolKey | None:
    """The pool that serves users."""
    return PoolKey(status.stable.revision, Role.SERVING, status.stable.slot) if status.stable else None


def serving_of_previous(status: Status) -> PoolKey | None:
    """The pool that users left and that is kept as a way back."""
    return PoolKey(status.previous.revision, Role.SERVING, status.previous.slot) if status.previous else None


def pair_of(status: Status) -> tuple[PoolKey, PoolKey] | None:
    """Canary and twin pool of the rollout's present pair; None when it has none."""
    rollout, stable = status.rollout, status.stable
    if rollout is None or stable is None or rollout.pair is None or rollout.revision is None:
        return None
    confirms = rollout.state == State.CONFIRM
    canary, twin = (Role.CONFIRM_CANARY, Role.CONFIRM_TWIN) if confirms else (Role.SERVING, Role.TWIN)
    return PoolKey(rollout.revision, canary, rollout.pair), PoolKey(stable.revision, twin, rollout.pair)


def aa_pair_of(status: Status) -> tuple[PoolKey, PoolKey] | None:
    """The A/A pools of the freeze under way; the same pool twice when only one pod had room."""
    freeze, stable = status.freeze, status.stable
    if freeze is None or stable is None:
        return None
    first = PoolKey(stable.revision, Role.AA_A, freeze.pair)
    return first, first if freeze.single else PoolKey(stable.revision, Role.AA_B, freeze.pair)


def next_pair(status: Status) -> int:
    """Slot number of the next pair; two digits are enough to tell pools apart that exist at the same time."""
    return (status.pairs + 1) % 100


def pods_are_leaving(turn: Turn) -> bool:
    """Whether pods of earlier pairs still take room that will be free soon."""
    wanted = {*(pair_of(turn.status) or ()), *(aa_pair_of(turn.status) or ())}
    users = {serving_of_stable(turn.status), serving_of_previous(turn.status)}
    return any(p.deleting or p.pool not in wanted | users for p in turn.world.pods)
