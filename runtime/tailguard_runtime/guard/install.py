"""Copy of the guard for an engine image: `python -m tailguard_runtime.guard.install DEST`.

The init container runs this; the engine finds the copy with PYTHONPATH=DEST.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

_SOURCE = Path(__file__).parent


def install(destination: Path) -> Path:
    """Copy the guard below the destination, replacing an earlier copy.

    Args:
        destination: directory to be named in PYTHONPATH.

    Returns:
        The directory of the copied package.
    """
    package = destination / "tailguard_runtime"
    guard = package / "guard"
    guard.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    for source in sorted(_SOURCE.glob("*.py")):
        shutil.copyfile(source, guard / source.name)
    return guard


def main(arguments: list[str]) -> int:
    """Copy the guard.

    Args:
        arguments: the command line without the program.

    Returns:
        The exit code; 2 when the destination is missing.
    """
    if len(arguments) != 1:
        print("usage: python -m tailguard_runtime.guard.install DEST", file=sys.stderr)
        return 2
    print(f"the guard lies in {install(Path(arguments[0]))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
