"""`Benchmark`: one measurement of two arms, and what it showed."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from tailguard_operator.api.base import EnvironmentEntry, Model, Timestamp
from tailguard_operator.api.conditions import Condition
from tailguard_operator.api.service import SlotSize


class Purpose(StrEnum):
    """Why it is measured."""

    BASELINE = "Baseline"
    CANARY = "Canary"
    CONFIRM = "Confirm"


class Arm(Model):
    """The pods of one arm."""

    revision: Annotated[str, Field(max_length=63, description="Revision that the arm runs.")]
    role: Annotated[
        str,
        Field(
            max_length=32, description="Role of its pods: serving, twin, confirm-canary, confirm-twin, aa-a or aa-b."
        ),
    ]
    slot: Annotated[int, Field(ge=0, description="Number of the pool that its pods belong to.")]


class Arms(Model):
    """Both arms; of an A/A pair one plays the canary."""

    canary: Annotated[Arm, Field(description="The arm on trial.")]
    twin: Annotated[Arm, Field(description="The arm that it is compared with.")]


class WorkloadSource(Model):
    """What was sent."""

    config_map: Annotated[
        str | None,
        Field(max_length=253, description="ConfigMap that the requests came from. Left out for the default workload."),
    ] = None
    hash: Annotated[str, Field(max_length=64, description="Hash of the requests that are sent.")]


class BenchmarkSpec(Model):
    """What is measured; never changes."""

    service: Annotated[
        str, Field(max_length=63, description="The InferenceService that is measured, in the same namespace.")
    ]
    purpose: Annotated[
        Purpose,
        Field(
            description="Why: Baseline (identical pods), Canary (a change), or Confirm (a suspicion, on fresh pods)."
        ),
    ]
    arms: Annotated[Arms, Field(description="The two arms that get the same requests in turn.")]
    confirms: Annotated[
        str | None, Field(max_length=253, description="The Benchmark whose suspicion this one checks.")
    ] = None
    baseline: Annotated[str | None, Field(max_length=253, description="The Baseline behind the first thresholds.")] = (
        None
    )
    workload: Annotated[WorkloadSource, Field(description="The requests that are sent.")]
    rate_per_second: Annotated[int, Field(ge=1, description="Requests a second to the arm whose turn it is.")]
    slot: Annotated[SlotSize, Field(description="Size of one slot: the same requests to one arm, then to the other.")]
    seed: Annotated[int, Field(ge=0, description="Seed of requests, offsets and coin flips.")]
    judge: Annotated[
        dict[str, Any],
        Field(
            description="Everything the verdict depends on besides the samples.",
            json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
        ),
    ]
    objectives: Annotated[
        list[dict[str, Any]] | None,
        Field(
            max_length=256,
            description="Latency bounds checked on both arms: requestClass, metric, percentile, maxMicroseconds.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    environment: Annotated[
        dict[str, EnvironmentEntry] | None,
        Field(
            max_length=64,
            description="Where it is measured: nodes, engines, versions and flags, pinned with the result.",
        ),
    ] = None


class BenchmarkStatus(Model):
    """What it showed, as recomputed by the operator from the stored samples."""

    outcome: Annotated[
        str | None, Field(max_length=32, description="Continue, Alarm, GrossAlarm, Promote or BudgetSpent.")
    ] = None
    message: Annotated[str | None, Field(max_length=4096, description="The outcome in a sentence.")] = None
    slots: Annotated[int | None, Field(ge=0, description="Stored slots.")] = None
    requests: Annotated[int | None, Field(ge=0, description="Requests to both arms.")] = None
    started_at: Annotated[Timestamp | None, Field(description="When the first slot was stored.")] = None
    finished_at: Annotated[Timestamp | None, Field(description="When it was decided or given up.")] = None
    verdict: Annotated[
        dict[str, Any] | None,
        Field(
            description="The verdict with its evidence: estimates with intervals, flags, and evidence after each slot.",
            json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
        ),
    ] = None
    conditions: Annotated[
        list[Condition] | None,
        Field(
            max_length=8,
            description="Complete: True once it is decided or given up.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = None


class Benchmark(Model):
    """One measurement: the same requests to two arms, in turn by coin flip."""

    spec: Annotated[BenchmarkSpec, Field(description="What is measured; never changes.")]
