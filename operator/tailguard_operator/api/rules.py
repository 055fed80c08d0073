"""Rules that the API server checks in CEL and pydantic checks in Python: one text, one message, for both.

A plain `pattern` would be refused with "should match '^…$'", which tells a user nothing. A rule says what is allowed.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

VALIDATIONS = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule over the fields of one object.

    Attributes:
        cel: the rule in CEL, where `self` is the object.
        holds: the same in Python, given the model.
        message: the field, what is allowed, and what to do.
        field: JSON path of the field that an error points at, such as `.max`; empty for the object itself.
    """

    cel: str
    holds: Callable[[Any], bool]
    message: str
    field: str = ""

    def schema(self) -> dict[str, str]:
        """The rule as an entry of `x-kubernetes-validations`."""
        entry = {"rule": self.cel, "message": self.message}
        return {**entry, "fieldPath": self.field} if self.field else entry


@dataclass(frozen=True, slots=True)
class Matches:
    """A string that has to match a regular expression (RE2 syntax) as a whole; put it into `Annotated`.

    Attributes:
        pattern: the expression, with `^` and `$`, without single quotes.
        message: the field, what is allowed, and what to do.
    """

    pattern: str
    message: str

    def check(self, text: str) -> str:
        """`text` itself.

        Raises:
            PydanticCustomError: it does not match.
        """
        if not re.fullmatch(self.pattern, text):
            raise PydanticCustomError("rule", "{message}", {"message": self.message})
        return text

    def __get_pydantic_core_schema__(self, source: type[str], handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        rule = {
            "rule": f"self.matches(r'{self.pattern}')",
            "message": self.message,
            "messageExpression": f"{json.dumps(self.message + '; found ')} + '\"' + self + '\"'",
        }
        return {**handler(core), VALIDATIONS: [rule]}
