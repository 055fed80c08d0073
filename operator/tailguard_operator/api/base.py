"""What all models of the API share: camelCase names, strictness, durations, readable errors."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError

from tailguard_operator.api.rules import VALIDATIONS, Matches, Rule

GROUP = "tailguard.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
Duration = Annotated[
    str,
    Field(max_length=32),
    Matches(DURATION_PATTERN, "must be a duration in Go's syntax; write it like 800ms, 30s, 10m or 1h30m"),
]
"""A length of time in Go's syntax."""

Name = Annotated[
    str,
    Field(max_length=63),
    Matches(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "must be lower-case letters, digits and '-', with a letter or digit at both ends; write it like short-prompts",
    ),
]
"""A DNS label."""

EnvironmentEntry = Annotated[str, Field(max_length=32768)]
"""One fact about where something was measured, such as the flags of the engine."""

Timestamp = Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})]
"""RFC 3339 in UTC, seconds."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(duration: str) -> float:
    """The length of `duration` (Go's syntax, such as `1h30m`) in seconds.

    Raises:
        ValueError: `duration` is not in Go's syntax.
    """
    if not re.match(DURATION_PATTERN, duration):
        raise ValueError(f"{duration!r} is not a duration; write it like 800ms, 10m or 1h30m")
    return sum(
        float(number) * _UNITS[unit] for number, _, unit in re.findall(r"([0-9]+(\.[0-9]+)?)(ms|s|m|h)", duration)
    )


def timestamp(moment: datetime) -> str:
    """`moment` as the API writes it, for example `2026-12-01T10:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    """The inverse of `timestamp`."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def after(text: str, span: float) -> datetime:
    """The moment `span` seconds after the timestamp `text`."""
    return moment(text) + timedelta(seconds=span)


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One thing wrong with an object: which field, its value, what is allowed."""

    field: str
    value: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.field}: {self.value} is not allowed; {self.allowed}"


class InvalidObject(ValueError):  # noqa: N818 (a state of the object, as in the condition InvalidSpec)
    """An object that its model refuses. `problems` names each field, value and what is allowed."""

    def __init__(self, problems: Iterable[FieldProblem]):
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class Model(BaseModel):
    """Frozen, camelCase outside, and no unknown field."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", use_enum_values=False
    )
    rules: ClassVar[tuple[Rule, ...]] = ()
    """What has to hold between the fields of the object."""

    @model_validator(mode="after")
    def _keep_rules(self) -> Self:
        broken = next((rule for rule in self.rules if not rule.holds(self)), None)
        if broken:
            raise PydanticCustomError("rule", "{message}", {"message": broken.message, "field": broken.field})
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler.resolve_ref_schema(handler(core))
        if cls.rules:
            schema[VALIDATIONS] = [rule.schema() for rule in cls.rules]
        return schema

    def to_object(self) -> dict[str, Any]:
        """Plain JSON data, without fields that are unset or empty of meaning (None)."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @classmethod
    def parse(cls, data: Any, root: str) -> Self:
        """The model of `data`; `root` is the path that errors start with, such as `spec`.

        Raises:
            InvalidObject: naming every field that is wrong.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise InvalidObject(_problems(error, root)) from error


def _problems(error: ValidationError, root: str) -> Iterable[FieldProblem]:
    for item in error.errors(include_url=False):
        path = root
        for part in item["loc"]:
            path += f"[{part}]" if isinstance(part, int) else f".{part}"
        path += item.get("ctx", {}).get("field", "")
        yield FieldProblem(path, repr(item.get("input"))[:120], item["msg"])
