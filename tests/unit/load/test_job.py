"""The Job from its command line, in a process of its own, against two stand-in engines."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tailguard_runtime.judge.process import judge
from tailguard_runtime.judge.samples import Slot, decode_slot
from tailguard_runtime.judge.spec import JudgeSpec
from tailguard_runtime.load.store import digest

if TYPE_CHECKING:
    from conftest import StubEngine

FAST = {"ratePerSecond": 100, "slot": {"requests": 20, "minSeconds": 0}}


@dataclass
class Bench:
    """A plan on disk, a folder for its slots, and what the Job printed."""

    folder: Path
    plan: dict[str, Any]
    canary: StubEngine
    twin: StubEngine

    async def start(self, **change: Any) -> asyncio.subprocess.Process:
        (self.folder / "plan.json").write_text(json.dumps(self.plan | change))
        command = ["-m", "tailguard_runtime.load.job", "--plan", "plan.json", "--out", "out"]
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            sys.executable, *command, cwd=self.folder, stdout=pipe, stderr=pipe, env={"PYTHONPATH": ":".join(sys.path)}
        )

    async def run(self, **change: Any) -> tuple[int | None, list[dict[str, Any]], str]:
        process = await self.start(**change)
        output, errors = await asyncio.wait_for(process.communicate(), 120)
        return process.returncode, [json.loads(line) for line in output.splitlines()], errors.decode()

    def slots(self) -> list[Slot]:
        files = (self.folder / "out").glob("*/slot.arrow")
        return sorted((decode_slot(file.read_bytes()) for file in files), key=lambda slot: slot.number)

    def manifest(self) -> dict[str, Any]:
        (file,) = (self.folder / "out").glob("*/manifest.json")
        content: dict[str, Any] = json.loads(file.read_text())
        return content


@pytest.fixture
def bench(tmp_path: Path, plan_json: dict[str, Any], canary: StubEngine, twin: StubEngine) -> Bench:
    for name, engine in (("canary", canary), ("twin", twin)):
        plan_json["arms"][name] |= {"url": engine.url, "probe": engine.url}
        engine.first_s, engine.chunk_s = 0.04, 0.002
    return Bench(tmp_path, plan_json | FAST, canary, twin)


async def test_equal_arms_raise_no_alarm_and_leave_a_valid_record(bench: Bench) -> None:
    # When
    code, lines, errors = await bench.run(maxSlots=8)

    # Then
    assert (code, errors) == (0, "")
    assert [line["step"] for line in lines] == ["start", "warm", *["slot"] * (len(lines) - 3), "end"]
    slots, last = bench.slots(), bench.manifest()
    assert [slot.number for slot in slots] == list(range(len(slots)))
    assert last["proposal"]["outcome"] in ("Continue", "Promote")
    stored = {f.parent.name: digest(f.read_bytes()) for f in (bench.folder / "out").glob("*/slot.arrow")}
    assert last["sha256"] == stored


async def test_a_canary_three_times_as_slow_is_a_gross_alarm_in_a_few_slots(bench: Bench) -> None:
    # Given
    bench.canary.first_s, bench.canary.chunk_s = 3 * bench.twin.first_s, 3 * bench.twin.chunk_s

    # When
    code, lines, _ = await bench.run(maxSlots=60)

    # Then: the Job ended by itself, and whoever reads the slots comes to the same verdict
    assert code == 0 and lines[-1]["outcome"] == "GrossAlarm"
    slots = bench.slots()
    assert sum(not slot.void for slot in slots) <= 10
    again = judge(slots, JudgeSpec.from_json(bench.plan["judge"]))
    assert again.to_json() == bench.manifest()["proposal"]


@pytest.mark.parametrize("fault", ["http500", "cut", "error", "hang"])
async def test_a_canary_that_only_fails_is_a_gross_alarm(bench: Bench, fault: str) -> None:
    # Given
    bench.canary.fault = fault

    # When
    code, lines, _ = await bench.run(maxSlots=30, timeoutSeconds=0.5)

    # Then
    assert code == 0 and lines[-1]["outcome"] == "GrossAlarm"
    assert all(slot.canary.failed.all() for slot in bench.slots())


@pytest.mark.parametrize("arm", ["canary", "twin"])
async def test_an_arm_that_is_gone_decides_nothing(bench: Bench, arm: str) -> None:
    # Given an arm that nobody answers for: it may have died, or been disrupted, which only the kubelet can tell
    bench.plan["arms"][arm] |= {"url": "http://127.0.0.1:1", "probe": "http://127.0.0.1:1"}

    # When
    code, lines, _ = await bench.run(maxSlots=8)

    # Then every slot is stored, void, and there is neither an alarm nor a proof
    assert code == 0 and lines[-1]["outcome"] == "Continue"
    assert [slot.void[:7] for slot in bench.slots()] == ["ArmLost"] * 8


async def test_a_freeze_runs_to_its_valid_slots_whatever_the_judge_says(bench: Bench) -> None:
    # Given
    bench.canary.first_s = 3 * bench.twin.first_s

    # When
    code, _, _ = await bench.run(maxSlots=60, validSlots=14)

    # Then
    assert code == 0 and sum(not slot.void for slot in bench.slots()) == 14


async def test_sigterm_leaves_a_valid_prefix_and_a_second_run_goes_on_after_it(bench: Bench) -> None:
    # Given a run that has stored two slots
    process = await bench.start(maxSlots=100, validSlots=100)
    assert process.stdout is not None
    while json.loads(await process.stdout.readline()).get("number") != 1:
        pass

    # When
    process.send_signal(signal.SIGTERM)
    rest, errors = await asyncio.wait_for(process.communicate(), 20)

    # Then: whole slots, no manifest
    assert process.returncode == 143 and errors == b""
    assert json.loads(rest.splitlines()[-1])["step"] == "stopped"
    before = len(bench.slots())
    assert before >= 2 and not list((bench.folder / "out").glob("*/manifest.json"))

    # When / Then: the next run takes the next numbers
    assert (await bench.run(maxSlots=before + 2, validSlots=100))[0] == 0
    assert [slot.number for slot in bench.slots()] == list(range(before + 2))


async def test_a_number_that_another_run_took_is_left_and_the_slot_is_void_under_the_next(bench: Bench) -> None:
    # Given a run in the middle of its first slot
    process = await bench.start(maxSlots=2)
    assert process.stdout is not None
    while json.loads(await process.stdout.readline())["step"] != "warm":
        pass
    warmed = len(bench.canary.bodies) + len(bench.twin.bodies)
    while len(bench.canary.bodies) + len(bench.twin.bodies) == warmed:
        await asyncio.sleep(0.001)

    # When another run stores number 0
    other = bench.folder / "out" / "chat-1a2b3c4d-b1-0"
    other.mkdir(parents=True)
    (other / "note").write_text("another's")
    await asyncio.wait_for(process.communicate(), 60)

    # Then
    (slot,) = bench.slots()
    assert slot.number == 1 and slot.void.startswith("NumberTaken: ")
    assert [file.name for file in other.iterdir()] == ["note"]


async def test_bad_input_is_told_in_one_line_with_code_two(bench: Bench) -> None:
    assert (await bench.run(maxSlots=0))[::2] == (
        2,
        "benchmark: plan plan.json: maxSlots: 0: Input should be greater than or equal to 1\n",
    )
    code, _, errors = await bench.run(workload={"kind": "Jsonl", "path": "missing.jsonl"})
    assert code == 2 and "workload missing.jsonl: can't be read" in errors
