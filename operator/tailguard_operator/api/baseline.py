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

    metric: Annotated[str, Field(max_length=32, description="What was measured: TTFT, TPOT or Latency.")]
    request_class: Annotated[
        str, Field(max_length=63, description="Class of requests, as in spec.slos of the service; all if it has none.")
    ]
    percentile: Annotated[str, Field(max_length=4, description='Percentile, such as "99".')]
    microseconds: Annotated[
        int | None, Field(ge=0, description="The quantile. Left out when more requests failed than it leaves above it.")
    ] = None
    low_microseconds: Annotated[int | None, Field(ge=0, description="Lower end of its 95 % interval.")] = None
    high_microseconds: Annotated[
        int | None,
        Field(
            ge=0, description="Upper end of its 95 % interval. Left out when there are too few requests to bound it."
        ),
    ] = None
    requests: Annotated[int, Field(ge=0, description="Number of requests behind it.")]


class SampleStore(Model):
    """Where the raw samples are."""

    benchmark: Annotated[str, Field(max_length=253, description="The Benchmark that measured them.")]
    slots: Annotated[int, Field(ge=0, description="Number of slots stored, in ConfigMaps named BENCHMARK-NUMBER.")]
    sha256: Annotated[
        list[Annotated[str, Field(max_length=64)]],
        Field(
            max_length=1024,
            description="SHA-256 of each slot's samples, in hexadecimal.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ]


class BaselineSpec(Model):
    """The snapshot."""

    service: Annotated[
        str, Field(max_length=63, description="The InferenceService that was measured, in the same namespace.")
    ]
    revision: Annotated[str, Field(max_length=63, description="Its revision, the hash of what ran.")]
    spec_hash: Annotated[
        str, Field(max_length=63, description="Hash of what the user wrote under spec.model and spec.engine.")
    ]
    key: Annotated[
        str,
        Field(
            max_length=63,
            description="What the snapshot is valid for: hash of revision, workload, classes and environment.",
        ),
    ]
    workload_hash: Annotated[str, Field(max_length=64, description="Hash of the requests that were sent.")]
    environment: Annotated[
        dict[str, EnvironmentEntry],
        Field(max_length=64, description="Where it was measured: node, engine, versions and flags."),
    ]
    calibration: Annotated[
        Calibration,
        Field(
            description="How far identical pods differ: Measured by an A/A pair, Promoted with a canary's samples, or "
            "Missing."
        ),
    ]
    offsets: Annotated[
        list[Annotated[str, Field(max_length=16)]] | None,
        Field(
            max_length=32,
            description="Offset between the identical pods of the A/A pair by metric, as logarithms in decimal.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    quantiles: Annotated[
        list[Quantile],
        Field(
            max_length=256,
            description="Latencies by metric, class and percentile.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ]
    thresholds: Annotated[
        dict[str, Any],
        Field(
            description="First thresholds of the judge's score by METRIC/CLASS, in whole microseconds.",
            json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
        ),
    ]
    samples: Annotated[SampleStore, Field(description="Where the raw samples are stored.")]
    frozen_at: Annotated[Timestamp, Field(description="When the snapshot was frozen.")]


class Baseline(Model):
    """A frozen snapshot of how a revision performs."""

    spec: Annotated[
        BaselineSpec, Field(description="The snapshot. It never changes; another measurement is another Baseline.")
    ]
