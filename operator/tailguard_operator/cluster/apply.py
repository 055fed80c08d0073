"""From a decision to the cluster, in an order that survives the death of the operator between any two writes.

The status has been written before this (`reconcile`). What users need is made before they are moved to it, and what
they have left is removed last.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable
from datetime import datetime

from tailguard_operator.api.base import GROUP, timestamp
from tailguard_operator.api.benchmark import BenchmarkStatus
from tailguard_operator.api.conditions import set_condition
from tailguard_operator.cluster import views
from tailguard_operator.cluster.client import Cluster
from tailguard_operator.cluster.errors import AlreadyExists, NotFound
from tailguard_operator.cluster.kinds import (
    BENCHMARK,
    CONTROLLER_REVISION,
    INFERENCE_SERVICE,
    Object,
    kind_of,
)
from tailguard_operator.cluster.observe import Observation
from tailguard_operator.plan.decision import Decision, JobOrder, Pool
from tailguard_operator.plan.world import BenchmarkView
from tailguard_operator.resources import measure, pools, service
from tailguard_operator.resources.diff import differs
from tailguard_operator.resources.profile import Installation

LOG = logging.getLogger(__name__)

TEMPLATE_ANNOTATION = f"{GROUP}/template"
"""On a Deployment: digest of the pod template that it was made with. A template built differently by an upgraded
operator has another digest and is left alone; one that was edited by hand has the same digest and is put right."""


class Applier:
    """Writes what differs, and nothing else."""

    def __init__(self, cluster: Cluster, installation: Installation, written: Callable[[str, str], None]):
        self._cluster = cluster
        self._installation = installation
        self._written = written
        """Told the namespace and name of every service whose status was written."""

    async def status(self, seen: Observation, decision: Decision) -> bool:
        """Write the status if it differs from the observed one; whether it did.

        Raises:
            Conflict: the service has changed since it was observed.
        """
        wanted = decision.status.to_object()
        if wanted == views.read_status(seen.live.service).to_object():
            return False
        meta = seen.live.service["metadata"]
        head = INFERENCE_SERVICE.partial(meta["namespace"], meta["name"], resourceVersion=meta["resourceVersion"])
        stored = await self._cluster.apply_status(head | {"status": wanted})
        if stored["metadata"]["resourceVersion"] != meta["resourceVersion"]:
            self._written(meta["namespace"], meta["name"])
        return True

    async def objects(self, seen: Observation, decision: Decision) -> None:
        """Make everything that should be there and bring it to its right size, and users to the right pods.

        Raises:
            Conflict: something has changed since it was observed; whatever was not written yet is planned anew.
        """
        await self._record_images(seen)
        await self._make(seen, decision)

    async def leave(self, seen: Observation, decision: Decision, now: datetime) -> None:
        """Close the record of what was measured, then take away what should not be there.

        Raises:
            Conflict: as above; what somebody has marked since it was observed is not deleted.
        """
        await self._finish(seen, decision, now)
        await self._remove(seen, decision)

    async def foreign(self, seen: Observation, decision: Decision) -> tuple[str, ...]:
        """Objects in the way of those that `decision` makes: they exist and are somebody else's.

        Only names that are about to be made are asked for.
        """
        found = [await self._in_the_way(obj) for obj in self._new_objects(seen, decision)]
        return tuple(text for text in found if text)

    async def _in_the_way(self, obj: Object) -> str:
        meta = obj["metadata"]
        try:
            there = await self._cluster.get(kind_of(obj), meta["namespace"], meta["name"])
        except NotFound:
            return ""
        owner = meta["ownerReferences"][0]["uid"]
        return "" if views.owned(there, owner) else views.foreign(there)

    def _new_objects(self, seen: Observation, decision: Decision) -> Iterable[Object]:
        live, owner = seen.live, seen.live.owner
        for pool in decision.pools:
            if pools.pool_name(owner.name, pool.key) not in live.deployments:
                yield pools.deployment(owner, live.data(pool.key.revision), pool)
        if decision.benchmark and decision.benchmark.name not in live.benchmarks:
            yield measure.benchmark(owner, decision.benchmark)
        if decision.baseline and decision.baseline.name not in live.baselines:
            yield measure.baseline(owner, decision.baseline)
        if decision.job and measure.job_name(decision.job) not in live.jobs:
            yield from measure.job_account(owner)
            yield measure.job(owner, decision.job, self._installation)

    async def _make(self, seen: Observation, decision: Decision) -> None:
        live, owner = seen.live, seen.live.owner
        if decision.benchmark and decision.benchmark.name not in live.benchmarks:
            await self._cluster.create(measure.benchmark(owner, decision.benchmark))
        for pool in decision.pools:
            await self._pool(seen, pool)
        if decision.baseline and decision.baseline.name not in live.baselines:
            await self._cluster.create(measure.baseline(owner, decision.baseline))
        if decision.route_to:
            await self._user_service(seen, decision.route_to)
        if decision.job and measure.job_name(decision.job) not in live.jobs:
            await self._job(seen, decision.job)

    async def _pool(self, seen: Observation, pool: Pool) -> None:
        name = pools.pool_name(seen.world.name, pool.key)
        live = seen.live.deployments.get(name)
        wanted = pools.deployment(seen.live.owner, seen.live.data(pool.key.revision), pool, live)
        if live is None:
            await self._cluster.create(_stamped(wanted))
        elif "deletionTimestamp" not in live["metadata"]:
            await self._update(_without_template(wanted) if _made_differently(wanted, live) else wanted, live)

    async def _update(self, wanted: Object, live: Object) -> None:
        if differs(wanted, live):
            version = {"resourceVersion": live["metadata"]["resourceVersion"]}
            await self._cluster.apply(wanted | {"metadata": wanted["metadata"] | version})

    async def _user_service(self, seen: Observation, revision: str) -> None:
        wanted, live = service.user_service(seen.live.owner, revision), seen.live.user_service
        if live is None:
            await self._cluster.create(wanted)
        elif views.owned(live, seen.world.uid):
            await self._update(wanted, live)

    async def _job(self, seen: Observation, order: JobOrder) -> None:
        owner = seen.live.owner
        canary, twin = (seen.live.data(arm.revision) for arm in (order.canary, order.twin))
        jsonl = seen.world.workload.jsonl if order.spec["workload"].get("configMap") else None
        plan = measure.plan_config_map(owner, order, canary, twin, jsonl)
        for obj in (*measure.job_account(owner), plan):
            await self._ensure(obj)
        await self._cluster.create(measure.job(owner, order, self._installation))

    async def _ensure(self, obj: Object) -> None:
        """Make what may be there from an earlier Job, or from a pass that did not come to its end."""
        try:
            await self._cluster.create(obj)
        except AlreadyExists:
            meta = obj["metadata"]
            live = await self._cluster.get(kind_of(obj), meta["namespace"], meta["name"])
            if views.owned(live, meta["ownerReferences"][0]["uid"]) and not obj.get("immutable"):
                await self._update(obj, live)

    async def _record_images(self, seen: Observation) -> None:
        """Remember which image a tag meant when the first pod of its revision was Ready."""
        for view in seen.world.revisions:
            stored = seen.live.revisions[view.revision]
            ready = [p for p in seen.world.pods if p.pool.revision == view.revision and p.ready and p.image_id]
            if view.image_id or "@" in stored["data"]["image"] or not ready:
                continue
            first, meta = min(ready, key=lambda p: (p.created, p.name)), stored["metadata"]
            head = CONTROLLER_REVISION.partial(
                meta["namespace"],
                meta["name"],
                resourceVersion=meta["resourceVersion"],
                annotations={views.IMAGE_ANNOTATION: first.image_id},
            )
            await self._cluster.apply(head | {"revision": stored["revision"]})

    async def _finish(self, seen: Observation, decision: Decision, now: datetime) -> None:
        for name in decision.finished:
            view, live = seen.world.benchmark(name), seen.live.benchmarks.get(name)
            if view and live:
                meta = live["metadata"]
                head = BENCHMARK.partial(meta["namespace"], name, resourceVersion=meta["resourceVersion"])
                await self._cluster.apply_status(head | {"status": final_status(view, live, now).to_object()})

    async def _remove(self, seen: Observation, decision: Decision) -> None:
        for obj in _superfluous(seen, decision):
            meta = obj["metadata"]
            if "deletionTimestamp" in meta:
                continue
            try:
                await self._cluster.delete(
                    kind_of(obj), meta["namespace"], meta["name"], meta["uid"], meta["resourceVersion"]
                )
            except NotFound:
                LOG.debug("%s %s is gone already", obj["kind"], meta["name"])


def _superfluous(seen: Observation, decision: Decision) -> Iterable[Object]:
    live = seen.live
    wanted = {pools.pool_name(seen.world.name, pool.key) for pool in decision.pools}
    yield from (obj for name, obj in live.deployments.items() if name not in wanted)
    for objects, names in (
        (live.jobs, decision.stop_jobs),
        (live.benchmarks, decision.remove_benchmarks),
        (live.baselines, decision.remove_baselines),
        (live.revisions, decision.remove_revisions),
    ):
        yield from (objects[name] for name in names if name in objects)


def final_status(view: BenchmarkView, live: Object, now: datetime) -> BenchmarkStatus:
    """The status of a Benchmark that measures no more."""
    evidence = view.evidence
    done = set_condition(
        (),
        "Complete",
        True,
        evidence.outcome if evidence.outcome != "Continue" else "Stopped",
        evidence.broken or evidence.message,
        generation=live["metadata"]["generation"],
        now=now,
    )
    return BenchmarkStatus(
        outcome=evidence.outcome,
        message=(evidence.broken or evidence.message)[:4096],
        slots=evidence.slots,
        requests=evidence.requests,
        started_at=timestamp(evidence.first_at) if evidence.first_at else None,
        finished_at=timestamp(now),
        verdict=dict(evidence.verdict) or None,
        conditions=[done],
    )


def _stamped(deployment: Object) -> Object:
    meta = deployment["metadata"]
    annotations = (meta.get("annotations") or {}) | {TEMPLATE_ANNOTATION: _template_digest(deployment)}
    return deployment | {"metadata": meta | {"annotations": annotations}}


def _without_template(deployment: Object) -> Object:
    return deployment | {"spec": {name: value for name, value in deployment["spec"].items() if name != "template"}}


def _made_differently(wanted: Object, live: Object) -> bool:
    made_with = (live["metadata"].get("annotations") or {}).get(TEMPLATE_ANNOTATION)
    return made_with is not None and made_with != _template_digest(wanted)


def _template_digest(deployment: Object) -> str:
    """Digest of the template without its affinity, which is added where the pod is placed."""
    template = deployment["spec"]["template"]
    spec = {field: value for field, value in template["spec"].items() if field != "affinity"}
    text = json.dumps(template | {"spec": spec}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
