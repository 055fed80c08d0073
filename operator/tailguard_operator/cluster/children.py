"""The children that a decision asks for, in the order in which they are written, beside what is there already."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from tailguard_operator.api.base import GROUP
from tailguard_operator.cluster import views
from tailguard_operator.cluster.client import Cluster
from tailguard_operator.cluster.errors import NotFound
from tailguard_operator.cluster.kinds import DEPLOYMENT, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT, Object, kind_of
from tailguard_operator.cluster.observe import Observation
from tailguard_operator.plan.decision import Decision, JobOrder, Pool
from tailguard_operator.resources import measure, pools, service
from tailguard_operator.resources.diff import differs
from tailguard_operator.resources.profile import Installation

TEMPLATE_ANNOTATION = f"{GROUP}/template"
"""On a Deployment: digest of the pod template that it was made with. A template built differently by an upgraded
operator has another digest and is left alone; one that was edited by hand has the same digest and is put right."""

_MUTABLE = frozenset({DEPLOYMENT.name, SERVICE.name, SERVICE_ACCOUNT.name, ROLE_BINDING.name})


@dataclass(frozen=True, slots=True)
class Child:
    """An object as it should be and, if it is there, as it is."""

    wanted: Object
    live: Object | None

    @property
    def differs(self) -> bool:
        """Whether a write would change it; what is written once for all never differs."""
        changeable = self.wanted["kind"] in _MUTABLE and "deletionTimestamp" not in (self.live or {})["metadata"]
        return changeable and differs(self.wanted, self.live)


class Nursery:
    """Finds out what there is to make."""

    def __init__(self, cluster: Cluster, installation: Installation):
        self._cluster = cluster
        self._installation = installation

    async def children(self, seen: Observation, decision: Decision) -> tuple[tuple[Child, ...], tuple[str, ...]]:
        """The children of `decision` in binding order, and a sentence for each that cannot be made.

        What was not observed is asked for by name before it is made: if it is there and somebody else's, it is never
        touched, and the others go on without it.
        """
        found: list[Child] = []
        problems: list[str] = []
        try:
            for child in self._desired(seen, decision):
                live = child.live or await self._there(child.wanted)
                if live is None or views.owned(live, child.wanted["metadata"]["ownerReferences"][0]["uid"]):
                    found.append(Child(child.wanted, live))
                else:
                    problems.append(views.foreign(live))
        except measure.PlanError as error:
            problems.append(str(error))
        return tuple(found), tuple(dict.fromkeys(problems))

    async def _there(self, wanted: Object) -> Object | None:
        meta = wanted["metadata"]
        try:
            return await self._cluster.get(kind_of(wanted), meta["namespace"], meta["name"])
        except NotFound:
            return None

    def _desired(self, seen: Observation, decision: Decision) -> Iterator[Child]:
        live, owner = seen.live, seen.live.owner
        if decision.benchmark:
            yield Child(measure.benchmark(owner, decision.benchmark), live.benchmarks.get(decision.benchmark.name))
        for pool in decision.pools:
            yield _pool(seen, pool)
        if decision.baseline:
            yield Child(measure.baseline(owner, decision.baseline), live.baselines.get(decision.baseline.name))
        if decision.route_to:
            yield Child(service.user_service(owner, decision.route_to), live.user_service)
        if decision.job and measure.job_name(decision.job) not in live.jobs:
            yield from self._job(seen, decision.job)

    def _job(self, seen: Observation, order: JobOrder) -> Iterator[Child]:
        owner = seen.live.owner
        canary, twin = (seen.live.data(arm.revision) for arm in (order.canary, order.twin))
        jsonl = seen.world.workload.jsonl if order.spec["workload"].get("configMap") else None
        plan = measure.plan_config_map(owner, order, canary, twin, jsonl, self._installation.gate)
        for obj in (*measure.job_account(owner), plan, measure.job(owner, order, self._installation)):
            yield Child(obj, None)


def _pool(seen: Observation, pool: Pool) -> Child:
    live = seen.live.deployments.get(pools.pool_name(seen.world.name, pool.key))
    wanted = pools.deployment(seen.live.owner, seen.live.data(pool.key.revision), pool, live)
    if live is None:
        return Child(_stamped(wanted), None)
    return Child(_without(wanted, _fixed_fields(wanted, live)), live)


def _stamped(deployment: Object) -> Object:
    meta = deployment["metadata"]
    annotations = (meta.get("annotations") or {}) | {TEMPLATE_ANNOTATION: _template_digest(deployment)}
    return deployment | {"metadata": meta | {"annotations": annotations}}


def _without(deployment: Object, fields: frozenset[str]) -> Object:
    return deployment | {"spec": {name: value for name, value in deployment["spec"].items() if name not in fields}}


def _fixed_fields(wanted: Object, live: Object) -> frozenset[str]:
    """Fields of the spec that stay as they were made: the selector, and a template that is built differently now."""
    made_with = (live["metadata"].get("annotations") or {}).get(TEMPLATE_ANNOTATION)
    rebuilt = made_with is not None and made_with != _template_digest(wanted)
    return frozenset({"selector", "template"}) if rebuilt else frozenset({"selector"})


def _template_digest(deployment: Object) -> str:
    """Digest of the template without its affinity, which is added where the pod is placed."""
    template = deployment["spec"]["template"]
    spec = {field: value for field, value in template["spec"].items() if field != "affinity"}
    text = json.dumps(template | {"spec": spec}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
