"""Asking the pods that users leave to end their open connections."""

import asyncio
import logging
from typing import Protocol

import httpx

from tailguard_runtime.engines import PROBE_PORT

LOG = logging.getLogger(__name__)

SECONDS = 2.0


class Closer(Protocol):
    """Ends keep-alive connections."""

    async def close(self, ip: str) -> None:
        """Have every open connection of the pod at `ip` end after its next answer; never fails."""
        ...


class GuardCloser:
    """Asks the guard in the pod. A pod that does not answer keeps its connections until it is removed and drains."""

    def __init__(self, http: httpx.AsyncClient, port: int = PROBE_PORT):
        self._http = http
        self._port = port

    async def close(self, ip: str) -> None:
        """POST `/tailguard/close` on the probe port."""
        host = f"[{ip}]" if ":" in ip else ip
        try:
            async with asyncio.timeout(SECONDS):
                answer = await self._http.post(f"http://{host}:{self._port}/tailguard/close")
                answer.raise_for_status()
        except (httpx.HTTPError, TimeoutError) as error:
            LOG.warning("pod %s was not asked to close its connections: %s", ip, error or "no answer")
