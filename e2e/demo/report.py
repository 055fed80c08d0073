"""What the demo shows at its end: a table for people, the same figures as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from e2e.demo.story import Step
from e2e.demo.traffic import Counts


def table(steps: Sequence[Step]) -> Table:
    """Step, expected, seen, seconds, requests used."""
    drawn = Table(title="tailguard demo")
    for name in ("step", "expected", "seen"):
        drawn.add_column(name)
    for name in ("seconds", "requests"):
        drawn.add_column(name, justify="right")
    for step in steps:
        mark = "green" if step.as_told else "red"
        seen = step.seen + (f" ({'; '.join(step.broken)})" if step.broken else "")
        drawn.add_row(step.name, step.expected, f"[{mark}]{seen}[/{mark}]", f"{step.seconds:.0f}", str(step.requests))
    return drawn


def summary(steps: Sequence[Step], counts: Counts, phases: dict[str, float]) -> dict[str, Any]:
    """The same figures as plain data; `phases` are seconds of set-up by name."""
    return {
        "steps": [
            {
                "name": step.name,
                "expected": step.expected,
                "seen": step.seen if step.as_told or step.seen != step.expected else f"{step.seen}, but {step.broken}",
                "seconds": round(step.seconds, 1),
                "requests": step.requests,
                "why": step.why,
            }
            for step in steps
        ],
        "client_requests": counts.sent,
        "failed_requests": counts.failed,
        "problems": list(counts.problems[:20]),
        "phases": {name: round(value, 1) for name, value in phases.items()},
    }


def write(path: Path, data: dict[str, Any]) -> None:
    """Writes `data` as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2) + "\n")
