"""The judge's own process: stored slots in, evidence out.

Runs in a worker, so that numpy and pyarrow, which the judge needs, never load into the operator: they are imported
inside the functions. What was computed is kept by Benchmark, and only ever as a cache: a call names the digests of all
slots before its own, and when they are not the ones kept here, it is told so and sends everything.
"""

import hashlib
import multiprocessing
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tailguard_operator.api.benchmark import Purpose
from tailguard_operator.plan.orders import FREEZE_SLOTS
from tailguard_operator.plan.world import Evidence, ObjectiveResult

if TYPE_CHECKING:
    from tailguard_runtime.judge import Arm, JudgeSpec, Process, Slot

ARMS: "tuple[Arm, ...]" = ("canary", "twin")
_GOES_ON = "Continue"
_KEPT = 8
_POLITE = 19
"""On a small machine the worker may share a core with the load generator, whose lateness voids slots."""
_MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class StoredSlot:
    """A slot as it was stored, under its number."""

    number: int
    data: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of the data."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(slots=True)
class _State:
    """One Benchmark's slots so far.

    What is stored after the deciding slot says nothing any more, so that the outcome does not depend on when it is
    looked at.
    """

    process: "Process"
    spec: "JudgeSpec"
    freezes: bool
    digests: list[str] = field(default_factory=list)
    slots: list["Slot"] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """Whether nothing more counts: decided, or enough valid slots for a Baseline."""
        if self.freezes:
            return sum(not slot.void for slot in self.slots) >= FREEZE_SLOTS
        return str(self.process.outcome) != _GOES_ON

    def cut(self, slots: Sequence["Slot"]) -> "list[Slot]":
        """`slots` up to the one after which nothing more counts."""
        if self.freezes:
            valid = [place for place, slot in enumerate(slots) if not slot.void]
            return list(slots[: valid[FREEZE_SLOTS - 1] + 1] if len(valid) >= FREEZE_SLOTS else slots)
        decided = self.process.verdict().decided_at_slot if self.ended else None
        return list(slots if decided is None else slots[: decided + 1])


_states: OrderedDict[str, _State] = OrderedDict()


def start_worker() -> None:
    """Initialise the worker: it ends when the operator ends, however that happens, and yields the processor to all."""
    os.nice(_POLITE)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def follow() -> None:
        parent.join()
        os._exit(0)

    threading.Thread(target=follow, daemon=True, name="follow-parent").start()


def judge_slots(uid: str, spec: Mapping[str, Any], known: Sequence[str], new: Sequence[StoredSlot]) -> Evidence | None:
    """The evidence of a Benchmark after `new` slots.

    Args:
        uid: the Benchmark.
        spec: its `BenchmarkSpec` as plain data.
        known: digests of the slots that were handed in before.
        new: the slots stored after those.

    Returns:
        The evidence; None when the slots before are not known here and all have to be handed in.
    """
    from tailguard_runtime.judge import SampleFormatError, SlotOrderError, SpecError

    try:
        state = _state(uid, spec, known)
        if state is None:
            return None
        _take(state, new)
        return _evidence(state, spec)
    except (SampleFormatError, SlotOrderError, SpecError) as problem:
        _states.pop(uid, None)
        return broken(str(problem), (*known, *(slot.digest for slot in new)))


def broken(why: str, digests: Sequence[str]) -> Evidence:
    """Evidence that cannot be read."""
    return Evidence(broken=why, slots=len(digests), sha256=tuple(digests))


def _state(uid: str, spec: Mapping[str, Any], known: Sequence[str]) -> _State | None:
    from tailguard_runtime.judge import JudgeSpec, Process

    if not known:
        judge_spec = JudgeSpec.from_json(spec["judge"])
        _states[uid] = _State(Process(judge_spec), judge_spec, freezes=spec["purpose"] == Purpose.BASELINE)
    state = _states.get(uid)
    if state is None or state.digests != list(known):
        return None
    _states.move_to_end(uid)
    while len(_states) > _KEPT:
        _states.popitem(last=False)
    return state


