"""What an arm tells about itself: whether it is drained, its cache counters, its version.

The guard's own port answers best; an engine without one is asked for its metrics. What can't be learned is None, never
0.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from time import perf_counter
from typing import Any

import aiohttp

from tailguard_runtime.load.plan import ArmRef

_PATIENCE = aiohttp.ClientTimeout(total=8)  # the guard waits up to 5 s for a generation of its own to end
_QUIET_ATTEMPTS = 3  # 503: its generation still runs, ask again
_POLL_S = 0.05
_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{.*\})? (?P<value>\S+)(?: \d+)?$")
_UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError, ValueError)


@dataclass(frozen=True)
class Counters:
    """One look at an arm.

    Attributes:
        running: generation requests in the server, waiting ones included.
        started: generation requests since its start, without the guard's own.
        processes: identity of the serving processes; a change means that the engine was started again.
        cache_queries: prompt tokens looked up in the prefix cache since its start.
        cache_hits: prompt tokens found there.
        fingerprint: the engine's configuration fingerprint.
    """

    running: int | None = None
    started: int | None = None
    processes: str | None = None
    cache_queries: int | None = None
    cache_hits: int | None = None
    fingerprint: str | None = None

    def facts(self) -> dict[str, str]:
        """Return what is known, as text."""
        known = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: str(value) for name, value in known.items() if value is not None}


class Arm:
    """One pod under test, seen through its two ports."""

    def __init__(self, name: str, ref: ArmRef, session: aiohttp.ClientSession) -> None:
        """Name the arm (`canary` or `twin`) and say where it is."""
        self.name, self.ref, self._session = name, ref, session

    async def quiet(self, seconds: float) -> bool:
        """Ask the guard for no generation of its own during `seconds`; return whether it agreed."""
        if self.ref.probe is None:
            return False
        url = f"{self.ref.probe}/tailguard/quiet?seconds={min(seconds, 3600):.0f}"
        for _ in range(_QUIET_ATTEMPTS):
            try:
                async with self._session.post(url, timeout=_PATIENCE) as response:
                    if response.status != 503:
                        return response.status == 200
            except _UNREACHABLE:
                return False
        return False

    async def counters(self) -> Counters:
        """Look at the arm once; a look that fails knows nothing."""
        try:
            if self.ref.probe is None:
                return counters_from_metrics(await self._get(f"{self.ref.url}/metrics"))
            return counters_from_guard(json.loads(await self._get(f"{self.ref.probe}/tailguard/counters?engine=1")))
        except _UNREACHABLE:
            return Counters()

    async def version(self) -> str:
        """Return the engine's version, "" if it doesn't say."""
        try:
            return str(json.loads(await self._get(f"{self.ref.url}/version")).get("version", ""))
        except (*_UNREACHABLE, AttributeError):
            return ""

    async def tokens_of(self, served_name: str, text: str) -> list[int] | None:
        """Return the ids that the arm's tokenizer makes of `text`, None if it can't be asked."""
        body = {"model": served_name, "prompt": text, "add_special_tokens": False}
        try:
            async with self._session.post(f"{self.ref.url}/tokenize", json=body, timeout=_PATIENCE) as response:
                answer = await response.json() if response.status == 200 else {}
            return [int(token) for token in answer["tokens"]] or None
        except (*_UNREACHABLE, KeyError, TypeError):
            return None

    async def _get(self, url: str) -> str:
        async with self._session.get(url, timeout=_PATIENCE, raise_for_status=True) as response:
            return await response.text()


async def still_busy(arms: tuple[Arm, ...], patience_s: float) -> set[str]:
    """Wait until no arm has a request; return the names of those that still have one after `patience_s` seconds.

    An arm that can't be asked counts as drained: if it is dead, the half will show it.
    """
    deadline = perf_counter() + patience_s
    while True:
        looks = await asyncio.gather(*(arm.counters() for arm in arms))
        busy = {arm.name for arm, look in zip(arms, looks, strict=True) if look.running}
        if not busy or perf_counter() > deadline:
            return busy
        await asyncio.sleep(_POLL_S)


def counters_from_guard(line: Mapping[str, Any]) -> Counters:
    """Read the guard's line of counters; its own count and the engine's must both be 0 for a drained server."""
    engine: Mapping[str, Any] = line.get("engine") or {}
    loads = [line.get("running"), _sum(engine.get("running"), engine.get("waiting"))]
    return Counters(
        running=max((int(load) for load in loads if load is not None), default=None),
        started=_whole(line.get("started")),
        processes=",".join(line["processes"]) if "processes" in line else None,
        cache_queries=_whole(engine.get("prefixCacheQueries")),
        cache_hits=_whole(engine.get("prefixCacheHits")),
        fingerprint=engine.get("fingerprint"),
    )


def counters_from_metrics(text: str) -> Counters:
    """Read vLLM's metrics in the Prometheus text format, summed over its engines."""
    totals: dict[str, float] = {}
    for line in text.splitlines():
        if match := _SAMPLE.match(line):
            totals[match["name"]] = totals.get(match["name"], 0.0) + float(match["value"])
    return Counters(
        running=_sum(totals.get("vllm:num_requests_running"), totals.get("vllm:num_requests_waiting")),
        cache_queries=_whole(totals.get("vllm:prefix_cache_queries_total")),
        cache_hits=_whole(totals.get("vllm:prefix_cache_hits_total")),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _sum(*values: float | None) -> int | None:
    known = [value for value in values if value is not None]
    return int(sum(known)) if known else None
