"""`Sim`: a small stand-in for a cluster that applies decisions at once, for tests of `decide` alone.

It keeps what a real cluster would keep: pools make pods, pods become Ready or fail as told, Jobs run, slots arrive.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tailguard_operator.api import InferenceServiceSpec, InferenceServiceStatus
from tailguard_operator.plan import Decision, World, decide, needs_evidence
from tailguard_operator.plan.decision import Event
from tailguard_operator.plan.world import (
    BaselineView,
    BenchmarkView,
    Evidence,
    Failure,
    JobView,
    PodView,
    PoolKey,
    PoolView,
    RevisionView,
    Role,
    Room,
    ServiceView,
    Workload,
)

START = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)
FROZEN: dict[str, Any] = {
    "quantiles": [
        {"metric": "Latency", "requestClass": "all", "percentile": "99", "microseconds": 250_000, "requests": 1000}
    ],
    "thresholds": {"Latency/all": {"p90": 200_000, "p99": 250_000}},
    "offsets": ["0.01"],
    "slots": 10,
    "alarm": False,
    "startOffset": "0.01",
    "startVariance": "0.0001",
}
Behaviour = Callable[[PoolKey], str]


def ready(_: PoolKey) -> str:
    """Every pod becomes Ready."""
    return "ready"


@dataclass
class Sim:
    """The cluster of one service."""

    spec_hash: str = "aaaa"
    spec: InferenceServiceSpec = field(default_factory=lambda: InferenceServiceSpec.parse(SPEC, "spec"))
    problems: tuple[str, ...] = ()
    commands: dict[str, str] = field(default_factory=dict)
    now: datetime = START
    generation: int = 1
    status: InferenceServiceStatus = field(default_factory=InferenceServiceStatus)
    revisions: dict[str, RevisionView] = field(default_factory=dict)
    pools: dict[PoolKey, PoolView] = field(default_factory=dict)
    pods: dict[str, PodView] = field(default_factory=dict)
    service: ServiceView | None = None
    benchmarks: dict[str, BenchmarkView] = field(default_factory=dict)
    baselines: dict[str, BaselineView] = field(default_factory=dict)
    workload: Workload = field(default_factory=lambda: Workload(hash="w1"))
    room: int = 10
    environment: dict[str, str] = field(default_factory=lambda: {"kernel": "6"})
    lease_transitions: int = 3
    deleting: bool = False
    behaviour: Behaviour = ready
    lingering: bool = False
    """Whether pods of removed pools stay, on their way out, until `gone`."""
    events: list[str] = field(default_factory=list)
    told: list[Event] = field(default_factory=list)
    routed: list[str] = field(default_factory=list)
    ready_when_routed: list[int] = field(default_factory=list)
    """Ready pods of the revision at each move of users."""
    forced: list[bool] = field(default_factory=list)
    """Whether, at each move, users had no Ready pod to stay on."""
    orders: list[Any] = field(default_factory=list)
    """Jobs as they were ordered."""
    made: int = 0
    last: Decision | None = None

    def world(self) -> World:
        """What an observer would see."""
        world = World(
            name="chat",
            namespace="default",
            uid="uid-1",
            resource_version="1",
            generation=self.generation,
            spec=self.spec,
            spec_hash=self.hash(),
            problems=self.problems,
            status=self.status,
            commands=dict(self.commands),
            deleting=self.deleting,
            revisions=tuple(self.revisions.values()),
            pools=tuple(self.pools.values()),
            pods=tuple(self.pods.values()),
            service=self.service,
            benchmarks=tuple(self.benchmarks.values()),
            baselines=tuple(self.baselines.values()),
            workload=self.workload,
            environment=dict(self.environment),
            room=Room(self.room, "memory"),
            lease_transitions=self.lease_transitions,
        )
        wanted = needs_evidence(world)
        seen = tuple(b if b.name in wanted else replace(b, evidence=Evidence()) for b in world.benchmarks)
        return replace(world, benchmarks=seen)

    def hash(self) -> str:
        """Hash of what the user wrote, and of the handled refresh token."""
        refresh = self.status.handled.refresh if self.status.handled else None
        return f"{self.spec_hash}{refresh or ''}"

    def step(self, seconds: float = 1.0) -> Decision:
        """One pass of the operator, then time passes and pods move on."""
        decision = decide(self.world(), self.now)
        self.apply(decision)
        self.now += timedelta(seconds=seconds)
        self.kubelet()
        self.last = decision
        return decision

    def run(self, until: Callable[["Sim"], bool], *, limit: int = 300, seconds: float = 1.0) -> "Sim":
        """Steps until `until` holds; fails with the story so far when it never does."""
        for _ in range(limit):
            if until(self):
                return self
            self.step(seconds)
        raise AssertionError(f"never happened; rollout {self.status.rollout}, events {self.events[-8:]}")

    def apply(self, decision: Decision, *, upto: int | None = None) -> None:
        """Applies the decision's writes in their binding order; `upto` stops after that many (a crash)."""
        writes: list[Callable[[], None]] = []
        if decision.status != self.status:
            writes.append(lambda: self._set_status(decision))
        if decision.render:
            writes.append(self._render)
        if decision.benchmark:
            writes.append(lambda: self._make_benchmark(decision))
        writes += [lambda pool=pool: self._make_pool(pool) for pool in decision.pools]  # type: ignore[misc]
        if decision.baseline:
            writes.append(lambda: self._make_baseline(decision))
        if decision.route_to and (self.service is None or self.service.revision != decision.route_to):
            writes.append(lambda: self._route(decision.route_to or ""))
        if decision.job:
            writes.append(lambda: self._make_job(decision))
        writes += [lambda name=name: self._finish(name) for name in decision.finished]  # type: ignore[misc]
        kept = {p.key for p in decision.pools}
        writes += [lambda key=key: self._remove(key) for key in list(self.pools) if key not in kept]  # type: ignore[misc]
        writes += [lambda name=name: self._stop(name) for name in decision.stop_jobs]  # type: ignore[misc]
        writes += [lambda n=n: self.benchmarks.pop(n, None) for n in decision.remove_benchmarks]  # type: ignore[misc]
        writes += [lambda n=n: self.baselines.pop(n, None) for n in decision.remove_baselines]  # type: ignore[misc]
        writes += [lambda n=n: self.revisions.pop(n, None) for n in decision.remove_revisions]  # type: ignore[misc]
        for write in writes[:upto]:
            write()

    def kubelet(self) -> None:
        """Pods of every pool exist and behave as told."""
        for key, pool in self.pools.items():
            mine = [p for p in self.pods.values() if p.pool == key and not p.deleting]
            missing = 0 if self.behaviour(key) == "refused" else pool.replicas - len(mine)
            for _ in range(missing):
                self.made += 1
                name = f"{key.revision}-{key.role}-{key.slot}-{self.made}"
                self.pods[name] = PodView(name, key, "", "node-1", self.now, ready=False)
            for extra in mine[pool.replicas :]:
                del self.pods[extra.name]
        for name, pod in list(self.pods.items()):
            self.pods[name] = pod if pod.deleting else self._behave(pod)

    def gone(self) -> None:
        """Pods that were on their way out have ended."""
        self.lingering = False
        self.pods = {n: p for n, p in self.pods.items() if not p.deleting}

    def lose(self, name: str | None, how: str = "deleted") -> None:
        """A pod goes: deleted by somebody (its pool makes another one), or evicted."""
        assert name is not None
        pod = self.pods.pop(name)
        if how != "deleted":
            self.pods[name] = replace(pod, ready=False, disrupted=how, deleting=True)

    def slots(self, evidence: Evidence) -> None:
        """The running Benchmark's evidence becomes `evidence`."""
        name = next(n for n, b in reversed(self.benchmarks.items()) if not b.finished)
        stamped = replace(evidence, first_at=evidence.first_at or self.now, last_at=self.now)
        self.benchmarks[name] = replace(self.benchmarks[name], evidence=stamped)

    def fail_job(self, reason: str = "Evicted") -> None:
        """The running Job of the measuring Benchmark fails."""
        view = next(b for b in reversed(self.benchmarks.values()) if not b.finished)
        jobs = tuple(replace(j, failed=True, active=False, reason=reason) for j in view.jobs)
        self.benchmarks[view.name] = replace(view, jobs=jobs)

    def command(self, name: str, token: str = "ann-1") -> "Sim":
        """A person annotates the service."""
        self.commands[name] = token
        return self

    @property
    def state(self) -> str:
        """State of the rollout."""
        assert self.status.rollout is not None
        return self.status.rollout.state.value

    @property
    def roles(self) -> set[str]:
        """Roles that have a pool."""
        return {key.role.value for key in self.pools}

    def spec_is(self, spec_hash: str, **changes: Any) -> "Sim":
        """The user applies another spec."""
        self.spec_hash = spec_hash
        self.spec = self.spec.model_copy(update=changes)
        self.generation += 1
        return self

    def condition(self, type_: str) -> Any:
        """A condition, or None."""
        return next((c for c in self.status.conditions or () if c.type == type_), None)

    def _behave(self, pod: PodView) -> PodView:
        kind = self.behaviour(pod.pool)
        if kind in ("ready", "moved"):
            image = "sha256:1" if kind == "ready" else "sha256:2"
            return replace(
                pod, ready=True, ip="127.0.0.1", image_id=image, failure=None, unschedulable="", disrupted=""
            )
        if kind == "pull":
            return replace(pod, failure=Failure("ImagePullBackOff", "no such image", fatal=True))
        if kind == "exit":
            return replace(pod, ready=False, failure=Failure("Error", "exit code 1", exited=True))
        if kind == "evicted":
            return replace(pod, ready=False, disrupted="Evicted")
        if kind == "full":
            return replace(pod, unschedulable="0/1 nodes: insufficient memory", node="")
        return pod

    def _set_status(self, decision: Decision) -> None:
        self.status = decision.status
        self.events += [e.reason for e in decision.events]
        self.told += decision.events

    def _render(self) -> None:
        name = f"r{self.hash()}"
        self.revisions.setdefault(name, RevisionView(name, self.hash(), self.now, startup_seconds=60))

    def _make_benchmark(self, decision: Decision) -> None:
        order = decision.benchmark
        assert order is not None
        made = BenchmarkView(order.name, f"uid-{order.name}", "1", self.now, order.spec, finished=False)
        self.benchmarks.setdefault(order.name, made)

    def _make_pool(self, pool: Any) -> None:
        old = self.pools.get(pool.key)
        made = old or PoolView(pool.key, f"uid-{pool.key}", "1", pool.replicas, self.now)
        self.pools[pool.key] = replace(made, replicas=pool.replicas)

    def _make_baseline(self, decision: Decision) -> None:
        order = decision.baseline
        assert order is not None
        spec = order.spec
        self.baselines.setdefault(
            order.name, BaselineView(order.name, order.name, "1", spec["key"], spec["revision"], spec, self.now)
        )

    def _route(self, revision: str) -> None:
        before = self.service.revision if self.service else ""
        self.service = ServiceView("uid-svc", "1", revision, owned=True)
        self.routed.append(revision)
        self.ready_when_routed.append(self._serving(revision))
        self.forced.append(self._serving(before) == 0)

    def _serving(self, revision: str) -> int:
        users = [p for p in self.pods.values() if (p.pool.revision, p.pool.role) == (revision, Role.SERVING)]
        return sum(p.ready and not p.deleting for p in users)

    def _make_job(self, decision: Decision) -> None:
        job = decision.job
        assert job is not None
        view = self.benchmarks[job.benchmark]
        assert all(j.number != job.number for j in view.jobs), "a Job is never ordered twice"
        self.orders.append(job)
        made = JobView(
            f"{job.benchmark}-j{job.number}", job.number, "u", "1", self.now, active=True, succeeded=False, failed=False
        )
        self.benchmarks[job.benchmark] = replace(view, jobs=(*view.jobs, made))

    def _finish(self, name: str) -> None:
        self.benchmarks[name] = replace(self.benchmarks[name], finished=True)

    def _remove(self, key: PoolKey) -> None:
        del self.pools[key]
        leaving = {n: replace(p, ready=False, deleting=True) for n, p in self.pods.items() if p.pool == key}
        self.pods = {n: p for n, p in self.pods.items() if p.pool != key} | (leaving if self.lingering else {})

    def _stop(self, name: str) -> None:
        for b in self.benchmarks.values():
            self.benchmarks[b.name] = replace(b, jobs=tuple(j for j in b.jobs if j.name != name))