def _take(state: _State, new: Sequence[StoredSlot]) -> None:
    """Judge `new`; numbers that a manifest took leave no gap, as slots are counted by their place."""
    from tailguard_runtime.judge import decode_slot

    state.digests += [stored.digest for stored in new]
    if state.ended:
        return
    decoded = [_numbered(stored, decode_slot(stored.data)) for stored in new]
    slots = [replace(slot, number=place) for place, slot in enumerate(decoded, len(state.slots))]
    counted = state.cut([*state.slots, *slots])[len(state.slots) :]
    state.process.extend(counted)
    state.slots = state.cut([*state.slots, *counted])


def _numbered(stored: StoredSlot, slot: "Slot") -> "Slot":
    from tailguard_runtime.judge import SampleFormatError

    if slot.number != stored.number:
        raise SampleFormatError(f"slot {stored.number} says that it is number {slot.number}")
    return slot


def _evidence(state: _State, spec: Mapping[str, Any]) -> Evidence:
    verdict, slots = state.process.verdict(), state.slots
    arms = ARMS if state.freezes else ARMS[:1]
    return Evidence(
        outcome=str(verdict.outcome),
        reason=verdict.reason,
        message=verdict.message,
        claim=verdict.claim,
        slots=len(slots),
        void_slots=sum(bool(slot.void) for slot in slots),
        requests=sum(slot.requests for slot in slots),
        first_at=_moment(slots[0].started_at) if slots else None,
        last_at=_moment(slots[-1].started_at) if slots else None,
        verdict=verdict.to_json(),
        frozen=_frozen(slots, arms, state.spec) if state.ended else None,
        objectives=_objectives(slots, spec, state.spec) if state.ended else (),
        sha256=tuple(state.digests[: len(slots)]),
    )


def _frozen(slots: Sequence["Slot"], arms: Sequence["Arm"], spec: "JudgeSpec") -> dict[str, Any]:
    """What a Baseline keeps of these samples, in the fields of `BaselineSpec`; of A/A pairs also their offset."""
    from tailguard_runtime.judge import freeze

    frozen = freeze(slots, metrics=spec.metrics, classes=spec.classes, arms=arms, tolerance=spec.tolerance)
    rows = frozen.to_json()
    found: dict[str, Any] = {
        "slots": len(slots),
        "quantiles": [_quantile(row) for row in rows["quantiles"]],
        "thresholds": rows["thresholdsMicroseconds"],
        "alarm": bool(frozen.aa_alarm),
        "offsets": [f"{o.metric}={o.mean:+.4f}" for o in frozen.offsets],
    }
    if frozen.offsets:
        # One number a start: the metric whose arms lie furthest apart, so that s is rather too large than too small.
        widest = max(frozen.offsets, key=lambda o: abs(o.mean))
        found["startOffset"] = f"{widest.mean:.4f}"
        found["startVariance"] = f"{widest.slot_variance / widest.slots:.6f}"
    return found


def _quantile(row: Mapping[str, Any]) -> dict[str, Any]:
    names = {"class": "requestClass", "valueMicroseconds": "microseconds"}
    return {names.get(name, name): value for name, value in row.items() if value is not None}


def _objectives(
    slots: Sequence["Slot"], spec: Mapping[str, Any], judge_spec: "JudgeSpec"
) -> tuple[ObjectiveResult, ...]:
    """Every bound of the spec, checked on both arms; a bound without a request to check it on says nothing."""
    from tailguard_runtime.judge import Metric, measure_objective

    classes = {c.name: c for c in judge_spec.classes}
    results = []
    for row in spec.get("objectives") or ():
        limit = row["maxMicroseconds"] / _MICRO
        for arm in ARMS:
            about = classes[row["requestClass"]], Metric(row["metric"]), row["percentile"]
            found = measure_objective(
                slots, arm=arm, request_class=about[0], metric=about[1], percentile=about[2], limit=limit
            )
            value = found.measured.value
            if value is not None:
                results.append(ObjectiveResult(arm, row["requestClass"], str(about[1]), about[2], limit, value))
    return tuple(results)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
