"""The benchmark Job: `python -m tailguard_runtime.load.job --plan FILE [--out DIR]`.

It warms both arms, measures slot after slot, stores each before the next begins, and ends by itself when the judge's
process decides, the plan's slots are used up, or it is told to stop (SIGTERM). What is stored is a valid prefix at
every moment. A run that ends by itself stores one last object: the SHA-256 of its slots and the judge's proposal. The
operator recomputes the verdict from the slots; the proposal only tells it that now is a good time.

A line of JSON a step goes to standard output. Exit codes: 0 ended by itself, 1 samples can't be stored, 2 the plan or
the workload can't be used, 143 stopped by SIGTERM.
"""

import argparse
import asyncio
import dataclasses
import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp

from tailguard_runtime.judge import Outcome, Process, Slot, encode_slot
from tailguard_runtime.load.arms import Arm
from tailguard_runtime.load.client import open_session
from tailguard_runtime.load.plan import Plan, PlanError, load_plan
from tailguard_runtime.load.prepare import prepare_workload
from tailguard_runtime.load.slot import Bench, run_slot
from tailguard_runtime.load.store import (
    MANIFEST_KEY,
    SLOT_KEY,
    ConfigMapStore,
    FileStore,
    NumberTakenError,
    Store,
    StoreError,
    digest,
    manifest,
    next_free,
    object_name,
)
from tailguard_runtime.load.warmup import warm_up
from tailguard_runtime.load.workload import WorkloadError

STORE_FAILED, BAD_INPUT, TERMINATED = 1, 2, 128 + signal.SIGTERM
Report = Callable[[str, dict[str, Any]], None]


class Run:
    """One run of the Job over a store: what was stored, and what the judge makes of it."""

    def __init__(self, bench: Bench, store: Store, report: Report) -> None:
        """Start with no slot."""
        self._bench, self._store, self._report = bench, store, report
        self._process = Process(bench.plan.judge_spec())
        self._digests: dict[str, str] = {}
        self._valid = 0

    async def slots(self) -> None:
        """Measure and store slots until one of the ends is reached, then store the manifest."""
        plan = self._bench.plan
        number = await next_free(self._store, plan.start_slot)
        outcome = Outcome.CONTINUE
        while number < plan.max_slots and not self._ended(outcome):
            begun = perf_counter()
            slot = await self._stored(await run_slot(self._bench, number))
            if slot.number != number:
                self._process = Process(plan.judge_spec())  # a gap: what was seen before can't be joined to it
            outcome = self._process.add(slot)
            self._valid += not slot.void
            self._report("slot", self._line(slot, outcome, perf_counter() - begun))
            number = slot.number + 1
        await self._close(number)

    def _ended(self, outcome: Outcome) -> bool:
        if self._bench.plan.valid_slots is not None:
            return self._valid >= self._bench.plan.valid_slots
        return outcome is not Outcome.CONTINUE

    async def _stored(self, slot: Slot) -> Slot:
        """Store the slot; under the next number, and void, if another run of this Job took its number meanwhile."""
        while True:
            content = encode_slot(slot, benchmark=self._bench.plan.benchmark.name)
            try:
                await self._store.put(slot.number, SLOT_KEY, content)
            except NumberTakenError:
                void = f"NumberTaken: slot {slot.number} was stored by another run, which used the same arms"
                slot = dataclasses.replace(slot, number=slot.number + 1, void=slot.void or void)
                continue
            self._digests[self._name(slot.number)] = digest(content)
            return slot

    async def _close(self, number: int) -> None:
        verdict = self._process.verdict()
        content = manifest(self._digests, verdict.to_json())
        while True:
            try:
                await self._store.put(number, MANIFEST_KEY, content)
            except NumberTakenError:
                number += 1
                continue
            end = {"outcome": verdict.outcome, "message": verdict.message, "manifest": self._name(number)}
            self._report("end", end)
            return

    def _name(self, number: int) -> str:
        return object_name(self._bench.plan.benchmark.name, number)

    def _line(self, slot: Slot, outcome: Outcome, seconds: float) -> dict[str, Any]:
        failed = {"canary": int(slot.canary.failed.sum()), "twin": int(slot.twin.failed.sum())}
        return {
            "number": slot.number,
            "first": slot.first,
            "void": slot.void,
            "failed": failed,
            "seconds": round(seconds, 3),
            "lateness": slot.facts["lateness.p99"],
            "outcome": outcome,
            "evidence": self._evidence(),
        }

    def _evidence(self) -> dict[str, Any]:
        trail = self._process.verdict().trail
        return dataclasses.asdict(trail[-1]) if trail else {}


async def run_job(plan: Plan, out: Path | None, report: Report) -> None:
    """Do the whole Job.

    Raises:
        WorkloadError: the workload can't be used.
        StoreError: samples can't be stored.
    """
    async with open_session() as session, aiohttp.ClientSession() as api:
        store: Store = FileStore(out, plan.benchmark.name) if out else ConfigMapStore.in_cluster(api, plan.benchmark)
        canary, twin = Arm("canary", plan.arms.canary, session), Arm("twin", plan.arms.twin, session)
        workload = await prepare_workload(plan, (canary, twin))
        bench = Bench(plan, canary, twin, workload, session)
        versions = await asyncio.gather(canary.version(), twin.version())
        report("start", {"versions": versions, "workload": workload.digest, "secondsPerHalf": bench.seconds})
        report("warm", dataclasses.asdict(await warm_up(bench)))
        await Run(bench, store, report).slots()


def print_line(step: str, content: dict[str, Any]) -> None:
    """Write one step as a line of JSON."""
    print(json.dumps({"step": step, **content}, default=str), flush=True)


async def _until_done_or_told(plan: Plan, out: Path | None) -> int:
    job = asyncio.ensure_future(run_job(plan, out, print_line))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, job.cancel)
    try:
        await job
    except asyncio.CancelledError:
        print_line("stopped", {"reason": "SIGTERM: the open slot is dropped, all stored slots are whole"})
        return TERMINATED
    except WorkloadError as error:
        return _failed(error, BAD_INPUT)
    except StoreError as error:
        return _failed(error, STORE_FAILED)
    return 0


def _failed(error: Exception, code: int) -> int:
    print(f"benchmark: {error}", file=sys.stderr, flush=True)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the Job and return its exit code."""
    parser = argparse.ArgumentParser(prog="tailguard_runtime.load.job", description="Measure two arms in slots.")
    parser.add_argument("--plan", type=Path, required=True, help="the plan, a JSON file")
    parser.add_argument("--out", type=Path, help="store files in this folder instead of ConfigMaps")
    options = parser.parse_args(arguments)
    try:
        plan = load_plan(options.plan)
    except PlanError as error:
        return _failed(error, BAD_INPUT)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_until_done_or_told(plan, options.out))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main())
