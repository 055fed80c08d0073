"""One pass: observe, decide, write. Level-triggered: it needs to know only which service to look at."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from prometheus_client import Counter

from tailguard_operator.api.status import InferenceServiceStatus
from tailguard_operator.cluster.apply import Applier
from tailguard_operator.cluster.children import Child, Nursery
from tailguard_operator.cluster.client import Cluster
from tailguard_operator.cluster.connections import Closer
from tailguard_operator.cluster.errors import AlreadyExists
from tailguard_operator.cluster.events import Recorder
from tailguard_operator.cluster.kinds import INFERENCE_SERVICE
from tailguard_operator.cluster.observe import Observation, Observer
from tailguard_operator.cluster.queue import Key, Result
from tailguard_operator.plan.decision import Decision, Event
from tailguard_operator.plan.world import World
from tailguard_operator.resources.profile import Installation
from tailguard_operator.resources.revision import Pins, controller_revision, engine_image, render

LOG = logging.getLogger(__name__)

ROLLOUTS = Counter("tailguard_rollouts_total", "States that changes came to, by state and reason.", ["state", "reason"])
VERDICTS = Counter("tailguard_verdicts_total", "Verdicts on changes.", ["verdict"])

RESYNC_SECONDS = 3600.0
"""Longest time between two looks at a service: the net under a missed event."""
_BLOCKED_SECONDS = 30.0
"""Until the next look when something of somebody else is in the way: its end is no event of ours."""

Decide = Callable[[World, datetime], Decision]
AskPins = Callable[[str, str, str | None], Awaitable[Pins]]


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


class Reconciler:
    """Brings one service after the other to where its spec and its evidence want it."""

    def __init__(
        self,
        cluster: Cluster,
        observer: Observer,
        applier: Applier,
        recorder: Recorder,
        closer: Closer,
        installation: Installation,
        decide: Decide,
        ask_pins: AskPins,
        now: Callable[[], datetime] = utc_now,
    ):
        self._cluster = cluster
        self._observer = observer
        self._applier = applier
        self._nursery = Nursery(cluster, installation)
        self._recorder = recorder
        self._closer = closer
        self._installation = installation
        self._decide = decide
        self._ask_pins = ask_pins
        self._now = now

    async def reconcile(self, key: Key) -> Result:
        """One pass over `key`.

        Raises:
            Conflict: something has changed since it was observed: plan again at once.
            ClusterError: the cluster could not be read or written.
            NotLeader: this process may not write.
        """
        seen = await self._observer.observe(key)
        if seen is None or seen.world.deleting:
            return Result()
        decision = self._decide(seen.world, self._now())
        if decision.render:
            await self._render(seen)
            seen = await self._observer.observe(key)
            if seen is None or seen.world.deleting:
                return Result()
            decision = self._decide(seen.world, self._now())
        children, blocked = await self._nursery.children(seen, decision)
        if blocked:
            seen = replace(seen, world=replace(seen.world, problems=(*seen.world.problems, *blocked)))
            decision = self._decide(seen.world, self._now())
            children, _ = await self._nursery.children(seen, decision)
        await self._write(seen, decision, children)
        wait = decision.requeue_after if decision.requeue_after is not None else RESYNC_SECONDS
        return Result(min(wait, _BLOCKED_SECONDS) if blocked else wait)

    async def report(self, key: Key, error: Exception) -> None:
        """Tell about a failed pass in an Event."""
        service = await self._cluster.get(INFERENCE_SERVICE, key.namespace, key.name)
        text = f"{type(error).__name__}: {error}"
        await self._recorder.record(service, Event("Warning", "ReconcileFailed", text))

    async def _write(self, seen: Observation, decision: Decision, children: Iterable[Child]) -> None:
        changed = await self._applier.status(seen, decision)
        if changed:
            # Before the objects: the decision is in force, and a pass that ends in a conflict is not told again.
            await self._tell(seen, decision)
        await self._applier.objects(seen, children)
        await asyncio.gather(*map(self._closer.close, decision.close_connections))
        await self._applier.leave(seen, decision, self._now())

    async def _tell(self, seen: Observation, decision: Decision) -> None:
        _count(seen.world.status, decision.status)
        for event in decision.events:
            LOG.info("%s/%s: %s: %s", seen.world.namespace, seen.world.name, event.reason, event.message)
            await self._recorder.record(seen.live.service, event)

    async def _render(self, seen: Observation) -> None:
        """Render the revision of the present spec and store it; what its sources say now holds for its whole life."""
        world = seen.world
        image = engine_image(world.spec, self._installation)
        pins = await self._ask_pins(image, world.spec.model.uri, world.spec.model.revision)
        handled = world.status.handled.refresh if world.status.handled else None
        rendered = render(world.name, world.spec, self._installation, pins, handled)
        try:
            await self._cluster.create(controller_revision(seen.live.owner, rendered))
        except AlreadyExists:
            LOG.debug("%s/%s: revision %s is stored already", world.namespace, world.name, rendered.revision)


def _count(old: InferenceServiceStatus, new: InferenceServiceStatus) -> None:
    """Count what a written status has decided; a status is written once, so nothing is counted twice."""
    before = old.rollout.state if old.rollout else None
    if new.rollout and new.rollout.state != before:
        ROLLOUTS.labels(new.rollout.state.value, new.rollout.reason or "").inc()
    if new.verdict and (new.verdict != old.verdict or _rollout_started(old) != _rollout_started(new)):
        VERDICTS.labels(new.verdict).inc()


def _rollout_started(status: InferenceServiceStatus) -> str:
    return status.rollout.started_at if status.rollout else ""
