"""The reading of an engine's command line, by the rules of vLLM's own parser.

`--flag value`, `--flag=value`, `--no-flag`, `-tp 2`, `-O3`, underscores for dashes, and one entry of a JSON
flag by a dotted name (`--compilation-config.mode 3`, `-cc.mode=3`, `--x.list+ a,b`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tailguard_runtime.engines.flags import Flag, FlagTable, Kind

_OPTIMIZATION = re.compile(r"^-O=?(\w+)$")
_NEGATIVE_NUMBER = re.compile(r"^-\d+(\.\d+)?$")


@dataclass(frozen=True)
class Value:
    """One value and the place of its argument in the list."""

    index: int
    text: str


@dataclass(frozen=True)
class Use:
    """One flag as it was written, or a value that belongs to no flag (`written` is empty then)."""

    index: int
    written: str
    flag: Flag | None
    path: str
    """The dotted part of the name: `mode` in `-cc.mode`; empty for the whole flag."""
    values: tuple[Value, ...]
    inline: bool
    """The value was joined by `=`."""
    tokens: tuple[str, ...]
    """The arguments as they stood."""

    @property
    def negated(self) -> bool:
        """Whether a switch was turned off."""
        return self.flag is not None and self.written.startswith("--no-") and self.written != self.flag.name

    @property
    def key(self) -> str:
        """What two uses of the same setting have in common."""
        name = self.flag.name if self.flag else self.written
        return f"{name}.{self.path}" if self.path else name

    @property
    def text(self) -> str:
        """The effective value as text: `True` or `False` for a switch."""
        if self.flag is not None and self.flag.kind is Kind.SWITCH:
            return str(not self.negated)
        return ",".join(value.text for value in self.values)


def read_arguments(args: Sequence[str], table: FlagTable) -> list[Use]:
    """Split an argument list into the uses of flags; never fails."""
    return list(_read(args, table))


def _read(args: Sequence[str], table: FlagTable) -> Iterator[Use]:
    at = 0
    while at < len(args):
        use = _use(args, at, table) if _is_flag(args[at]) else _stray(args, at)
        yield use
        at += len(use.tokens)


def _stray(args: Sequence[str], at: int) -> Use:
    return Use(at, "", None, "", (Value(at, args[at]),), False, (args[at],))


def _use(args: Sequence[str], at: int, table: FlagTable) -> Use:
    name, inline, value = args[at].partition("=")
    if optimization := _OPTIMIZATION.match(args[at]):
        name, inline, value = "--optimization-level", "=", optimization[1]
    elif name == "-O":
        name = "--optimization-level"
    base, _, path = _normalise(name).partition(".")
    flag = table.by_name.get(base)
    if inline:
        values: tuple[Value, ...] = (Value(at, value),)
        return Use(at, base, flag, path, values, True, (args[at],))
    taken = _values_taken(args, at + 1, flag, bool(path))
    values = tuple(Value(at + 1 + offset, text) for offset, text in enumerate(taken))
    return Use(at, base, flag, path, values, False, (args[at], *taken))


def _values_taken(args: Sequence[str], at: int, flag: Flag | None, dotted: bool) -> Sequence[str]:
    if flag is not None and flag.kind is Kind.SWITCH and not dotted:
        return ()
    most = len(args) if flag is not None and flag.many and not dotted else 1
    end = at
    while end < len(args) and end - at < most and not _is_flag(args[end]):
        end += 1
    return args[at:end]


def _is_flag(text: str) -> bool:
    return text.startswith("-") and text != "-" and not _NEGATIVE_NUMBER.match(text)


def _normalise(name: str) -> str:
    if not name.startswith("--"):
        return name
    base, dot, path = name.partition(".")
    return base.replace("_", "-") + dot + path
