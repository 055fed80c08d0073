"""One slot: the same requests at the same offsets to one arm, then to the other, in the order of a seeded coin."""

import asyncio
import json
import platform
import time
from dataclasses import dataclass

import aiohttp

from tailguard_runtime.judge import Slot
from tailguard_runtime.load.arms import Arm, still_busy
from tailguard_runtime.load.client import HalfRun, run_half
from tailguard_runtime.load.gate import Look, lateness_limit, lateness_p99, void_reason
from tailguard_runtime.load.plan import Plan
from tailguard_runtime.load.schedule import (
    Offsets,
    Purpose,
    arrivals,
    dispersion,
    half_seconds,
    rate,
    stream,
    twin_goes_first,
)
from tailguard_runtime.load.workload import SAMPLING, Request, Workload

_SLACK_S = 30.0


@dataclass(frozen=True)
class Bench:
    """What every slot needs: the plan, both arms, the workload and the session to send with."""

    plan: Plan
    canary: Arm
    twin: Arm
    workload: Workload
    session: aiohttp.ClientSession

    @property
    def arms(self) -> tuple[Arm, Arm]:
        """Both arms, canary first."""
        return self.canary, self.twin

    @property
    def seconds(self) -> float:
        """Length of a half's schedule."""
        plan = self.plan
        return half_seconds(plan.slot.requests, plan.rate_per_second, plan.slot.min_seconds)


@dataclass(frozen=True)
class _HalfSeen:
    run: HalfRun
    look: Look
    busy: set[str]
    quiet: bool


async def run_slot(bench: Bench, number: int) -> Slot:
    """Measure slot `number` and say whether it can be evidence.

    Takes at most twice the half's seconds plus the time limit of a request, and as long again to drain. Never raises
    for what an arm does.
    """
    plan = bench.plan
    requests = bench.workload.slot(plan.seed, number, plan.slot.requests)
    offsets = arrivals(stream(plan.seed, number, Purpose.ARRIVALS), plan.slot.requests, bench.seconds)
    started_at = time.time()
    order = (bench.twin, bench.canary) if twin_goes_first(plan.seed, number) else (bench.canary, bench.twin)
    seen = {arm.name: await _run_half(bench, arm, requests, offsets) for arm in order}
    canary, twin = seen["canary"], seen["twin"]
    return Slot(
        number=number,
        first="twin" if order[0] is bench.twin else "canary",
        void=_not_drained(seen) or void_reason(plan.gate, canary.run.half, twin.run.half, (canary.look, twin.look)),
        started_at=started_at,
        canary=canary.run.half,
        twin=twin.run.half,
        facts=_facts(bench, offsets, seen),
    )


async def _run_half(bench: Bench, arm: Arm, requests: list[Request], offsets: Offsets) -> _HalfSeen:
    quiet, busy = await settle(bench)
    before = await arm.counters()
    run = await run_half(bench.session, arm.ref.url, requests, offsets, bench.plan.timeout_seconds)
    return _HalfSeen(run, Look(before, await arm.counters(), run.lag_s), busy, quiet)


async def settle(bench: Bench) -> tuple[bool, set[str]]:
    """Silence both guards for the next half and wait for both servers to drain.

    Returns whether both guards agreed, and the names of the arms that did not drain within a request's time limit.
    """
    patience = bench.plan.timeout_seconds
    quiet = await asyncio.gather(*(arm.quiet(bench.seconds + 2 * patience + _SLACK_S) for arm in bench.arms))
    return all(quiet), await still_busy(bench.arms, patience)


def _not_drained(seen: dict[str, _HalfSeen]) -> str:
    """A server that hangs never drains; then its failures are evidence, and void nothing."""
    busy = {name for half in seen.values() for name in half.busy if not seen[name].run.half.failed.any()}
    return f"NotDrained: {' and '.join(sorted(busy))} had requests when a half was to begin" if busy else ""


def _facts(bench: Bench, offsets: Offsets, seen: dict[str, _HalfSeen]) -> dict[str, str]:
    plan, halves = bench.plan, [half.run.half for half in seen.values()]
    facts = {
        "seed": str(plan.seed),
        "schedule.rate": f"{plan.slot.requests / bench.seconds:.4f}",
        "schedule.seconds": f"{bench.seconds:.3f}",
        "schedule.dispersion": f"{dispersion(offsets, bench.seconds):.3f}",
        "lateness.p99": f"{lateness_p99(*halves):.6f}",
        "lateness.limit": f"{lateness_limit(plan.gate, *halves):.6f}",
        "workload.hash": plan.workload.hash,
        "workload.digest": bench.workload.digest,
        "sampling": json.dumps(SAMPLING, sort_keys=True),
        "lengths": "max_tokens = min_tokens",
        "timeout": f"{plan.timeout_seconds:g}",
        "generator": f"aiohttp {aiohttp.__version__}, Python {platform.python_version()}",
    }
    for arm in bench.arms:
        facts |= {f"{arm.name}.{name}": value for name, value in _arm_facts(arm, offsets, seen[arm.name]).items()}
    return facts


def _arm_facts(arm: Arm, offsets: Offsets, half: _HalfSeen) -> dict[str, str]:
    hit_rate = half.look.hit_rate
    return {
        "pod": arm.ref.pod,
        "revision": arm.ref.revision,
        "rate": f"{rate(half.run.half.sent_s) / rate(offsets):.5f}",
        "loopLag.p99": f"{half.run.lag_s:.6f}",
        "cache.hitRate": "unknown" if hit_rate is None else f"{hit_rate:.5f}",
        "fingerprint": half.run.fingerprint,
        "quiet": "yes" if half.quiet else "no",
        **{f"after.{name}": value for name, value in half.look.after.facts().items()},
    }
