"""Stored slots become evidence: read once, judged in another process, never trusted."""

import asyncio
import base64
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from fake_cluster import FakeCluster

from tailguard_operator.cluster.evidence import EvidenceReader, WorkerJudge
from tailguard_operator.cluster.judging import StoredSlot, judge_slots
from tailguard_operator.cluster.kinds import BENCHMARK, CONFIG_MAP, Object
from tailguard_operator.plan.world import Evidence
from tailguard_runtime.judge import Half, JudgeSpec, Slot, encode_slot, judge

REQUESTS = 50


def half(scale: float, seed: int) -> Half:
    rng = np.random.default_rng(seed)
    e2e = scale * 0.2 * np.exp(0.3 * rng.standard_normal(REQUESTS))
    return Half(
        prompt_tokens=np.full(REQUESTS, 100),
        output_tokens=np.full(REQUESTS, 32),
        intended_s=np.arange(REQUESTS) / 10,
        sent_s=np.arange(REQUESTS) / 10,
        ttft_s=e2e / 10,
        tpot_s=e2e / 100,
        e2e_s=e2e,
        status=np.full(REQUESTS, 200),
        error=("",) * REQUESTS,
    )


def slot(number: int, scale: float = 1.0) -> Slot:
    first = "canary" if number % 2 else "twin"
    return Slot(number, first, "", 1.8e9 + number, half(scale, 2 * number), half(1.0, 2 * number + 1), {})


class InProcess:
    """The judge in this process, forgetting everything when told; counts what it was handed."""

    def __init__(self) -> None:
        self.handed: list[int] = []
        self.forgetful = False

    async def judge(
        self, uid: str, spec: Mapping[str, Any], known: Sequence[str], new: Sequence[StoredSlot]
    ) -> Evidence | None:
        if self.forgetful and known:
            self.forgetful = False
            return None
        self.handed.append(len(new))
        return judge_slots(uid, spec, known, new)


class Bench:
    """A Benchmark and the ConfigMaps that its Job stores."""

    def __init__(self, purpose: str = "Canary", objectives: list[dict[str, Any]] | None = None) -> None:
        self.cluster = FakeCluster()
        self.spec = JudgeSpec()
        body = {"purpose": purpose, "judge": self.spec.to_json(), "objectives": objectives or []}
        self.object = self.cluster.put(BENCHMARK.partial("default", "b1") | {"spec": body})
        self.judge = InProcess()
        self.reader = EvidenceReader(self.cluster, self.judge)
        self.numbers = 0

    def store(self, *slots: Slot) -> None:
        for item in slots:
            data = base64.b64encode(encode_slot(item, benchmark="b1")).decode()
            self.put({"binaryData": {"slot.arrow": data}})

    def put(self, content: Mapping[str, Any], **changes: Any) -> None:
        uid = self.object["metadata"]["uid"]
        owners = [{"apiVersion": BENCHMARK.api_version, "kind": "Benchmark", "name": "b1", "uid": uid}]
        head: Object = CONFIG_MAP.partial("default", f"b1-{self.numbers}", ownerReferences=owners)
        self.cluster.put(head | {"immutable": True} | dict(content) | changes)
        self.numbers += 1

    async def read(self) -> Evidence:
        return await self.reader.read(self.object)


async def test_nothing_stored_is_no_evidence_and_nothing_is_judged() -> None:
    bench = Bench()
    assert await bench.read() == Evidence()
    assert bench.judge.handed == []


async def test_slots_are_read_once_and_give_the_judges_own_verdict() -> None:
    """R-017: the verdict that is acted upon is recomputed from the stored samples."""
    # Given three slots, then five more
    bench = Bench()
    slots = [slot(n, 2.0) for n in range(8)]
    bench.store(*slots[:3])
    await bench.read()
    bench.store(*slots[3:])
    reads = bench.cluster.reads
    # When they are read
    evidence = await bench.read()
    # Then only the new ones were fetched, and the verdict is that of all of them
    assert bench.cluster.reads - reads == 6
    assert bench.judge.handed == [3, 5]
    assert evidence.verdict == judge(slots, bench.spec).to_json()
    assert (evidence.slots, evidence.requests, len(evidence.sha256)) == (8, 8 * 2 * REQUESTS, 8)
    assert evidence.first_at and evidence.first_at.timestamp() == 1.8e9


async def test_a_judge_that_has_lost_its_slots_gets_everything_again() -> None:
    # Given evidence of five slots, and a judge whose process was ended since
    bench = Bench()
    bench.store(*(slot(n) for n in range(5)))
    await bench.read()
    bench.judge.forgetful = True
    bench.store(slot(5))
    # When one more is stored
    evidence = await bench.read()
    # Then all six were handed in, and it is as if nothing had been lost
    assert bench.judge.handed == [5, 6]
    assert evidence == await EvidenceReader(bench.cluster, InProcess()).read(bench.object)


async def test_a_manifest_takes_a_number_but_leaves_no_gap() -> None:
    # Given a Job that has ended after two slots, and another that went on behind its manifest
    bench = Bench()
    bench.store(slot(0), slot(1))
    digests = (await bench.read()).sha256
    manifest = json.dumps({"sha256": {"b1-0": digests[0], "b1-1": digests[1]}, "proposal": {}})
    bench.put({"data": {"manifest.json": manifest}})
    bench.store(slot(3), slot(4))
    # Then its slots count on
    evidence = await bench.read()
    assert (evidence.slots, evidence.broken) == (4, "")


