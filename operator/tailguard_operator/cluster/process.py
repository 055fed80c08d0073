"""One operator process: everything put together, started in order and ended in order."""

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack

import httpx
from kubernetes.aio.client.configuration import Configuration

from tailguard_operator.cluster import health
from tailguard_operator.cluster.apply import Applier
from tailguard_operator.cluster.client import ApiCluster, Cluster, load_configuration
from tailguard_operator.cluster.connections import GuardCloser
from tailguard_operator.cluster.errors import NotLeader
from tailguard_operator.cluster.events import Recorder
from tailguard_operator.cluster.evidence import EvidenceReader, WorkerJudge
from tailguard_operator.cluster.fence import FencedCluster
from tailguard_operator.cluster.leader import Leader
from tailguard_operator.cluster.observe import Observer
from tailguard_operator.cluster.pins import Pinner
from tailguard_operator.cluster.queue import Key, WorkQueue
from tailguard_operator.cluster.reconcile import Reconciler
from tailguard_operator.cluster.settings import Settings
from tailguard_operator.cluster.watching import Watch
from tailguard_operator.plan import decide

LOG = logging.getLogger(__name__)

LOST_THE_LEASE = 3
"""Exit status: another process leads now, or the API server could not be reached in time."""


class Process:
    """One operator process. See `main.run`."""

    def __init__(self, settings: Settings, wrap: Callable[[Cluster], Cluster]):
        self._settings = settings
        self._wrap = wrap
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Run until a signal comes or the Lease is lost; the exit status."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)
        async with AsyncExitStack() as stack:
            configuration = await load_configuration(self._settings.kubeconfig, self._settings.context)
            api = ApiCluster(configuration)
            stack.push_async_callback(api.close)
            return await self._lead(stack, configuration, self._wrap(api))

    async def _lead(self, stack: AsyncExitStack, configuration: Configuration, cluster: Cluster) -> int:
        leader = Leader(cluster, self._settings.identity, self._settings.lease)
        echo = health.WatchEcho()
        reconciler = await self._reconciler(stack, FencedCluster(cluster, leader.check), leader, echo)
        queue = WorkQueue(reconciler.reconcile, reconciler.report, self._settings.workers)
        watch = self._watch(configuration, queue, echo)
        checks = {"queue": health.queue_check(queue.slowest, leader.elected.is_set), "watch": echo.check}
        ports = {"health": self._settings.health_port, "metrics": self._settings.metrics_port}
        runner, bound = await health.serve(self._settings.host, ports, checks)
        stack.push_async_callback(runner.cleanup)
        LOG.info("/healthz and /metrics are served on ports %s", bound)
        return await self._until_stopped(leader, queue, watch)

    async def _until_stopped(self, leader: Leader, queue: WorkQueue, watch: Watch) -> int:
        """First the watch and the work end, then the Lease is handed back: nobody else starts before we have ended."""
        watching = asyncio.create_task(watch.run(), name="watch")
        leading = asyncio.create_task(leader.run(), name="lease")
        working = asyncio.create_task(_work_when_elected(leader, queue), name="queue")
        stopping = asyncio.create_task(self._stop.wait(), name="signal")
        tasks = (watching, leading, working, stopping)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        watch.stop()
        working.cancel()
        await asyncio.wait([working])
        leading.cancel()
        await asyncio.wait([leading])
        await leader.release()
        stopping.cancel()
        await asyncio.wait([watching])
        return _status(tasks)

    async def _reconciler(
        self, stack: AsyncExitStack, cluster: Cluster, leader: Leader, echo: health.WatchEcho
    ) -> Reconciler:
        pods = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        sources = await stack.enter_async_context(httpx.AsyncClient(timeout=10.0))
        judge = WorkerJudge()
        stack.callback(judge.close)
        installation = self._settings.installation
        return Reconciler(
            cluster=cluster,
            observer=Observer(cluster, installation, EvidenceReader(cluster, judge), lambda: leader.transitions),
            applier=Applier(cluster, echo),
            recorder=Recorder(cluster, self._settings.identity),
            closer=GuardCloser(pods),
            installation=installation,
            decide=decide,
            ask_pins=Pinner(sources, self._settings.hub).pins,
        )

    def _watch(self, configuration: Configuration, queue: WorkQueue, echo: health.WatchEcho) -> Watch:
        loop = asyncio.get_running_loop()

        def service(key: Key) -> None:
            loop.call_soon_threadsafe(echo.heard, key.namespace, key.name)
            loop.call_soon_threadsafe(queue.add, key)

        def child(key: Key) -> None:
            loop.call_soon_threadsafe(queue.add, key)

        return Watch(configuration, self._settings.namespace, service, child)


async def _work_when_elected(leader: Leader, queue: WorkQueue) -> None:
    await leader.elected.wait()
    await queue.run()


def _status(tasks: tuple[asyncio.Task[object], ...]) -> int:
    """Exit status of the process after its tasks have ended."""
    errors = [error for task in tasks if not task.cancelled() and (error := task.exception())]
    for error in errors:
        LOG.error("the operator ends: %s", error, exc_info=None if isinstance(error, NotLeader) else error)
    if any(isinstance(error, NotLeader) for error in errors):
        return LOST_THE_LEASE
    return 1 if errors else 0
