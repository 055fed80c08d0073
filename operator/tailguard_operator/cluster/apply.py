"""From a decision to the cluster, in an order that survives the death of the operator between any two writes.

The status has been written before this (`reconcile`). What users need is made before they are moved to it, and what
they have left is removed last.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from tailguard_operator.api.base import timestamp
from tailguard_operator.api.benchmark import BenchmarkStatus
from tailguard_operator.api.conditions import set_condition
from tailguard_operator.cluster import views
from tailguard_operator.cluster.children import Child
from tailguard_operator.cluster.client import Cluster
from tailguard_operator.cluster.errors import NotFound
from tailguard_operator.cluster.health import WatchEcho
from tailguard_operator.cluster.kinds import (
    BENCHMARK,
    INFERENCE_SERVICE,
    Object,
    kind_of,
)
from tailguard_operator.cluster.observe import Observation
from tailguard_operator.plan.decision import Decision
from tailguard_operator.plan.world import BenchmarkView
from tailguard_operator.resources import pools

LOG = logging.getLogger(__name__)


class Applier:
    """Writes what differs, and nothing else."""

    def __init__(self, cluster: Cluster, echo: WatchEcho):
        self._cluster = cluster
        self._echo = echo

    async def status(self, seen: Observation, decision: Decision) -> bool:
        """Write the status if it differs from the observed one; whether it did.

        Raises:
            Conflict: the service has changed since it was observed.
        """
        wanted = decision.status.to_object()
        if _comparable(wanted) == _comparable(views.read_status(seen.live.service).to_object()):
            return False
        meta = seen.live.service["metadata"]
        head = INFERENCE_SERVICE.partial(meta["namespace"], meta["name"], resourceVersion=meta["resourceVersion"])
        key, version = (meta["namespace"], meta["name"]), meta["resourceVersion"]
        self._echo.writing(*key)
        try:
            version = (await self._cluster.apply_status(head | {"status": wanted}))["metadata"]["resourceVersion"]
        finally:
            if version == meta["resourceVersion"]:
                self._echo.unchanged(*key)
        return True

    async def objects(self, seen: Observation, children: Iterable[Child]) -> None:
        """Make every child that should be there, and bring it to what it should be.

        Raises:
            Conflict: something has changed since it was observed; whatever was not written yet is planned anew.
        """
        for child in children:
            if child.live is None:
                await self._cluster.create(child.wanted)
            elif child.differs:
                version = {"resourceVersion": child.live["metadata"]["resourceVersion"]}
                await self._cluster.apply(child.wanted | {"metadata": child.wanted["metadata"] | version})

    async def leave(self, seen: Observation, decision: Decision, now: datetime) -> None:
        """Close the record of what was measured, then take away what should not be there.

        Raises:
            Conflict: as above; what somebody has marked since it was observed is not deleted.
        """
        await self._finish(seen, decision, now)
        await self._remove(seen, decision)

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


def _comparable(status: Mapping[str, Any]) -> dict[str, Any]:
    """A status in which the order of conditions, which the API server chooses, says nothing."""
    return {**status, "conditions": {c["type"]: c for c in status.get("conditions") or ()}}


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