async def test_an_alarm_is_seen_with_its_frozen_quantiles_and_bounds() -> None:
    # Given a canary twice as slow as its twin, under a bound that the twin keeps
    bound = {"requestClass": "all", "metric": "Latency", "percentile": "90", "maxMicroseconds": 400_000}
    bench = Bench(objectives=[bound])
    # When slots come until it is decided
    for number in range(60):
        bench.store(slot(number, 2.0))
        evidence = await bench.read()
        if evidence.outcome != "Continue":
            break
    # Then drift is found, the canary's samples are frozen, and the bound is checked on both arms
    assert evidence.outcome in ("Alarm", "GrossAlarm")
    assert evidence.frozen is not None and "startOffset" not in evidence.frozen
    bench.store(slot(bench.numbers), slot(bench.numbers + 1))
    assert await EvidenceReader(bench.cluster, InProcess()).read(bench.object) == evidence
    assert {(r.arm, r.met) for r in evidence.objectives} == {("canary", False), ("twin", True)}


async def test_ten_valid_slots_of_identical_pods_are_a_baseline() -> None:
    """R-016, R-020: the snapshot holds quantiles with intervals, thresholds and what the pair's offset was."""
    from tailguard_operator.api.baseline import Quantile
    from tailguard_operator.plan.offset import learned_offset

    # Given an A/A pair
    bench = Bench(purpose="Baseline")
    bench.store(*(slot(n) for n in range(9)))
    assert (await bench.read()).frozen is None
    # When the tenth slot comes
    bench.store(slot(9))
    frozen = (await bench.read()).frozen
    # Then it is frozen, in the fields of the Baseline, and what comes later changes nothing
    assert frozen is not None
    before = await bench.read()
    bench.store(slot(10), slot(11))
    assert await bench.read() == before == await EvidenceReader(bench.cluster, InProcess()).read(bench.object)
    quantiles = [Quantile.parse(row, "quantile") for row in frozen["quantiles"]]
    p99 = next(q for q in quantiles if (q.metric, q.percentile) == ("Latency", "99"))
    assert p99.microseconds is not None and p99.microseconds > 200_000
    assert set(frozen["thresholds"]) == {"TTFT/all", "TPOT/all", "Latency/all"}
    assert all(len(text) <= 16 for text in frozen["offsets"])
    assert all(len(text) <= 16 for text in learned_offset(None, frozen).history or ())


def not_immutable(bench: Bench) -> None:
    bench.put({"data": {}}, immutable=False)


def of_another_benchmark(bench: Bench) -> None:
    bench.put({"binaryData": {"slot.arrow": ""}})
    name = f"b1-{bench.numbers - 1}"
    owner = {"kind": "Benchmark", "name": "b2", "uid": "other"}
    bench.cluster.edit(CONFIG_MAP, "default", name, lambda o: o["metadata"].update(ownerReferences=[owner]))


def empty(bench: Bench) -> None:
    bench.put({"data": {"else": ""}})


def no_arrow(bench: Bench) -> None:
    bench.put({"binaryData": {"slot.arrow": base64.b64encode(b"not arrow").decode()}})


def too_large(bench: Bench) -> None:
    bench.put({"binaryData": {"slot.arrow": base64.b64encode(b"x" * 1024 * 1024).decode()}})


def no_base64(bench: Bench) -> None:
    bench.put({"binaryData": {"slot.arrow": "???"}})


def another_number(bench: Bench) -> None:
    bench.store(slot(7))


def wrong_manifest(bench: Bench) -> None:
    bench.put({"data": {"manifest.json": json.dumps({"sha256": {"b1-0": "0" * 64}})}})


def unreadable_manifest(bench: Bench) -> None:
    bench.put({"data": {"manifest.json": "{"}})


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (not_immutable, "not immutable"),
        (of_another_benchmark, "not owned by this Benchmark"),
        (empty, "neither slot.arrow nor manifest.json"),
        (no_arrow, "no Arrow IPC file"),
        (too_large, "at most 921600 are allowed"),
        (no_base64, "no base64"),
        (another_number, "slot 1 says that it is number 7"),
        (wrong_manifest, "the SHA-256 of b1-0 is another"),
        (unreadable_manifest, "can't be read"),
    ],
)
async def test_samples_that_are_not_what_the_job_may_write_are_broken(spoil: Any, why: str) -> None:
    """R-020: what cannot be read is never taken for a pass."""
    # Given one good slot and one object that is not as it must be
    bench = Bench()
    bench.store(slot(0))
    spoil(bench)
    # When they are read
    evidence = await bench.read()
    # Then there is no verdict, and it says why
    assert why in evidence.broken
    assert (evidence.outcome, evidence.frozen) == ("Continue", None)
    assert await bench.read() == evidence


async def test_the_worker_judges_alike_keeps_its_slots_and_ends_when_idle() -> None:
    # Given a worker that may rest for a moment only
    worker = WorkerJudge(idle_seconds=0.3)
    spec = {"purpose": "Canary", "judge": JudgeSpec().to_json()}
    slots = [StoredSlot(n, encode_slot(slot(n), benchmark="b1")) for n in range(3)]
    # When slots come one after another
    first = await worker.judge("u1", spec, (), slots[:2])
    assert first is not None
    second = await worker.judge("u1", spec, first.sha256, slots[2:])
    # Then the judge has kept the ones before
    assert second == judge_slots("u1-here", spec, (), slots)
    # When it has rested, its process is gone, and with it what it knew
    await asyncio.sleep(0.6)
    assert await worker.judge("u1", spec, first.sha256, slots[2:]) is None
    worker.close()


def test_the_operator_itself_never_loads_what_only_the_judge_needs() -> None:
    # When a fresh process imports the whole operator
    import subprocess

    code = "import sys, tailguard_operator.cluster.process; print({'numpy', 'pyarrow', 'scipy'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # Then numpy and pyarrow are not among its modules
    assert found.stdout.strip() == "set()"