SPEC: dict[str, Any] = {"model": {"uri": "file:///models/tiny"}}
FREEZING = Evidence(slots=10, requests=1000, frozen=FROZEN, message="no drift")
PROMOTE = Evidence("Promote", "NonInferior", "within 8 %", slots=20, requests=2000, frozen=FROZEN)
ALARM = Evidence("Alarm", "Drift", "TTFT is 1.4 times the twin's", slots=12, requests=1200, frozen=FROZEN)
GROSS = replace(ALARM, outcome="GrossAlarm")
SPENT = Evidence(message="no drift seen, no proof either", slots=120, requests=12_000)


def only(kind: str, revision: str, *roles: Role) -> Behaviour:
    """Pods of `revision` in `roles` behave as `kind`, all others are well."""
    return lambda key: kind if key.revision == revision and key.role in (roles or tuple(Role)) else "ready"


def serving(sim: Sim | None = None) -> Sim:
    """A service whose first revision serves; its Baseline is not frozen yet."""
    return (sim or Sim()).run(lambda s: s.service is not None)


def stable(sim: Sim | None = None) -> Sim:
    """A service whose first revision serves and whose Baseline is frozen."""
    sim = sim or Sim()
    sim.run(lambda s: bool(s.benchmarks) and any(b.jobs for b in s.benchmarks.values()))
    sim.slots(FREEZING)
    return sim.run(lambda s: s.status.baseline is not None and s.status.freeze is None)


