"""The judge: slots in, verdict out (judge-designs.md 1 and 2, rollout.md 3).

Spending: an alarm's evidence is the mean over metrics and classes, which is a supermartingale under "all are within
the tolerance", so one threshold covers them all. A promotion claims that every statistic of every metric and class is
within its proof. It is wrong only if at least one claim is, and it needs that claim's evidence too, so demanding the
full threshold of each (an intersection-union test) needs no correction for their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tailguard_runtime.judge import environment, sentences
from tailguard_runtime.judge.errors import ERROR_THRESHOLD, ErrorProcess
from tailguard_runtime.judge.samples import Slot
from tailguard_runtime.judge.series import Series
from tailguard_runtime.judge.spec import JudgeSpec
from tailguard_runtime.judge.verdict import Outcome, TrailPoint, Verdict

_FIRST_BLOCK = 16


class SlotOrderError(ValueError):
    """Slots that don't follow each other without a gap."""


def decide(point: TrailPoint, spec: JudgeSpec) -> Outcome:
    """What follows from the evidence after one slot: gross alarm before alarm before promotion before the budget."""
    drift = point.alarm >= spec.alarm_threshold
    if point.errors >= ERROR_THRESHOLD or (drift and point.gross >= spec.alarm_threshold):
        return Outcome.GROSS_ALARM
    if drift:
        return Outcome.ALARM
    if point.promote >= spec.promote_threshold:
        return Outcome.PROMOTE
    spent = spec.spent_requests + point.requests
    return Outcome.BUDGET_SPENT if spent >= spec.max_requests else Outcome.CONTINUE


def judge(slots: Sequence[Slot], spec: JudgeSpec) -> Verdict:
    """The verdict on a benchmark; a pure function of the slots up to the deciding one.

    Args:
        slots: Slots in order, without gaps; those after the deciding slot are ignored.
        spec: What is asked.

    Raises:
        SlotOrderError: Numbers that don't follow each other, up to the deciding slot.
    """
    process = Process(spec)
    start, size = 0, _FIRST_BLOCK
    while start < len(slots) and process.outcome is Outcome.CONTINUE:
        process.extend(slots[start : start + size])
        start, size = start + size, 2 * size
    return process.verdict()


class Process:
    """The judge slot by slot. Once it has decided it stays decided and ignores what comes."""

    def __init__(self, spec: JudgeSpec) -> None:
        self.spec = spec
        self.outcome = Outcome.CONTINUE
        self._trail: list[TrailPoint] = []
        self._series = [Series(spec, metric, group) for metric in spec.metrics for group in spec.classes]
        self._errors = ErrorProcess()
        self._evidence = [(1.0, 1.0, 1.0)]

    def add(self, slot: Slot) -> Outcome:
        """Takes the next slot.

        Raises:
            SlotOrderError: Its number doesn't follow the last one's.
        """
        return self.extend([slot])

    def extend(self, slots: Sequence[Slot]) -> Outcome:
        """Takes the next slots; the same as adding them one by one, but faster.

        Raises:
            SlotOrderError: Numbers that don't follow each other, up to the deciding slot.
        """
        if self.outcome is not Outcome.CONTINUE:
            return self.outcome
        ordered = self._ordered_prefix(slots)
        for point in self._points(ordered):
            self._trail.append(point)
            self.outcome = decide(point, self.spec)
            if self.outcome is not Outcome.CONTINUE:
                self._forget_later_slots()
                return self.outcome
        if len(ordered) < len(slots):
            raise SlotOrderError(f"slot {slots[len(ordered)].number} is out of order, wanted {self._next_number()}")
        return self.outcome

    def verdict(self) -> Verdict:
        """The verdict so far, with estimates, intervals and sentences."""
        estimates = (*(e for series in self._series for e in series.estimates()), self._errors.estimate())
        summary = sentences.Summary(
            spec=self.spec,
            outcome=self.outcome,
            requests=self._trail[-1].requests if self._trail else 0,
            slots=len(self._trail),
            void_slots=sum(point.void for point in self._trail),
            estimates=estimates,
            error_alarm=self._errors.evidence[-1] >= ERROR_THRESHOLD,
            environment_changed=self._environment_changed(),
        )
        return Verdict(
            outcome=self.outcome,
            decided_at_slot=self._trail[-1].slot if self.outcome is not Outcome.CONTINUE else None,
            slots=summary.slots,
            void_slots=summary.void_slots,
            requests=summary.requests,
            reason=summary.reason(),
            message=summary.message(),
            claim=summary.claim() if self.outcome is Outcome.PROMOTE else "",
            estimates=estimates,
            flags=summary.flags(),
            notes=summary.notes(),
            trail=tuple(self._trail),
        )

    def _environment_changed(self) -> bool:
        drift = [value for series in self._series for value in series.environment()]
        return bool(drift) and float(np.mean(drift)) >= environment.FLAG_THRESHOLD

    def _ordered_prefix(self, slots: Sequence[Slot]) -> Sequence[Slot]:
        wanted = self._next_number() if self._trail else slots[0].number if slots else 0
        for place, slot in enumerate(slots):
            if slot.number != wanted + place:
                return slots[:place]
        return slots

    def _next_number(self) -> int:
        return self._trail[-1].slot + 1

    def _points(self, slots: Sequence[Slot]) -> Iterator[TrailPoint]:
        requests = self._trail[-1].requests if self._trail else 0
        taken = len(self._evidence) - 1
        self._take([slot for slot in slots if not slot.void])
        for slot in slots:
            taken += not slot.void
            requests += slot.requests
            alarm, gross, promote = self._evidence[taken]
            errors = self._errors.evidence[taken]
            yield TrailPoint(slot.number, bool(slot.void), requests, alarm, gross, errors, promote)

    def _take(self, valid: Sequence[Slot]) -> None:
        self._errors.extend(valid)
        parts = [series.extend(valid) for series in self._series]
        alarm = np.mean([part.alarm for part in parts], axis=0)
        gross = np.mean([part.gross for part in parts], axis=0)
        promote = np.min([part.promote for part in parts], axis=0)
        self._evidence += zip(alarm.tolist(), gross.tolist(), promote.tolist(), strict=True)

    def _forget_later_slots(self) -> None:
        kept = sum(not point.void for point in self._trail)
        del self._evidence[kept + 1 :]
        self._errors.keep(kept)
        for series in self._series:
            series.keep(kept)
