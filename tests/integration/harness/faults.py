"""Faults that are put into an operator's process: it dies after one of its writes, or stops before one.

Every request of the operator goes through its `Cluster`, and this one stands between its last check (the fence of the
Lease) and the API server. Writes of the Lease are left out: a crash between them is a crash between the others.
"""

import asyncio
import hashlib
import json
import os
import re
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tailguard_operator.cluster.client import Cluster
from tailguard_operator.cluster.kinds import Kind, Object

T = TypeVar("T")

_PASSING = re.compile(r"movedBy|/mover$|resourceVersion|Time$|^since$|^at$|At$|spentSeconds|podMinutes")


class FaultyCluster:
    """A `Cluster` with one fault.

    Args:
        cluster: the real one.
        journal: file that gets a line of JSON for each write done.
        mortal: SIGKILL to itself right after the first write that no life before has died with. Some writes name their
            writer, and are made again by the next one before it goes on; those are the same write here.
        stop_before: SIGSTOP to itself right before the first write that starts so, such as `apply Service`; "" never.
    """

    def __init__(self, cluster: Cluster, journal: str, mortal: bool = False, stop_before: str = ""):
        self._cluster, self._journal = cluster, Path(journal)
        self._mortal, self._stop_before = mortal, stop_before
        self._deaths = deaths(self._journal) if mortal else frozenset()

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
            send = self._on_its_way(what, send)
        try:
            answer = await send()
        except Exception as error:
            self._note({"failed": what, "error": str(error)})
            raise
        self._note({"done": what})
        if self._mortal and (words := fingerprint(verb, obj)) not in self._deaths:
            self._note({"died": words})
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    def _on_its_way(self, what: str, send: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        """The same request, which nobody can call back any more, not even by ending the task that made it."""

        async def finish() -> T:
            request = asyncio.ensure_future(send())
            try:
                return await asyncio.shield(request)
            except asyncio.CancelledError:
                await asyncio.wait([request])
                self._note({"failed" if request.exception() else "done": what})
                raise

        return finish

    def _note(self, line: Mapping[str, Any]) -> None:
        """Append a line that survives the death of this process."""
        with self._journal.open("a") as out:
            out.write(json.dumps(dict(line)) + "\n")


def deaths(journal: Path) -> frozenset[str]:
    """Fingerprints of the writes that earlier lives ended with."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    return frozenset(str(line["died"]) for line in lines if "died" in line)


def fingerprint(verb: str, obj: Object) -> str:
    """Tells writes apart by what they say, whoever says it and whenever."""
    text = json.dumps([verb, _lasting(obj)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _lasting(value: object) -> object:
    """The data without what names the writer, the moment or the version."""
    if isinstance(value, dict):
        return {key: _lasting(each) for key, each in value.items() if not _PASSING.search(key)}
    return [_lasting(each) for each in value] if isinstance(value, list) else value
