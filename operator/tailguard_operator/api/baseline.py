"""`Baseline`: a frozen snapshot of how a revision performs; immutable, named by the hash of its content."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from tailguard_operator.api.base import EnvironmentEntry, Model, Timestamp


class Calibration(StrEnum):
    """How the difference of identical pods was seen."""

    MEASURED = "Measured"
    PROMOTED = "Promoted"
    MISSING = "Missing"


class Quantile(Model):
    """A quantile with its interval, in whole microseconds."""

    metric: Annotated[str, Field(max_length=32, description="TTFT, TPOT or Latency.")]
    request_class: Annotated[str, Field(max_length=63, description="Class of requests.")]
    percentile: Annotated[str, Field(max_length=4, description='Percentile, such as "99".')]
    microseconds: Annotated[int | None, Field(ge=0, description="The value; left out when unbounded.")] = None
    low_microseconds: Annotated[int | None, Field(ge=0, description="Lower end of the 95 % interval.")] = None
    high_microseconds: Annotated[int | None, Field(ge=0, description="Upper end; left out when unbounded.")] = None
    requests: Annotated[int, Field(ge=0, description="Requests behind it.")]


class SampleStore(Model):
    """Where the raw samples are."""

    benchmark: Annotated[str, Field(max_length=253, description="The Benchmark that measured them.")]
    slots: Annotated[int, Field(ge=0, description="Number of slots.")]
    sha256: Annotated[
        list[Annotated[str, Field(max_length=64)]],
        Field(
            max_length=1024,
            description="Digest of each slot.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ]


class BaselineSpec(Model):
    """The snapshot."""

    service: Annotated[str, Field(max_length=63, description="The InferenceService.")]
    revision: Annotated[str, Field(max_length=63, description="The revision measured.")]
    spec_hash: Annotated[str, Field(max_length=63, description="Hash of what the user wrote.")]
    key: Annotated[str, Field(max_length=63, description="Hash of revision, workload, classes and environment.")]
    workload_hash: Annotated[str, Field(max_length=64, description="Hash of the workload.")]
    environment: Annotated[dict[str, EnvironmentEntry], Field(max_length=64, description="The environment measured in.")]
    calibration: Annotated[
        Calibration,
        Field(description="Measured by an A/A pair, Promoted from a canary's samples, or Missing."),
    ]
    offsets: Annotated[
        list[Annotated[str, Field(max_length=16)]] | None,
        Field(
            max_length=32,
            description="Log offset of the A/A pair by metric, as decimal strings.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    quantiles: Annotated[
        list[Quantile],
        Field(max_length=256, description="Latencies.", json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ]
    thresholds: Annotated[
        dict[str, Any],
        Field(
            description="First thresholds of the score, in whole microseconds.",
            json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
        ),
    ]
    samples: Annotated[SampleStore, Field(description="The raw samples.")]
    frozen_at: Annotated[Timestamp, Field(description="When it was frozen.")]


class Baseline(Model):
    """A frozen snapshot of how a revision performs."""

    spec: Annotated[BaselineSpec, Field(description="The snapshot; never changes.")]
