"""`tailguard replay`: the verdict again from the stored samples; it must be the same to the last digit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tailguard_runtime.cli.record import Record
from tailguard_runtime.judge import JudgeSpec, Verdict, judge

_SHOWN = 100
"""Characters of a value that differs."""


@dataclass(frozen=True)
class Replay:
    """A verdict recomputed, beside the one that was acted upon."""

    again: Verdict
    stored: Verdict | None

    @property
    def differences(self) -> tuple[str, ...]:
        """What differs, a line each; empty when it is the same verdict or none is stored yet."""
        if self.stored is None:
            return ()
        now, then = self.again.to_json(), self.stored.to_json()
        return tuple(line for name in now if now[name] != then[name] for line in _differ(name, then[name], now[name]))


def replay(benchmark: Mapping[str, Any], record: Record) -> Replay:
    """Judges the stored slots of `benchmark` again; those stored after it was ended do not count.

    Raises:
        SampleFormatError, SpecError, VerdictFormatError: something stored can't be read.
    """
    spec = JudgeSpec.from_json(benchmark["spec"]["judge"])
    found = (benchmark.get("status") or {}).get("verdict")
    stored = Verdict.from_json(found) if found else None
    slots = record.decoded()
    return Replay(judge(slots[: stored.slots] if stored else slots, spec), stored)


def _differ(name: str, then: Any, now: Any) -> Iterator[str]:
    """Of a list only its first row that differs: the rest follows from it."""
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        place = next(i for i, (a, b) in enumerate(zip(then, now, strict=True)) if a != b)
        yield from _differ(f"{name}[{place}]", then[place], now[place])
    elif isinstance(then, dict) and isinstance(now, dict):
        for key in now:
            if now[key] != then.get(key):
                yield from _differ(f"{name}.{key}", then.get(key), now[key])
    else:
        yield f"{name}: stored {_short(then)}, now {_short(now)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
