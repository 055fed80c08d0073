"""Evidence of Benchmarks: stored slots are fetched one after another and judged in a worker process.

ConfigMaps are never watched. A pass asks for the next number until there is none, so that while a Benchmark runs, one
request a second is all it costs.
"""

import asyncio
import base64
import binascii
import json
import logging
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any, Protocol

from tailguard_operator.cluster.client import Cluster
from tailguard_operator.cluster.errors import NotFound
from tailguard_operator.cluster.judging import StoredSlot, broken, judge_slots, start_worker
from tailguard_operator.cluster.kinds import CONFIG_MAP, Object
from tailguard_operator.plan.world import Evidence

LOG = logging.getLogger(__name__)

SLOT_KEY = "slot.arrow"
MANIFEST_KEY = "manifest.json"
MOST_BYTES = 900 * 1024
IDLE_SECONDS = 60.0
_KEPT = 64


class Judge(Protocol):
    """`judging.judge_slots`, somewhere."""

    async def judge(
        self, uid: str, spec: Mapping[str, Any], known: Sequence[str], new: Sequence[StoredSlot]
    ) -> Evidence | None:
        """See `judging.judge_slots`."""
        ...


class WorkerJudge:
    """One worker process, started when there is something to judge and ended when there was nothing for a while."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS):
        self._idle_seconds = idle_seconds
        self._pool: ProcessPoolExecutor | None = None
        self._busy = 0
        self._idle: asyncio.TimerHandle | None = None

    async def judge(
        self, uid: str, spec: Mapping[str, Any], known: Sequence[str], new: Sequence[StoredSlot]
    ) -> Evidence | None:
        """See `judging.judge_slots`. Samples that end the process twice count as broken."""
        try:
            return await self._run(uid, spec, known, new)
        except BrokenProcessPool:
            LOG.warning("the judge's process ended while it worked; a new one tries again")
            self.close()
        if known:
            return None
        try:
            return await self._run(uid, spec, known, new)
        except BrokenProcessPool:
            self.close()
            return broken("the judge's process ended on them twice", [slot.digest for slot in new])

    async def _run(
        self, uid: str, spec: Mapping[str, Any], known: Sequence[str], new: Sequence[StoredSlot]
    ) -> Evidence | None:
        loop = asyncio.get_running_loop()
        if self._idle:
            self._idle.cancel()
        self._busy += 1
        try:
            call = (uid, dict(spec), tuple(known), tuple(new))
            return await loop.run_in_executor(self._started(), judge_slots, *call)
        finally:
            self._busy -= 1
            if not self._busy:
                self._idle = loop.call_later(self._idle_seconds, self.close)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Spawned: a fork would copy the operator's connections, locks and memory.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=start_worker)
        return self._pool

    def close(self) -> None:
        """End the process, if there is one; the next call starts another."""
        pool, self._pool = self._pool, None
        if self._idle:
            self._idle.cancel()
            self._idle = None
        if pool:
            pool.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class _Progress:
    """What was read of one Benchmark: only numbers and digests and the last evidence, never the samples."""

    next_number: int = 0
    digests: dict[int, str] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=Evidence)


class BrokenSamples(Exception):  # noqa: N818 - a state of the samples
    """Stored samples that are not what the Benchmark's Job may have written; the text says what is wrong."""


class EvidenceReader:
    """Reads and judges what Benchmarks have stored. All it remembers can be read again from the cluster."""

    def __init__(self, cluster: Cluster, judge: Judge):
        self._cluster = cluster
        self._judge = judge
        self._progress: dict[str, _Progress] = {}

    async def read(self, benchmark: Object) -> Evidence:
        """The evidence of `benchmark`, with every slot that is stored by now.

        Raises:
            ApiError: the slots could not be fetched.
        """
        uid = benchmark["metadata"]["uid"]
        before = self._progress.get(uid, _Progress())
        if before.evidence.broken:
            return before.evidence
        after = await self._advanced(benchmark, before)
        if after is None:
            after = await self._advanced(benchmark, _Progress())
        if after is None:
            raise RuntimeError(f"the judge does not know Benchmark {benchmark['metadata']['name']} from its first slot")
        self._progress[uid] = after
        self._forget_oldest()
        return after.evidence

    async def _advanced(self, benchmark: Object, before: _Progress) -> _Progress | None:
        """The progress with all slots that are stored by now; None when the judge has lost what it had."""
        known = tuple(before.digests.values())
        after = _Progress(before.next_number, dict(before.digests), before.evidence)
        try:
            slots = await self._fetch(benchmark, after)
        except BrokenSamples as problem:
            after.evidence = broken(str(problem), tuple(after.digests.values()))
            return after
        if slots:
            evidence = await self._judge.judge(benchmark["metadata"]["uid"], benchmark["spec"], known, slots)
            if evidence is None:
                return None
            after.evidence = evidence
        return after

    async def _fetch(self, benchmark: Object, progress: _Progress) -> list[StoredSlot]:
        """Slots that are stored by now and were not read yet; `progress` is moved behind them.

        A number may also hold the manifest of a Job that has ended; a later Job goes on behind it.
        """
        meta = benchmark["metadata"]
        slots: list[StoredSlot] = []
        while True:
            name = f"{meta['name']}-{progress.next_number}"
            try:
                stored = await self._cluster.get(CONFIG_MAP, meta["namespace"], name)
            except NotFound:
                return slots
            _check(stored, meta["uid"])
            if MANIFEST_KEY in (stored.get("data") or {}):
                _check_manifest(stored, {f"{meta['name']}-{n}": d for n, d in progress.digests.items()})
            else:
                slots.append(StoredSlot(progress.next_number, _content(stored)))
                progress.digests[progress.next_number] = slots[-1].digest
            progress.next_number += 1

    def _forget_oldest(self) -> None:
        while len(self._progress) > _KEPT:
            self._progress.pop(next(iter(self._progress)))


def _check(stored: Object, uid: str) -> None:
    name, owners = stored["metadata"]["name"], stored["metadata"].get("ownerReferences") or []
    if stored.get("immutable") is not True:
        raise BrokenSamples(f"ConfigMap {name} is not immutable, so anybody may have changed it")
    if [(o.get("kind"), o.get("uid")) for o in owners] != [("Benchmark", uid)]:
        raise BrokenSamples(f"ConfigMap {name} is not owned by this Benchmark alone")


def _content(stored: Object) -> bytes:
    name, text = stored["metadata"]["name"], (stored.get("binaryData") or {}).get(SLOT_KEY)
    if text is None:
        raise BrokenSamples(f"ConfigMap {name} has neither {SLOT_KEY} nor {MANIFEST_KEY}")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BrokenSamples(f"ConfigMap {name}: {SLOT_KEY} is no base64: {error}") from error
    if len(data) > MOST_BYTES:
        raise BrokenSamples(f"ConfigMap {name}: {SLOT_KEY} has {len(data)} bytes, at most {MOST_BYTES} are allowed")
    return data


def _check_manifest(stored: Object, digests: Mapping[str, str]) -> None:
    """A manifest lists the SHA-256 of what its Job stored, which may be only the last part of the record."""
    name = stored["metadata"]["name"]
    try:
        listed: Mapping[str, str] = json.loads(stored["data"][MANIFEST_KEY])["sha256"]
        wrong = [slot for slot, value in listed.items() if digests.get(slot) != value]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenSamples(f"ConfigMap {name}: {MANIFEST_KEY} can't be read: {error!r}") from error
    if wrong:
        raise BrokenSamples(f"ConfigMap {name}: the SHA-256 of {', '.join(wrong)} is another than it lists")
