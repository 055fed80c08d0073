"""Status of an `InferenceService`: what is, and everything that the next decision needs to know.

The status is the write-ahead log of the operator: a decision is written here first, then objects follow it.
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from tailguard_operator.api.base import Model, Timestamp
from tailguard_operator.api.conditions import Condition

REMEMBERED = 10
"""Most hashes that status remembers as rejected or aborted."""


class State(StrEnum):
    """Where a rollout is; every state of the table, also those that need a gateway."""

    STABLE = "Stable"
    STARTING = "Starting"
    BENCHMARK = "Benchmark"
    CONFIRM = "Confirm"
    LIVE = "Live"
    SWITCH = "Switch"
    GUARD = "Guard"
    KEPT = "Kept"
    HELD = "Held"
    PINNED = "Pinned"
    REJECTED = "Rejected"
    ABORTED = "Aborted"


class RevisionRef(Model):
    """A rendered revision."""

    revision: Annotated[str, Field(max_length=63, description="Hash of the rendered content.")]
    spec_hash: Annotated[str, Field(max_length=63, description="Hash of what the user wrote.")]
    since: Annotated[Timestamp | None, Field(description="Since when it has this role.")] = None
    slot: Annotated[int, Field(ge=0, description="Slot number of its serving pool.")] = 0
    moved_by: Annotated[
        int | None, Field(ge=0, description="Lease transitions of the leader that moved users to it.")
    ] = None


class RememberedHash(Model):
    """A revision that was refused, so that it is not tried again by itself."""

    spec_hash: Annotated[str, Field(max_length=63, description="Hash of what the user wrote.")]
    revision: Annotated[str, Field(max_length=63, description="Hash of the rendered content.")]
    verdict: Annotated[str, Field(max_length=32, description="Rejected or Aborted.")]
    reason: Annotated[str, Field(max_length=128, description="Why, in one word.")]
    message: Annotated[str, Field(max_length=2048, description="Why, in a sentence.")]
    at: Annotated[Timestamp, Field(description="When.")]
    benchmark: Annotated[str | None, Field(max_length=253, description="The deciding Benchmark.")] = None


class RolloutStatus(Model):
    """The change under way, or the last one."""

    state: Annotated[State, Field(description="Where the change is.")]
    reason: Annotated[str | None, Field(max_length=128, description="Why, in one word.")] = None
    message: Annotated[str | None, Field(max_length=4096, description="Why, in a sentence.")] = None
    spec_hash: Annotated[str, Field(max_length=63, description="Hash of what the user wrote.")]
    revision: Annotated[str | None, Field(max_length=63, description="Hash of the rendered content.")] = None
    since: Annotated[Timestamp, Field(description="Since when it is in this state.")]
    started_at: Annotated[Timestamp, Field(description="When the change was seen.")]
    pair: Annotated[int | None, Field(ge=0, description="Number of the present pair of pods.")] = None
    canary_pod: Annotated[str | None, Field(max_length=253, description="The canary pod that is measured.")] = None
    twin_pod: Annotated[str | None, Field(max_length=253, description="The twin pod that is measured.")] = None
    canary_node: Annotated[str | None, Field(max_length=253, description="Node of the suspected canary.")] = None
    twin_node: Annotated[str | None, Field(max_length=253, description="Node of its twin.")] = None
    benchmark: Annotated[str | None, Field(max_length=253, description="The running or deciding Benchmark.")] = None
    suspected_by: Annotated[
        str | None, Field(max_length=253, description="The Benchmark that raised the suspicion.")
    ] = None
    confirmed: Annotated[bool, Field(description="A confirmation has cleared a suspicion.")] = False
    job: Annotated[int, Field(ge=0, description="Number of the present Job of the Benchmark.")] = 0
    moved_by: Annotated[
        int | None, Field(ge=0, description="Lease transitions of the leader that moves users to it.")
    ] = None
    extended: Annotated[bool, Field(description="The budget was granted a second time.")] = False
    disruptions: Annotated[int, Field(ge=0, description="Pairs lost to disruptions.")] = 0
    twin_failures: Annotated[int, Field(ge=0, description="Twins that failed by themselves.")] = 0
    spent_requests: Annotated[int, Field(ge=0, description="Requests of finished benchmarks of this rollout.")] = 0
    spent_seconds: Annotated[int, Field(ge=0, description="Seconds of finished benchmarks of this rollout.")] = 0
    pod_minutes: Annotated[int, Field(ge=0, description="Pod-minutes that the rollout's extra pods took.")] = 0
    borrowed: Annotated[bool, Field(description="A stable replica gave its room to the twin.")] = False
    verdict: Annotated[
        str | None, Field(max_length=32, description="ROLLBACK, PROMOTE, INCONCLUSIVE or Overridden.")
    ] = None
    baseline: Annotated[str | None, Field(max_length=253, description="The Baseline written at PROMOTE.")] = None
    settings: Annotated[
        dict[str, Any] | None,
        Field(
            description="The slos, workload and rollout settings that this change is judged by.",
            json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
        ),
    ] = None


class FreezeStatus(Model):
    """A baseline being frozen."""

    benchmark: Annotated[str, Field(max_length=253, description="The A/A Benchmark.")]
    key: Annotated[str, Field(max_length=63, description="What the Baseline will be valid for.")]
    pair: Annotated[int, Field(ge=0, description="Number of the pair of pods.")]
    canary_pod: Annotated[str | None, Field(max_length=253, description="First pod of the pair.")] = None
    twin_pod: Annotated[str | None, Field(max_length=253, description="Second pod of the pair.")] = None
    single: Annotated[bool, Field(description="Only one pod had room: both arms are the same pod.")] = False
    baseline: Annotated[str | None, Field(max_length=253, description="The Baseline that is being written.")] = None
    since: Annotated[Timestamp, Field(description="When it began.")]
    job: Annotated[int, Field(ge=0, description="Number of the present Job of the Benchmark.")] = 0
    repeated: Annotated[bool, Field(description="An A/A alarm had it repeated.")] = False
    reason: Annotated[str | None, Field(max_length=128, description="Why it waits or failed.")] = None
    message: Annotated[str | None, Field(max_length=2048, description="The same in a sentence.")] = None
    failed: Annotated[bool, Field(description="It could not be frozen within its budget.")] = False


class BaselineRef(Model):
    """The Baseline in force."""

    name: Annotated[str, Field(max_length=253, description="Name of the Baseline.")]
    key: Annotated[str, Field(max_length=63, description="What it is valid for.")]


class OffsetStatus(Model):
    """How far identical pods differ, learned from A/A starts."""

    sd: Annotated[str, Field(max_length=16, description="Standard deviation of the log offset, as a decimal string.")]
    starts: Annotated[int, Field(ge=0, description="Number of A/A starts behind it.")]
    history: Annotated[
        list[Annotated[str, Field(max_length=16)]] | None,
        Field(
            max_length=32,
            description="Log offset of each A/A start.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None


class HandledCommands(Model):
    """The token of each command that was acted upon, so that it acts once."""

    retry: Annotated[str | None, Field(max_length=256, description="Handled retry token.")] = None
    promote: Annotated[str | None, Field(max_length=256, description="Handled promote token.")] = None
    abort: Annotated[str | None, Field(max_length=256, description="Handled abort token.")] = None
    pin: Annotated[str | None, Field(max_length=256, description="Handled pin token.")] = None
    refresh: Annotated[str | None, Field(max_length=256, description="Handled refresh token.")] = None


class InferenceServiceStatus(Model):
    """Observed state."""

    observed_generation: Annotated[int | None, Field(ge=0, description="Generation that the operator has seen.")] = None
    replicas: Annotated[int | None, Field(ge=0, description="Serving pods of the revision that users reach.")] = None
    ready_replicas: Annotated[int | None, Field(ge=0, description="Those that are Ready.")] = None
    selector: Annotated[
        str | None, Field(max_length=1024, description="Label selector of the serving pods, for /scale.")
    ] = None
    address: Annotated[
        str | None, Field(max_length=512, description="Where clients inside the cluster reach the service.")
    ] = None
    stable: Annotated[RevisionRef | None, Field(description="The revision that serves users.")] = None
    previous: Annotated[RevisionRef | None, Field(description="The revision before it, while its pods are kept.")] = (
        None
    )
    route: Annotated[str | None, Field(max_length=63, description="Revision that the Service is meant to select.")] = (
        None
    )
    canary: Annotated[str | None, Field(max_length=63, description="Revision on trial.")] = None
    weight: Annotated[
        int | None,
        Field(ge=0, le=100, description="Share of live traffic on the revision on trial, percent."),
    ] = None
    verdict: Annotated[str | None, Field(max_length=32, description="Last verdict.")] = None
    p99: Annotated[
        str | None,
        Field(max_length=32, description="P99 latency of the revision that serves, from its last benchmark."),
    ] = None
    rollout: Annotated[RolloutStatus | None, Field(description="The change under way, or the last one.")] = None
    freeze: Annotated[FreezeStatus | None, Field(description="The baseline being frozen.")] = None
    baseline: Annotated[BaselineRef | None, Field(description="The baseline in force.")] = None
    offset: Annotated[OffsetStatus | None, Field(description="How far identical pods differ.")] = None
    benchmarks: Annotated[int, Field(ge=0, description="Number of Benchmarks made so far.")] = 0
    pairs: Annotated[int, Field(ge=0, description="Number of pairs of pods made so far.")] = 0
    remembered: Annotated[
        list[RememberedHash] | None,
        Field(
            max_length=REMEMBERED,
            description="Refused revisions.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    images: Annotated[
        dict[str, Annotated[str, Field(max_length=512)]] | None,
        Field(max_length=16, description="Image that the first Ready pod of each revision ran: a tag may move."),
    ] = None
    handled: Annotated[HandledCommands | None, Field(description="Commands that were acted upon.")] = None
    conditions: Annotated[
        list[Condition] | None,
        Field(
            max_length=8,
            description="Ready, Reconciling, Stalled, WithinSLO, RolloutComplete.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = None
