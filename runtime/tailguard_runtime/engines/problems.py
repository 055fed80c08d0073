"""What is wrong with an engine's settings, said so that the user can act on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Whether a problem stops the rendering."""

    ERROR = "Error"
    WARNING = "Warning"


@dataclass(frozen=True)
class ArgProblem:
    """One problem of one field."""

    severity: Severity
    field: str
    """Path of the field, such as `spec.engine.args[2]`."""
    value: str
    """What stands there."""
    reason: str
    """What is wrong with it, as the rest of the sentence `FIELD: 'VALUE' ...`."""
    allowed: str
    """What is allowed there."""
    action: str
    """What to do."""

    @property
    def message(self) -> str:
        """Field, value, what is allowed and what to do, in one line."""
        return f"{self.field}: {self.value!r} {self.reason}; allowed: {self.allowed}. {self.action}"


def errors(problems: Iterable[ArgProblem]) -> list[ArgProblem]:
    """The problems that stop the rendering."""
    return [problem for problem in problems if problem.severity is Severity.ERROR]
