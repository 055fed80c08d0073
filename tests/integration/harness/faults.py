"""Faults that are put into an operator's process: it dies after one of its writes, or stops before one.

Every request of the operator goes through its `Cluster`, and this one stands between its last check (the fence of the
Lease) and the API server. Writes of the Lease are left out: a crash between them is a crash between the others.
"""

import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tailguard_operator.cluster.client import Cluster
from tailguard_operator.cluster.kinds import Kind, Object

T = TypeVar("T")


class FaultyCluster:
    """A `Cluster` with one fault.

    Args:
        cluster: the real one.
        journal: file that gets a line of JSON for each write done.
        die_after: SIGKILL to itself right after this write, counted from 1; 0 never.
        stop_before: SIGSTOP to itself right before the first write that starts so, such as `apply Service`; "" never.
    """

    def __init__(self, cluster: Cluster, journal: str, die_after: int = 0, stop_before: str = ""):
        self._cluster, self._journal = cluster, Path(journal)
        self._die_after, self._stop_before = die_after, stop_before
        self._done = 0

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        return await self._cluster.get(kind, namespace, name)

    async def list(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None = None, fields: str | None = None
    ) -> list[Object]:
        return await self._cluster.list(kind, namespace, labels, fields)

    async def create(self, obj: Object) -> Object:
        return await self._write("create", obj, lambda: self._cluster.create(obj))

    async def apply(self, obj: Object) -> Object:
        return await self._write("apply", obj, lambda: self._cluster.apply(obj))

    async def apply_status(self, obj: Object) -> Object:
        return await self._write("apply_status", obj, lambda: self._cluster.apply_status(obj))

    async def replace(self, obj: Object) -> Object:
        return await self._write("replace", obj, lambda: self._cluster.replace(obj))

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str, resource_version: str | None) -> None:
        target = {"kind": kind.name, "metadata": {"name": name}}
        await self._write("delete", target, lambda: self._cluster.delete(kind, namespace, name, uid, resource_version))

    async def _write(self, verb: str, obj: Object, send: Callable[[], Awaitable[T]]) -> T:
        what = f"{verb} {obj['kind']} {obj['metadata']['name']}"
        if obj["kind"] == "Lease":
            return await send()
        if self._stop_before and what.startswith(self._stop_before):
            self._stop_before = ""
            self._note({"stopped": what})
            os.kill(os.getpid(), signal.SIGSTOP)
            self._note({"woken": what})
        try:
            answer = await send()
        except Exception as error:
            self._note({"failed": what, "error": str(error)})
            raise
        self._done += 1
        self._note({"done": what, "number": self._done})
        if self._done == self._die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    def _note(self, line: Mapping[str, Any]) -> None:
        """Append a line that survives the death of this process."""
        with self._journal.open("a") as out:
            out.write(json.dumps(dict(line)) + "\n")
