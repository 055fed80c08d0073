"""The paths of the probe port."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tailguard_runtime.guard.connections import open_connections
from tailguard_runtime.guard.control import Control
from tailguard_runtime.guard.counts import Counts
from tailguard_runtime.guard.engine import Engine
from tailguard_runtime.guard.listener import Handler, Reply
from tailguard_runtime.guard.probes import Probes
from tailguard_runtime.guard.process import is_alive
from tailguard_runtime.guard.ring import OUTCOMES, Ring, Sample
from tailguard_runtime.guard.settings import Settings
from tailguard_runtime.guard.watchdog import Verdict

SCHEMA = 1
MAX_SAMPLES = 10_000
PREFIX = "/tailguard"


class Paths:
    """Answers for the whole pod, whichever of its processes owns the port."""

    def __init__(self, settings: Settings, engine: Engine, counts: Counts, control: Control, probes: Probes) -> None:
        self._settings = settings
        self._engine = engine
        self._counts = counts
        self._control = control
        self._probes = probes
        self._handlers: dict[str, dict[str, Handler]] = {
            "startup": {"GET": self._startup},
            "ready": {"GET": self._ready},
            "live": {"GET": self._live},
            "drain": {"POST": self._drain, "DELETE": self._end_drain},
            "quiet": {"POST": self._quiet},
            "close": {"POST": self._close},
            "samples": {"GET": self._samples},
            "counters": {"GET": self._counters},
        }

    async def respond(self, method: str, path: str, query: Mapping[str, str]) -> Reply:
        """Answer one request; 404 for an unknown path, 405 for a wrong method, 400 for a bad value."""
        prefix, _, name = path.rpartition("/")
        methods = self._handlers.get(name) if prefix == PREFIX else None
        if methods is None:
            return _reply(404, {"error": f"no such path: {path}"})
        if method not in methods:
            allow = ", ".join(methods)
            return Reply(405, _encode({"error": f"{path} takes {allow}, not {method}"}), allow=allow)
        try:
            return await methods[method](query)
        except ValueError as error:
            return _reply(400, {"error": str(error)})

    async def _startup(self, _: Mapping[str, str]) -> Reply:
        return _verdict(await self._probes.startup())

    async def _ready(self, _: Mapping[str, str]) -> Reply:
        return _verdict(await self._probes.ready())

    async def _live(self, _: Mapping[str, str]) -> Reply:
        return _verdict(await self._probes.live())

    async def _drain(self, query: Mapping[str, str]) -> Reply:
        self._control.drain(refuse=_flag(query, "refuse"))
        return self._drain_state()

    async def _end_drain(self, _: Mapping[str, str]) -> Reply:
        self._control.end_drain()
        return self._drain_state()

    def _drain_state(self) -> Reply:
        return _reply(200, {"draining": self._control.draining, "refusing": self._control.refusing})

    async def _quiet(self, query: Mapping[str, str]) -> Reply:
        self._control.quiet(_number(query, "seconds"))
        if not await self._probes.silence():
            return _reply(503, {"error": "a generation of the guard's own is still running; ask again"})
        return _reply(200, {"quietFor": round(self._control.quiet_for, 3)})

    async def _close(self, _: Mapping[str, str]) -> Reply:
        peers = open_connections(self._settings.serving_port)
        self._control.close(peers)
        return _reply(200, {"closing": len(peers)})

    async def _counters(self, query: Mapping[str, str]) -> Reply:
        counters = self._read_counters()
        counters["engine"] = await self._engine.figures() if _flag(query, "engine") else None
        return _reply(200, counters)

    def _read_counters(self) -> dict[str, Any]:
        alive = self._counts.alive()
        totals = self._counts.totals()
        rest = time.monotonic() - self._counts.last_activity()
        return {
            "schema": SCHEMA,
            "time": round(time.time(), 3),
            "processes": list(alive),
            **totals,
            "idleSeconds": 0.0 if totals["running"] else round(rest, 3),
            "draining": self._control.draining,
            "refusing": self._control.refusing,
            "quietFor": round(self._control.quiet_for, 3),
            "closing": self._still_open(),
            "startupOk": self._probes.started,
            "generating": self._probes.generating,
            "nextSeq": {name: ring.next_seq for name, ring in alive.items()},
        }

    def _still_open(self) -> int:
        # A connection that was told is closed by the server right after its answer.
        asked = self._control.to_close()
        return len(asked & open_connections(self._settings.serving_port)) if asked else 0

    async def _samples(self, query: Mapping[str, str]) -> Reply:
        after = _cursor(query.get("after", ""))
        limit = int(_number(query, "limit", MAX_SAMPLES))
        if not 1 <= limit <= MAX_SAMPLES:
            raise ValueError(f"limit={limit} is not between 1 and {MAX_SAMPLES}")
        rings = self._counts.rings()
        lines = [line for _, line in zip(range(limit), _lines(rings, after), strict=False)]
        lines.append(_encode({"rings": {name: _extent(name, ring) for name, ring in rings.items()}}))
        return Reply(200, b"".join(lines), "application/x-ndjson")


def _lines(rings: Mapping[str, Ring], after: Mapping[str, int]) -> Iterator[bytes]:
    for name, ring in rings.items():
        for sample in ring.samples(after.get(name, 0)):
            yield _encode(_as_json(name, sample))


def _as_json(ring: str, sample: Sample) -> dict[str, Any]:
    return {
        "ring": ring,
        "seq": sample.seq,
        "start": round(sample.start, 6),
        "ttft": None if sample.ttft is None else round(sample.ttft, 6),
        "e2e": round(sample.e2e, 6),
        "status": sample.status,
        "outcome": OUTCOMES[sample.outcome],
        "chunks": sample.chunks,
        "tokens": sample.tokens,
        "promptTokens": sample.prompt_tokens,
        "path": sample.path,
    }


def _extent(name: str, ring: Ring) -> dict[str, Any]:
    return {"oldest": ring.oldest_seq, "next": ring.next_seq, "alive": is_alive(name)}


def _cursor(text: str) -> dict[str, int]:
    cursor = {}
    for part in filter(None, text.split(",")):
        name, _, seq = part.rpartition(":")
        if not name or not seq.isdigit():
            raise ValueError(f"after={part!r} is not RING:SEQ")
        cursor[name] = int(seq)
    return cursor


def _flag(query: Mapping[str, str], name: str) -> bool:
    value = query.get(name, "0")
    if value not in ("0", "1"):
        raise ValueError(f"{name}={value!r} is not 0 or 1")
    return value == "1"


def _number(query: Mapping[str, str], name: str, default: float | None = None) -> float:
    text = query.get(name, "" if default is None else str(default))
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name}={text!r} is not a number") from None


def _verdict(verdict: Verdict) -> Reply:
    return _reply(200 if verdict.ok else 503, {"ok": verdict.ok, "reason": verdict.reason})


def _reply(status: int, body: Mapping[str, Any]) -> Reply:
    return Reply(status, _encode(body))


def _encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
