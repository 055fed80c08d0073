"""The world of one service, read from the API server in one go."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tailguard_operator.cluster import views
from tailguard_operator.cluster.client import Cluster
from tailguard_operator.cluster.errors import Forbidden, NotFound
from tailguard_operator.cluster.evidence import EvidenceReader
from tailguard_operator.cluster.kinds import (
    BASELINE,
    BENCHMARK,
    CONFIG_MAP,
    CONTROLLER_REVISION,
    DEPLOYMENT,
    INFERENCE_SERVICE,
    JOB,
    NODE,
    POD,
    SERVICE,
    Kind,
    Object,
)
from tailguard_operator.cluster.pods import pod_view, pool_key
from tailguard_operator.cluster.queue import Key
from tailguard_operator.plan import needs_evidence
from tailguard_operator.plan.world import Evidence, RevisionView, Role, Workload, World
from tailguard_operator.resources import validate, workload
from tailguard_operator.resources.environment import fingerprint
from tailguard_operator.resources.owner import REVISION_LABEL, SERVICE_LABEL, Owner
from tailguard_operator.resources.profile import Installation
from tailguard_operator.resources.revision import spec_hash
from tailguard_operator.resources.room import room

NODES_SECONDS = 10.0
"""How long the list of Nodes is used again: they change rarely, and every service asks for them."""
_WITHOUT_END = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class Live:
    """The objects behind a World, by name, as they were read; writes are compared with these."""

    service: Object
    """The InferenceService."""
    deployments: Mapping[str, Object] = field(default_factory=dict)
    user_service: Object | None = None
    revisions: Mapping[str, Object] = field(default_factory=dict)
    """Owned ControllerRevisions, by revision."""
    benchmarks: Mapping[str, Object] = field(default_factory=dict)
    jobs: Mapping[str, Object] = field(default_factory=dict)
    baselines: Mapping[str, Object] = field(default_factory=dict)

    @property
    def owner(self) -> Owner:
        """The service as owner of its children."""
        meta = self.service["metadata"]
        return Owner(meta["name"], meta["namespace"], meta["uid"])

    def data(self, revision: str) -> Mapping[str, Any]:
        """What was rendered for `revision`.

        Raises:
            KeyError: its ControllerRevision is gone.
        """
        found: Mapping[str, Any] = self.revisions[revision]["data"]
        return found


@dataclass(frozen=True, slots=True)
class Observation:
    """A World and the objects that it was read from."""

    world: World
    live: Live


class Observer:
    """Reads Worlds."""

    def __init__(
        self,
        cluster: Cluster,
        installation: Installation,
        evidence: EvidenceReader,
        lease_transitions: Callable[[], int],
    ):
        self._cluster = cluster
        self._installation = installation
        self._evidence = evidence
        self._lease_transitions = lease_transitions
        self._nodes: Mapping[str, Object] | None = None
        self._nodes_until = float("-inf")

    async def observe(self, key: Key) -> Observation | None:
        """The world of `key`; None when there is no such service.

        Raises:
            ApiError: something could not be read.
            InvalidObject: the status is not one that this operator wrote.
        """
        try:
            service = await self._cluster.get(INFERENCE_SERVICE, key.namespace, key.name)
        except NotFound:
            return None
        labels = {SERVICE_LABEL: key.name}
        kinds = (DEPLOYMENT, POD, CONTROLLER_REVISION, BENCHMARK, JOB, BASELINE)
        nodes, found, listed = await asyncio.gather(
            self._all_nodes(),
            _optional(self._cluster.get(SERVICE, key.namespace, key.name)),
            asyncio.gather(*(self._cluster.list(kind, key.namespace, labels) for kind in kinds)),
        )
        objects = dict(zip(kinds, listed, strict=True))
        live = _live(service, found, objects)
        world = self._world(live, objects, nodes)
        world = replace(world, workload=await self._workload(world))
        return Observation(await self._with_evidence(await self._with_room(world, live, nodes), live, objects), live)

    def _world(self, live: Live, objects: Mapping[Kind, list[Object]], nodes: Mapping[str, Object] | None) -> World:
        service, meta = live.service, live.service["metadata"]
        spec, problems = views.read_spec(service)
        status = views.read_status(service)
        handled = status.handled.refresh if status.handled else None
        hashed = spec_hash(spec, handled)
        if problems:
            # An unreadable spec is no change: it keeps the hash that is being worked on.
            kept = status.rollout or status.stable
            hashed = kept.spec_hash if kept else hashed
        findings = validate.check(meta["name"], spec, self._installation)
        pools = [view for d in objects[DEPLOYMENT] if (view := views.pool_view(d, meta["uid"]))]
        pods = tuple(pod for p in objects[POD] if (pod := pod_view(p, nodes)))
        stable = status.stable.revision if status.stable else None
        own_nodes = sorted({p.node for p in pods if (p.pool.revision, p.pool.role) == (stable, Role.SERVING)} - {""})
        return World(
            name=meta["name"],
            namespace=meta["namespace"],
            uid=meta["uid"],
            resource_version=meta["resourceVersion"],
            generation=meta["generation"],
            spec=spec,
            spec_hash=hashed,
            problems=(*(problems or findings.problems), *_foreign(live, objects)),
            status=status,
            commands=views.commands(service),
            deleting="deletionTimestamp" in meta,
            revisions=tuple(map(views.revision_view, live.revisions.values())),
            pools=tuple(pool for pool in pools if pool.owned),
            pods=pods,
            service=views.service_view(live.user_service, meta["uid"]) if live.user_service else None,
            baselines=tuple(map(views.baseline_view, live.baselines.values())),
            environment=fingerprint([nodes[name] for name in own_nodes if name in nodes]) if nodes else {},
            lease_transitions=self._lease_transitions(),
            warnings=tuple(findings.warnings),
        )

    async def _with_evidence(self, world: World, live: Live, objects: Mapping[Kind, list[Object]]) -> World:
        """First the Benchmarks as they are written, then, where a decision asks for it, what their samples show."""
        pods = objects[POD]
        written = {name: views.stored_evidence(b) for name, b in live.benchmarks.items()}
        world = _with_benchmarks(world, live, pods, written)
        for name in needs_evidence(world):
            written[name] = await self._evidence.read(live.benchmarks[name])
        return _with_benchmarks(world, live, pods, written)

    async def _workload(self, world: World) -> Workload:
        settings = world.spec.rollout.benchmark
        if settings.workload_ref is None:
            return workload.workload(settings, None)
        name = settings.workload_ref.name
        return workload.workload(settings, await _optional(self._cluster.get(CONFIG_MAP, world.namespace, name)))

    async def _with_room(self, world: World, live: Live, nodes: Mapping[str, Object] | None) -> World:
        """The world with the room that is left, where a decision may start pods; all pods are listed only then."""
        revision = world.revision_of(world.spec_hash) or _stable_revision(world)
        if nodes is None or revision is None or _settled(world):
            return world
        try:
            pods = await self._cluster.list(POD, None, fields=_WITHOUT_END)
        except Forbidden:
            return world
        return replace(world, room=room(list(nodes.values()), pods, live.data(revision.revision)["template"]))

    async def _all_nodes(self) -> Mapping[str, Object] | None:
        if time.monotonic() < self._nodes_until:
            return self._nodes
        try:
            self._nodes = {n["metadata"]["name"]: n for n in await self._cluster.list(NODE, None)}
        except Forbidden:
            self._nodes = None
        self._nodes_until = time.monotonic() + NODES_SECONDS
        return self._nodes


def _live(service: Object, user_service: Object | None, objects: Mapping[Kind, Iterable[Object]]) -> Live:
    uid = service["metadata"]["uid"]

    def own(kind: Kind) -> dict[str, Object]:
        return {o["metadata"]["name"]: o for o in objects[kind] if views.owned(o, uid)}

    benchmarks = own(BENCHMARK)
    uids = {b["metadata"]["uid"] for b in benchmarks.values()}
    return Live(
        service=service,
        deployments=own(DEPLOYMENT),
        user_service=user_service,
        revisions={r["metadata"]["labels"][REVISION_LABEL]: r for r in own(CONTROLLER_REVISION).values()},
        benchmarks=benchmarks,
        jobs={j["metadata"]["name"]: j for j in objects[JOB] if any(views.owned(j, b) for b in uids)},
        baselines=own(BASELINE),
    )


def _with_benchmarks(world: World, live: Live, pods: list[Object], evidence: Mapping[str, Evidence]) -> World:
    jobs = list(live.jobs.values())
    found = (views.benchmark_view(b, jobs, pods, evidence[name]) for name, b in live.benchmarks.items())
    return replace(world, benchmarks=tuple(found))


def _foreign(live: Live, objects: Mapping[Kind, Iterable[Object]]) -> list[str]:
    """Children that exist under our names or labels and are not ours."""
    uid = live.service["metadata"]["uid"]
    pools = [d for d in objects[DEPLOYMENT] if pool_key(d["metadata"].get("labels") or {})]
    others = [*pools, *([live.user_service] if live.user_service else [])]
    return [views.foreign(obj) for obj in others if not views.owned(obj, uid)]


def _stable_revision(world: World) -> RevisionView | None:
    return world.revision(world.status.stable.revision) if world.status.stable else None


def _settled(world: World) -> bool:
    """Whether nothing can start: the spec is what serves, its pool has its size, and its baseline is frozen."""
    status = world.status
    if status.stable is None or status.stable.spec_hash != world.spec_hash:
        return False
    return status.baseline is not None and status.freeze is None and _at_size(world, status.stable.revision)


def _at_size(world: World, revision: str) -> bool:
    pools = [p for p in world.pools if p.key.revision == revision and p.key.role == Role.SERVING]
    return sum(p.replicas for p in pools) >= world.spec.replicas


async def _optional(read: Awaitable[Object]) -> Object | None:
    try:
        return await read
    except NotFound:
        return None
