"""What a decision is made from: the cluster as observed at one moment, as plain data.

The edge (`cluster`) fills these views; everything else reads them. Views hold only what a decision needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from tailguard_operator.api.service import InferenceServiceSpec
from tailguard_operator.api.status import InferenceServiceStatus


class Role(StrEnum):
    """What the pods of a pool are for. Roles never change; only `serving` is ever promoted."""

    SERVING = "serving"
    TWIN = "twin"
    CONFIRM_CANARY = "confirm-canary"
    CONFIRM_TWIN = "confirm-twin"
    AA_A = "aa-a"
    AA_B = "aa-b"


@dataclass(frozen=True, slots=True, order=True)
class PoolKey:
    """One Deployment: its name and every selector follow from this."""

    revision: str
    role: Role
    slot: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pod does not work, in the kubelet's own words."""

    reason: str
    message: str
    exited: bool = False
    """The engine's container ended by itself (exit, OOM kill, failed liveness), without a disruption."""
    fatal: bool = False
    """Waiting longer will not help: crash loop, image or configuration error."""


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod of a pool."""

    name: str
    pool: PoolKey
    ip: str
    node: str
    created: datetime
    ready: bool
    image_id: str = ""
    failure: Failure | None = None
    disrupted: str = ""
    """Reason of a disruption (evicted, DisruptionTarget, node gone); empty when there was none."""
    unschedulable: str = ""
    """The scheduler's message; empty when it has room."""
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class PoolView:
    """One Deployment of the service."""

    key: PoolKey
    uid: str
    resource_version: str
    replicas: int
    created: datetime
    owned: bool = True
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class ServiceView:
    """The Service that users reach."""

    uid: str
    resource_version: str
    revision: str
    """Revision that its selector names; empty when none."""
    owned: bool


@dataclass(frozen=True, slots=True)
class RevisionView:
    """A rendered revision, as stored in its ControllerRevision."""

    revision: str
    spec_hash: str
    created: datetime
    startup_seconds: int
    """Longest start that its start-up probe allows."""


@dataclass(frozen=True, slots=True)
class JobView:
    """One Job of a Benchmark."""

    name: str
    number: int
    uid: str
    resource_version: str
    created: datetime
    active: bool
    succeeded: bool
    failed: bool
    reason: str = ""
    pending_since: datetime | None = None
    """Since when its pod has not been running; None once it has."""


@dataclass(frozen=True, slots=True)
class ObjectiveResult:
    """One latency bound checked on one arm's samples."""

    arm: str
    """canary or twin."""
    request_class: str
    metric: str
    percentile: str
    max_seconds: float
    measured_seconds: float
    """The measured quantile, in seconds; inf when more requests failed than the percentile leaves."""

    @property
    def met(self) -> bool:
        """Whether the bound holds."""
        return self.measured_seconds <= self.max_seconds


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the stored samples of a Benchmark show, recomputed by the operator."""

    outcome: str = "Continue"
    """Continue, Alarm, GrossAlarm, Promote or BudgetSpent."""
    reason: str = ""
    message: str = ""
    claim: str = ""
    slots: int = 0
    """Stored slots, void ones included."""
    void_slots: int = 0
    requests: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    verdict: Mapping[str, Any] = field(default_factory=dict)
    """`Verdict.to_json()`."""
    frozen: Mapping[str, Any] | None = None
    """`Frozen.to_json()` of the canary arm's (or, in an A/A start, both arms') samples, once decided."""
    objectives: tuple[ObjectiveResult, ...] = ()
    sha256: tuple[str, ...] = ()
    broken: str = ""
    """Why the samples cannot be read; then there is no verdict."""


@dataclass(frozen=True, slots=True)
class BenchmarkView:
    """A Benchmark with its Jobs and evidence."""

    name: str
    uid: str
    resource_version: str
    created: datetime
    spec: Mapping[str, Any]
    finished: bool
    jobs: tuple[JobView, ...] = ()
    evidence: Evidence = Evidence()


@dataclass(frozen=True, slots=True)
class BaselineView:
    """A frozen Baseline."""

    name: str
    uid: str
    resource_version: str
    key: str
    revision: str
    spec: Mapping[str, Any]
    created: datetime


@dataclass(frozen=True, slots=True)
class Workload:
    """The workload that the spec names, as it is now."""

    hash: str
    config_map: str | None = None
    jsonl: str | None = None
    problem: str = ""
    """Why it cannot be used; empty when it can."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many more engine pods of this service the nodes have room for, and what is missing for the next one."""

    pods: int
    shortage: str = ""


@dataclass(frozen=True, slots=True)
class World:
    """One service and all that belongs to it."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    generation: int
    spec: InferenceServiceSpec
    spec_hash: str
    """Hash of what the user wrote under `model` and `engine` (and the handled refresh token)."""
    problems: tuple[str, ...]
    """What is wrong with the spec, a sentence each; empty when it is valid."""
    status: InferenceServiceStatus
    commands: Mapping[str, str]
    """Annotations `tailguard.dev/COMMAND`, by command."""
    deleting: bool
    revisions: tuple[RevisionView, ...] = ()
    pools: tuple[PoolView, ...] = ()
    pods: tuple[PodView, ...] = ()
    service: ServiceView | None = None
    benchmarks: tuple[BenchmarkView, ...] = ()
    baselines: tuple[BaselineView, ...] = ()
    workload: Workload = Workload(hash="")
    environment: Mapping[str, str] = field(default_factory=dict)
    """Fingerprint of the nodes that the stable pods run on."""
    room: Room = Room(pods=1_000)
    lease_transitions: int = 0
    """`leaseTransitions` of the Lease that this operator holds."""
    warnings: tuple[str, ...] = ()
    """What is allowed but doubtful, a sentence each."""

    def revision_of(self, spec_hash: str) -> RevisionView | None:
        """The newest rendered revision of `spec_hash`."""
        found = [r for r in self.revisions if r.spec_hash == spec_hash]
        return max(found, key=lambda r: (r.created, r.revision)) if found else None

    def revision(self, revision: str) -> RevisionView | None:
        """The rendered revision named `revision`."""
        return next((r for r in self.revisions if r.revision == revision), None)

    def pods_of(self, key: PoolKey) -> tuple[PodView, ...]:
        """Pods of one pool that are not on their way out."""
        return tuple(p for p in self.pods if p.pool == key and not p.deleting)

    def benchmark(self, name: str | None) -> BenchmarkView | None:
        """The Benchmark named `name`."""
        return next((b for b in self.benchmarks if b.name == name), None)
