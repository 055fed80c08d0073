"""Service-level objectives: bounds on a class of requests."""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tailguard_operator.api.base import Model, Name
from tailguard_operator.api.rules import Matches, Rule

_AMOUNT = r"[0-9]+(\.[0-9]+)?"
_DURATION = rf"^{_AMOUNT}(ms|s|m|h)$"
_PERCENT = rf"^{_AMOUNT}%$"
_PLAIN = rf"^{_AMOUNT}$"


class Metric(StrEnum):
    """What an objective bounds."""

    TTFT = "TTFT"
    TPOT = "TPOT"
    LATENCY = "Latency"
    ERROR_RATE = "ErrorRate"
    THROUGHPUT = "Throughput"
    AVAILABILITY = "Availability"


_LATENCY = (Metric.TTFT, Metric.TPOT, Metric.LATENCY)


class TokenRange(Model):
    """A range of token counts, both ends included."""

    rules = (
        Rule(
            cel="!has(self.min) || !has(self.max) || self.min <= self.max",
            holds=lambda r: r.min is None or r.max is None or r.min <= r.max,
            message="promptTokens.min must not be larger than promptTokens.max; exchange them or leave one out",
        ),
    )

    min: Annotated[int | None, Field(ge=0, le=10_000_000, description="Least number of tokens. 0 if left out.")] = None
    max: Annotated[
        int | None, Field(ge=1, le=10_000_000, description="Largest number of tokens. No limit if left out.")
    ] = None


class RequestSelector(Model):
    """Which requests belong to a class."""

    prompt_tokens: Annotated[
        TokenRange | None, Field(description="Requests whose prompt has a number of tokens in this range.")
    ] = None


def _bound(text: str | None, pattern: str) -> bool:
    return text is not None and re.fullmatch(pattern, text) is not None


class Objective(Model):
    """A bound on one metric."""

    rules = (
        Rule(
            cel="!(self.metric in ['TTFT', 'TPOT', 'Latency']) || "
            f"(has(self.percentile) && has(self.max) && self.max.matches(r'{_DURATION}') && !has(self.min))",
            holds=lambda o: (
                o.metric not in _LATENCY or (bool(o.percentile) and _bound(o.max, _DURATION) and o.min is None)
            ),
            message="a TTFT, TPOT or Latency objective needs percentile and, as max, a duration, and has no min; "
            'write it like {metric: TTFT, percentile: "99", max: 800ms}',
        ),
        Rule(
            cel="self.metric != 'ErrorRate' || "
            f"(has(self.max) && self.max.matches(r'{_PERCENT}') && !has(self.min) && !has(self.percentile))",
            holds=lambda o: (
                o.metric != Metric.ERROR_RATE or (_bound(o.max, _PERCENT) and o.min is None and o.percentile is None)
            ),
            message="an ErrorRate objective needs max, a percentage, and has no min and no percentile; "
            "write it like {metric: ErrorRate, max: 1%}",
        ),
        Rule(
            cel="self.metric != 'Throughput' || "
            f"(has(self.min) && self.min.matches(r'{_PLAIN}') && !has(self.max) && !has(self.percentile))",
            holds=lambda o: (
                o.metric != Metric.THROUGHPUT or (_bound(o.min, _PLAIN) and o.max is None and o.percentile is None)
            ),
            message="a Throughput objective needs min, in output tokens a second, and has no max and no percentile; "
            'write it like {metric: Throughput, min: "1200"}',
        ),
        Rule(
            cel="self.metric != 'Availability' || "
            f"(has(self.min) && self.min.matches(r'{_PERCENT}') && !has(self.max) && !has(self.percentile))",
            holds=lambda o: (
                o.metric != Metric.AVAILABILITY or (_bound(o.min, _PERCENT) and o.max is None and o.percentile is None)
            ),
            message="an Availability objective needs min, a percentage, and has no max and no percentile; "
            "write it like {metric: Availability, min: 99.9%}",
        ),
    )

    metric: Annotated[
        Metric,
        Field(
            description="What is bounded: TTFT (time to the first token), TPOT (time per output token after it), "
            "Latency (end to end), ErrorRate, Throughput (output tokens a second) or Availability."
        ),
    ]
    percentile: Annotated[
        str | None,
        Field(
            max_length=8,
            description='Percentile of TTFT, TPOT or Latency, a string from "50" to "99.9".',
        ),
        Matches(
            r"^[5-9][0-9](\.[0-9])?$",
            'percentile must be a string from "50" to "99.9" with at most one decimal; the 100th percentile of a '
            'sample is its largest value and says nothing about the next request, so use "99" or "99.9"',
        ),
    ] = None
    max: Annotated[
        str | None,
        Field(
            max_length=32,
            description="Upper bound: a duration for TTFT, TPOT and Latency (800ms), a percentage for ErrorRate (1%).",
        ),
        Matches(
            rf"^{_AMOUNT}(ms|s|m|h|%)$",
            "max must be a duration or a percentage; write it like 800ms, 1.5s or 1%",
        ),
    ] = None
    min: Annotated[
        str | None,
        Field(
            max_length=32,
            description='Lower bound: output tokens a second for Throughput ("1200"), a percentage for Availability '
            "(99.9%).",
        ),
        Matches(
            rf"^{_AMOUNT}%?$",
            'min must be a number or a percentage, as a string; write it like "1200" or 99.9%',
        ),
    ] = None


class ServiceLevel(Model):
    """The objectives of one class of requests."""

    name: Annotated[Name, Field(description="Name of the class, unique in the service.")]
    when: Annotated[
        RequestSelector | None, Field(description="Which requests belong to the class. All of them if left out.")
    ] = None
    objectives: Annotated[
        list[Objective],
        Field(
            min_length=1,
            max_length=16,
            description="The bounds. A bound that stable itself does not meet never holds a change back.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ]
