"""Cuts the A/A recordings that the judge's tests use: the `turn` mode, as rows of one request each.

Usage: python scripts/cut_judge_data.py path/to/vllm-cpu-aa.csv.gz
Source: Tailguard's own recording of two identical vLLM servers (data/README.md of the reference material).
"""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "tests" / "data" / "judge" / "vllm-cpu-aa-turn.csv"


def cut(source: Path, target: Path) -> int:
    """Writes the rows of mode `turn` without that column; returns how many."""
    with gzip.open(source, "rt", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row.pop("mode") == "turn"]
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", newline="") as out:
        writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"{cut(Path(sys.argv[1]), TARGET)} rows written to {TARGET}")
