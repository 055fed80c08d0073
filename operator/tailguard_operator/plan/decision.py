"""What a decision says: the whole desired state, in intents that `resources` turns into objects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailguard_operator.api.status import InferenceServiceStatus
from tailguard_operator.plan.world import PoolKey


@dataclass(frozen=True, slots=True)
class Pool:
    """A Deployment that should exist."""

    key: PoolKey
    replicas: int
    moved_by: int | None = None
    """`leaseTransitions` of the leader that moves users to it; written before they move."""
    avoid_nodes: tuple[str, ...] = ()
    """Nodes that its pods should rather not use (a confirmation swaps nodes where it can)."""


@dataclass(frozen=True, slots=True)
class BenchmarkOrder:
    """A Benchmark that should exist. `spec` is a `BenchmarkSpec` as plain data."""

    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PodTarget:
    """A pod to measure."""

    pod: str
    ip: str
    revision: str


@dataclass(frozen=True, slots=True)
class JobOrder:
    """The Job of a Benchmark that should run now."""

    benchmark: str
    benchmark_uid: str
    number: int
    """0 for the first; a later one goes on where the one before stopped."""
    start_slot: int
    max_slots: int
    """Slots of the Benchmark after which the Job ends, stored ones included."""
    valid_slots: int | None
    """Valid slots after which the Job ends whatever they show; None lets the evidence decide."""
    spec: Mapping[str, Any]
    canary: PodTarget
    twin: PodTarget


@dataclass(frozen=True, slots=True)
class BaselineOrder:
    """A Baseline that should exist. `spec` is a `BaselineSpec` as plain data."""

    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event on the service, sent when the decision is new."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one planning. Status is written first; objects follow it.

    `pools` is complete: a pool of ours that is not in it is removed, after everything else is applied.
    """

    status: InferenceServiceStatus
    pools: tuple[Pool, ...] = ()
    route_to: str | None = None
    """Revision that the Service selects; None leaves it as it is."""
    render: bool = False
    """Render the revision of the present spec first, then plan again."""
    benchmark: BenchmarkOrder | None = None
    job: JobOrder | None = None
    stop_jobs: tuple[str, ...] = ()
    """Jobs to delete: their Benchmark is decided or given up."""
    finished: tuple[str, ...] = ()
    """Benchmarks whose status gets their final evidence."""
    baseline: BaselineOrder | None = None
    remove_benchmarks: tuple[str, ...] = ()
    remove_baselines: tuple[str, ...] = ()
    remove_revisions: tuple[str, ...] = ()
    close_connections: tuple[str, ...] = ()
    """IPs of pods that users leave: open keep-alive connections end after their next answer."""
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None
    """Seconds until the next look, when nothing else happens before."""
