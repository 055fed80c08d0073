"""May two results be compared? Only if nothing but what the revision declares differs (R-171, R-175, R-178)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

ABSENT = "(not recorded)"
NEVER_DECLARED = ("sampling", "lengths")
"""Sampling and length settings are equal on both sides, whatever a revision declares (R-178)."""
ALWAYS_RECORDED = ("compile", "sampling", "lengths")
"""What both manifests must say: the compile state (R-175), sampling and lengths (R-178)."""


@dataclass(frozen=True)
class Difference:
    """One entry that differs between two environments; `field` is a dotted path."""

    field: str
    canary: str
    twin: str

    def __str__(self) -> str:
        return f"{self.field}: {self.canary} against {self.twin}"


@dataclass(frozen=True)
class Comparison:
    """The differences of two environments.

    Attributes:
        declared: The change under test, listed with the verdict.
        undeclared: Anything else; one is enough to refuse.
        unrecorded: Entries that must be recorded and are missing from both manifests.
    """

    declared: tuple[Difference, ...]
    undeclared: tuple[Difference, ...]
    unrecorded: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Whether the results must not be compared."""
        return bool(self.undeclared or self.unrecorded)

    @property
    def message(self) -> str:
        """Why they must not be compared, or what is compared, in one sentence."""
        if not self.refused:
            changes = "; ".join(map(str, self.declared))
            return f"Comparable, differing only as declared: {changes}" if changes else "Comparable, nothing differs"
        found = [f"{name} {ABSENT[1:-1]} on either side" for name in self.unrecorded]
        return "Not comparable: " + "; ".join(found + [str(difference) for difference in self.undeclared])


def compare_environments(
    canary: Mapping[str, object],
    twin: Mapping[str, object],
    *,
    declared: Collection[str],
    required: Collection[str] = ALWAYS_RECORDED,
) -> Comparison:
    """The differences of two environment manifests.

    Args:
        canary: Manifest of the canary's environment; nested mappings are compared entry by entry.
        twin: Manifest of the twin's.
        declared: Dotted paths that the revision itself changes, such as "engine.args"; a path covers all below it.
        required: Paths that must be recorded on both sides.
    """
    sides = _flat(canary), _flat(twin)
    differing = [
        Difference(field, sides[0].get(field, ABSENT), sides[1].get(field, ABSENT))
        for field in sorted(sides[0].keys() | sides[1].keys())
        if sides[0].get(field) != sides[1].get(field)
    ]
    known = [d for d in differing if _covers(declared, d.field) and not _covers(NEVER_DECLARED, d.field)]
    return Comparison(
        declared=tuple(known),
        undeclared=tuple(difference for difference in differing if difference not in known),
        unrecorded=tuple(path for path in required if not any(_covers([path], f) for side in sides for f in side)),
    )


def _covers(paths: Collection[str], field: str) -> bool:
    return any(field == path or field.startswith(f"{path}.") for path in paths)


def _flat(manifest: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in manifest.items():
        path = f"{prefix}{key}"
        flat |= _flat(value, f"{path}.") if isinstance(value, Mapping) else {path: str(value)}
    return flat
