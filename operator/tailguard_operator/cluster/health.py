"""Liveness and metrics over HTTP."""

import time
from collections.abc import Callable, Mapping

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

STUCK_SECONDS = 300.0
"""A key that waits or runs longer than this is stuck: a pass ends within two minutes."""
ECHO_SECONDS = 60.0

Check = Callable[[], str]
"""What is wrong; "" when nothing is."""


class WatchEcho:
    """Whether the watch still works: what the operator writes has to come back as an event."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._expected: dict[tuple[str, str], float] = {}

    def writing(self, namespace: str, name: str) -> None:
        """A service is about to be written, so an event is to come: it may well be here before the write's answer."""
        self._expected.setdefault((namespace, name), self._clock())

    def unchanged(self, namespace: str, name: str) -> None:
        """The write changed nothing or failed, so no event is to come."""
        self._expected.pop((namespace, name), None)

    def heard(self, namespace: str, name: str) -> None:
        """An event of a service came."""
        self._expected.pop((namespace, name), None)

    def check(self) -> str:
        """What is wrong."""
        if not self._expected:
            return ""
        key, since = min(self._expected.items(), key=lambda item: item[1])
        age = self._clock() - since
        if age < ECHO_SECONDS:
            return ""
        return f"the watch is stale: {key[0]}/{key[1]} was written {age:.0f} s ago and no event came"


def queue_check(slowest: Callable[[], float], active: Callable[[], bool]) -> Check:
    """Whether keys move on; a process that waits for the Lease works on none."""

    def check() -> str:
        age = slowest()
        return f"a service has been waiting for {age:.0f} s" if active() and age > STUCK_SECONDS else ""

    return check


async def serve(host: str, ports: Mapping[str, int], checks: Mapping[str, Check]) -> tuple[web.AppRunner, list[int]]:
    """Serve `/healthz` on `ports["health"]` and `/metrics` on `ports["metrics"]`; the ports that were bound.

    Raises:
        OSError: a port is taken.
    """

    async def healthz(_: web.Request) -> web.Response:
        problems = {name: text for name, check in checks.items() if (text := check())}
        return web.json_response({"ok": not problems, "problems": problems}, status=503 if problems else 200)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.add_routes([web.get("/healthz", healthz), web.get("/metrics", metrics)])
    runner = web.AppRunner(application, handle_signals=False, access_log=None)
    await runner.setup()
    for name in ("health", "metrics"):
        await web.TCPSite(runner, host, ports[name]).start()
    return runner, [address[1] for address in runner.addresses]
