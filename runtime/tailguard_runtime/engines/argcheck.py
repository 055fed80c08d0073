"""The check of a user's engine flags against the table of the engine's version."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from tailguard_runtime.engines.arguments import Use, Value, read_arguments
from tailguard_runtime.engines.flags import Flag, FlagTable, Kind
from tailguard_runtime.engines.managed import MANAGED, RESTRICTED
from tailguard_runtime.engines.problems import ArgProblem, Severity

_COUNT = re.compile(r"^-?\d+(\.\d+)?[kKmMgGtT]?$")
_MANY_CHOICES = 12


def check_args(
    args: Sequence[str], table: FlagTable, *, field: str = "spec.engine.args", names_only: bool = False
) -> list[ArgProblem]:
    """Everything that is wrong with the flags, in their order.

    Args:
        args: one argument an item, as in a container's `args`.
        table: the flags of the engine's version, or of the nearest known one with `names_only`.
        field: path of the list, for the messages.
        names_only: the table belongs to another version: an unknown name is a warning, and values aren't
            checked. Flags that Tailguard manages stay errors.
    """
    return list(_Check(table, field, names_only).run(args))


class _Check:
    def __init__(self, table: FlagTable, field: str, names_only: bool) -> None:
        self._table = table
        self._field = field
        self._names_only = names_only

    def run(self, args: Sequence[str]) -> Iterator[ArgProblem]:
        seen: dict[str, int] = {}
        for use in read_arguments(args, self._table):
            yield from self._one(use)
            if use.flag is None:
                continue
            if use.key in seen:
                yield self._twice(use, seen[use.key])
            seen.setdefault(use.key, use.index)

    def _one(self, use: Use) -> Iterator[ArgProblem]:
        if not use.written:
            yield self._stray(use)
        elif (instead := _managed(use)) is not None:
            yield self._error(use.index, use.written, "is set by Tailguard", "all other flags", instead)
        elif use.flag is None:
            yield self._unknown(use)
        elif not self._names_only:
            yield from self._values(use, use.flag)
            yield from self._remote_code(use)

    def _values(self, use: Use, flag: Flag) -> Iterator[ArgProblem]:
        if use.path:
            yield from self._dotted(use, flag)
        elif flag.kind is Kind.SWITCH:
            if use.inline:
                other = next((name for name in flag.names if name.startswith("--no-")), "leaving it out")
                action = f"Write {flag.name} to turn it on; {other} turns it off."
                yield self._error(use.index, use.tokens[0], "is a switch and takes no value", flag.name, action)
        elif not use.values or use.values[0].text == "":
            yield self._error(use.index, use.written, "has no value", _allowed(flag), "Add the value.")
        else:
            for value in use.values:
                yield from self._value(use, flag, value)

    def _value(self, use: Use, flag: Flag, value: Value) -> Iterator[ArgProblem]:
        only = RESTRICTED.get(flag.name)
        if only is not None and value.text not in only.allowed:
            yield self._error(value.index, value.text, only.reason, ", ".join(only.allowed), only.action)
        elif not _is_valid(flag, value.text):
            yield self._error(
                value.index,
                value.text,
                f"is not a value of {flag.name}",
                _allowed(flag),
                "Correct the value.",
            )

    def _dotted(self, use: Use, flag: Flag) -> Iterator[ArgProblem]:
        if flag.kind not in (Kind.JSON, Kind.JSON_OR_TEXT):
            action = f"Write {flag.name} without the part after the dot."
            yield self._error(use.index, use.tokens[0], "has no entries of its own", flag.name, action)
        elif not use.values:
            yield self._error(use.index, use.tokens[0], "has no value", "a value", "Add the value.")

    def _stray(self, use: Use) -> ArgProblem:
        return self._error(
            use.index,
            use.values[0].text,
            "belongs to no flag",
            "flags, each with its value",
            "Put the flag's name before it; the model is set by spec.model.uri.",
        )

    def _unknown(self, use: Use) -> ArgProblem:
        near = self._table.nearest(use.written)
        hint = f"Did you mean {near}?" if near else "See `vllm serve --help=all` for the flags of your version."
        severity = Severity.WARNING if self._names_only else Severity.ERROR
        known = f"the {len(self._table.flags)} flags of vLLM {self._table.version}"
        return self._problem(severity, use.index, use.written, "is not a flag of the engine", known, hint)

    def _twice(self, use: Use, first: int) -> ArgProblem:
        action = f"Keep one of {self._field}[{first}] and {self._field}[{use.index}]."
        return self._error(use.index, use.key, "is given twice", "each flag once", action)

    def _remote_code(self, use: Use) -> Iterator[ArgProblem]:
        if use.flag is not None and use.flag.name == "--trust-remote-code" and not use.negated:
            yield self._problem(
                Severity.WARNING,
                use.index,
                use.written,
                "runs Python code that comes with the model",
                "off, the default",
                "Keep it only for a model whose code you trust, and pin spec.model.revision to a commit.",
            )

    def _error(self, index: int, value: str, reason: str, allowed: str, action: str) -> ArgProblem:
        return self._problem(Severity.ERROR, index, value, reason, allowed, action)

    def _problem(
        self, severity: Severity, index: int, value: str, reason: str, allowed: str, action: str
    ) -> ArgProblem:
        return ArgProblem(severity, f"{self._field}[{index}]", value, reason, allowed, action)


def _managed(use: Use) -> str | None:
    return MANAGED.get(use.flag.name if use.flag else use.written)


def _is_integer(text: str) -> bool:
    return re.fullmatch(r"-?\d+", text) is not None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


_VALID: Mapping[Kind, Callable[[str], bool]] = {
    Kind.INTEGER: _is_integer,
    Kind.COUNT: lambda text: _COUNT.match(text) is not None,
    Kind.COUNT_OR_AUTO: lambda text: text == "auto" or _COUNT.match(text) is not None,
    Kind.NUMBER: _is_number,
    Kind.JSON: _is_json,
}
_NEEDS = {
    Kind.INTEGER: "an integer",
    Kind.COUNT: "an integer, also as 32k (thousands) or 32K (times 1024)",
    Kind.COUNT_OR_AUTO: "auto or an integer, also as 32k (thousands) or 32K (times 1024)",
    Kind.NUMBER: "a number",
    Kind.JSON: "JSON",
}


def _is_valid(flag: Flag, text: str) -> bool:
    if flag.choices:
        return _folded(flag, text) in {_folded(flag, choice) for choice in flag.choices}
    is_valid = _VALID.get(flag.kind)
    return is_valid is None or is_valid(text)


def _folded(flag: Flag, text: str) -> str:
    return text.lower().replace("-", "_") if flag.kind is Kind.KEYWORD else text


def _allowed(flag: Flag) -> str:
    if not flag.choices:
        return _NEEDS.get(flag.kind, "a value")
    shown = ", ".join(flag.choices[:_MANY_CHOICES])
    return shown if len(flag.choices) <= _MANY_CHOICES else f"{shown} and {len(flag.choices) - _MANY_CHOICES} more"