def measuring(sim: Sim, spec_hash: str = "bbbb") -> Sim:
    """A change whose Benchmark runs."""
    sim.spec_is(spec_hash)
    return sim.run(benchmark_runs)


def confirming(sim: Sim) -> Sim:
    """A change that was suspected and whose confirmation runs."""
    sim.slots(ALARM)
    return sim.run(lambda s: s.state == "Confirm" and benchmark_runs(s))


def kept(sim: Sim) -> Sim:
    """A change that was proved; users are on it and the previous revision is kept."""
    sim.slots(PROMOTE)
    return sim.run(lambda s: s.state == "Kept")


def rejected(sim: Sim) -> Sim:
    """A change that drifts grossly."""
    sim.slots(GROSS)
    return sim.run(lambda s: s.state == "Rejected")


def held(sim: Sim) -> Sim:
    """A change whose twin cannot start."""
    sim.behaviour = only("pull", sim.status.stable.revision, Role.TWIN)
    sim.spec_is("bbbb").run(lambda s: s.state == "Held")
    sim.behaviour = ready
    return sim


def benchmark_runs(sim: Sim) -> bool:
    """Whether the change to the present spec is measured by a Job."""
    rollout = sim.status.rollout
    view = sim.benchmarks.get(rollout.benchmark or "") if rollout else None
    measured = rollout and rollout.canary_pod and rollout.spec_hash == sim.hash()
    return bool(view and view.jobs and not view.finished and measured)
