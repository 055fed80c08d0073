"""`tailguard replay`: the verdict again from the stored samples; it must be the same to the last digit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailguard_runtime.judge import JudgeSpec, Verdict, decode_slot, judge


@dataclass(frozen=True)
class Replay:
    """A verdict recomputed, beside the one that was acted upon."""

    again: Verdict
    stored: Verdict | None

    @property
    def differences(self) -> tuple[str, ...]:
        """Fields of the verdict that differ; empty when it is the same verdict."""
        if self.stored is None:
            return ("no verdict is stored yet",)
        now, then = self.again.to_json(), self.stored.to_json()
        return tuple(f"{name}: stored {then[name]!r}, now {now[name]!r}" for name in now if now[name] != then[name])


def replay(benchmark: Mapping[str, Any], slots: Sequence[bytes]) -> Replay:
    """Judges the stored slots of `benchmark` again.

    Raises:
        SampleFormatError, SpecError, VerdictFormatError: something stored can't be read.
    """
    spec = JudgeSpec.from_json(benchmark["spec"]["judge"])
    again = judge([decode_slot(data) for data in slots], spec)
    stored = (benchmark.get("status") or {}).get("verdict")
    return Replay(again, Verdict.from_json(stored) if stored else None)
