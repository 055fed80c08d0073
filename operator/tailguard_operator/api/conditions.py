"""Conditions as the Kubernetes API conventions want them."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tailguard_operator.api.base import Model, Timestamp, timestamp


class ConditionStatus(StrEnum):
    """The three values of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """One observation about the object."""

    type: Annotated[str, Field(max_length=64, description="What is observed, for example Ready.")]
    status: Annotated[ConditionStatus, Field(description="True, False or Unknown.")]
    reason: Annotated[
        str,
        Field(
            min_length=1,
            max_length=128,
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            description="Why, in one CamelCase word.",
        ),
    ]
    message: Annotated[str, Field(max_length=8192, description="Why, in a sentence for people.")] = ""
    last_transition_time: Annotated[Timestamp, Field(description="When the status last changed.")]
    observed_generation: Annotated[
        int | None, Field(ge=0, description="The generation of the spec that this was observed for.")
    ] = None


def set_condition(
    old: Sequence[Condition],
    type_: str,
    status: bool | None,
    reason: str,
    message: str,
    *,
    generation: int,
    now: datetime,
) -> Condition:
    """The condition `type_` after an observation; keeps the transition time while the status stays.

    Args:
        old: the conditions that the object has.
        type_: the condition's type.
        status: True, False, or None for Unknown.
        reason: one CamelCase word.
        message: a sentence.
        generation: the generation observed.
        now: the time of the observation.
    """
    value = {True: ConditionStatus.TRUE, False: ConditionStatus.FALSE, None: ConditionStatus.UNKNOWN}[status]
    before = next((c for c in old if c.type == type_), None)
    since = before.last_transition_time if before and before.status == value else timestamp(now)
    return Condition(
        type=type_,
        status=value,
        reason=reason,
        message=message[:8192],
        last_transition_time=since,
        observed_generation=generation,
    )
