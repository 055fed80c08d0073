"""A slot: both arms get the same, on drained and quiet servers, and what spoils it voids it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import numpy as np
import pytest

from tailguard_runtime.judge.samples import Half, decode_slot, encode_slot
from tailguard_runtime.load.arms import Arm, Counters, counters_from_guard, counters_from_metrics
from tailguard_runtime.load.gate import Look, lateness_p99, void_reason
from tailguard_runtime.load.plan import Gate, Plan
from tailguard_runtime.load.prepare import prepare_workload
from tailguard_runtime.load.schedule import twin_goes_first
from tailguard_runtime.load.slot import Bench, run_slot, settle
from tailguard_runtime.load.warmup import is_stable, warm_up

if TYPE_CHECKING:
    from conftest import StubEngine


async def bench_of(
    session: aiohttp.ClientSession, plan_json: dict[str, Any], canary: StubEngine, twin: StubEngine, **change: Any
) -> Bench:
    for name, engine in (("canary", canary), ("twin", twin)):
        plan_json["arms"][name] |= {"url": engine.url, "probe": engine.url}
    plan = Plan.model_validate(plan_json | change)
    arms = Arm("canary", plan.arms.canary, session), Arm("twin", plan.arms.twin, session)
    return Bench(plan, *arms, await prepare_workload(plan, arms), session)


def half(count: int = 50, *, late_s: float = 0.0, ttft_s: float = 0.02, output: int = 8) -> Half:
    intended = np.linspace(0, 2, count)
    return Half(
        prompt_tokens=np.full(count, 20),
        output_tokens=np.full(count, output),
        intended_s=intended,
        sent_s=intended + late_s,
        ttft_s=np.full(count, ttft_s),
        tpot_s=np.full(count, 0.01),
        e2e_s=np.full(count, 2 * ttft_s),
        status=np.full(count, 200),
        error=("",) * count,
    )


def look(started: int = 50, hits: int = 0, lag_s: float = 0.0, processes: str = "7-1") -> Look:
    before = Counters(running=0, started=0, processes="7-1", cache_queries=0, cache_hits=0)
    after = Counters(running=0, started=started, processes=processes, cache_queries=1_000, cache_hits=hits)
    return Look(before, after, lag_s)


async def test_both_arms_get_the_same_requests_at_the_same_offsets(
    session: aiohttp.ClientSession, plan_json: dict[str, Any], canary: StubEngine, twin: StubEngine
) -> None:
    """R-178: and the same sampling, which the slot records."""
    # Given
    bench = await bench_of(session, plan_json, canary, twin)

    # When
    slot = await run_slot(bench, 3)

    # Then: neighbours a moment apart may reach a server in either order
    assert sorted(map(str, canary.bodies)) == sorted(map(str, twin.bodies)) and len(canary.bodies) == 20
    assert np.array_equal(slot.canary.prompt_tokens, slot.twin.prompt_tokens)
    assert np.allclose(slot.canary.intended_s, slot.twin.intended_s, atol=1e-9)
    assert slot.facts["sampling"] == json.dumps({"ignore_eos": True, "temperature": 0})


async def test_the_coin_gives_the_order(
    session: aiohttp.ClientSession, plan_json: dict[str, Any], canary: StubEngine, twin: StubEngine
) -> None:
    # Given one number of each side of the coin
    bench = await bench_of(session, plan_json, canary, twin)
    numbers = [next(n for n in range(20) if twin_goes_first(1234, n) is side) for side in (False, True)]

    # When
    slots = [await run_slot(bench, number) for number in numbers]

    # Then
    assert [slot.first for slot in slots] == ["canary", "twin"]


async def test_a_slot_keeps_its_environment_and_survives_storage(
    session: aiohttp.ClientSession, plan_json: dict[str, Any], canary: StubEngine, twin: StubEngine
) -> None:
    """R-171: pods, revisions, engine fingerprints, workload and generator are in every slot."""
    # Given
    bench = await bench_of(session, plan_json, canary, twin)

    # When
    stored = decode_slot(encode_slot(await run_slot(bench, 0), benchmark="b"))

    # Then
    wanted = {"canary.pod": "pod-a", "twin.pod": "pod-b", "canary.revision": "rev-a", "canary.fingerprint": "stub-1"}
    wanted |= {"workload.hash": "abc", "seed": "1234", "twin.quiet": "yes", "canary.cache.hitRate": "0.00000"}
    assert wanted.items() <= stored.facts.items()
    assert {"lateness.p99", "canary.rate", "schedule.dispersion", "workload.digest"} <= stored.facts.keys()


async def test_both_guards_are_silenced_before_each_half(
    session: aiohttp.ClientSession, plan_json: dict[str, Any], canary: StubEngine, twin: StubEngine
) -> None:
    # Given
    bench = await bench_of(session, plan_json, canary, twin)

    # When
    await run_slot(bench, 0)

    # Then
    assert (canary.quiet_calls, twin.quiet_calls) == (2, 2)


async def test_a_half_waits_until_both_servers_are_drained(
    session: aiohttp.ClientSession, plan_json: dict[str, Any], canary: StubEngine, twin: StubEngine
) -> None:
    # Given a request of somebody on the twin that ends in a moment
    bench = await bench_of(session, plan_json, canary, twin)
    twin.running = 1
    asyncio.get_running_loop().call_later(0.3, setattr, twin, "running", 0)

    # When / Then
    begun = asyncio.get_running_loop().time()
    assert await settle(bench) == (True, set())
    assert asyncio.get_running_loop().time() - begun > 0.25


async def test_a_server_that_never_drains_voids_the_slot(
    session: aiohttp.ClientSession, plan_json: dict[str, Any], canary: StubEngine, twin: StubEngine
) -> None:
    # Given
    bench = await bench_of(session, plan_json, canary, twin, timeoutSeconds=0.3)
    twin.running = 1

    # Then
    assert (await run_slot(bench, 0)).void.startswith("NotDrained: twin ")


async def test_without_a_guard_the_engines_metrics_tell(
    session: aiohttp.ClientSession, plan_json: dict[str, Any], canary: StubEngine, twin: StubEngine
) -> None:
    # Given
    bench = await bench_of(session, plan_json, canary, twin)
    ref = bench.canary.ref.model_copy(update={"probe": None})
    canary.running = 2

    # When
    counters = await Arm("canary", ref, session).counters()

    # Then
    assert counters == Counters(running=2, cache_queries=0, cache_hits=0)
    assert not await Arm("canary", ref, session).quiet(5)


async def test_an_arm_that_is_gone_voids_the_slot_since_only_the_kubelet_knows_why(
    session: aiohttp.ClientSession, plan_json: dict[str, Any], canary: StubEngine, twin: StubEngine
) -> None:
    # Given nobody on canary's port
    bench = await bench_of(session, plan_json, canary, twin)
    dead = Arm("canary", bench.canary.ref.model_copy(update={"url": "http://127.0.0.1:1", "probe": None}), session)

    # When
    slot = await run_slot(dataclasses.replace(bench, canary=dead), 0)

    # Then
    assert slot.canary.failed.all() and not slot.twin.failed.any()
    assert slot.void.startswith("ArmLost: the server of canary was gone")


async def test_different_tokenizers_are_asked_in_words(
    session: aiohttp.ClientSession, plan_json: dict[str, Any], canary: StubEngine, twin: StubEngine
) -> None:
    # Given
    twin.tokenizer_shift = 1
    bench = await bench_of(session, plan_json, canary, twin)

    # When
    await run_slot(bench, 0)

    # Then: words that fit both
    assert all(isinstance(sent["prompt"], str) for sent in canary.bodies)
    assert all(len(sent["prompt"]) <= 96 for sent in canary.bodies)


async def test_a_users_own_file_is_sent(
    tmp_path: Path,
    session: aiohttp.ClientSession,
    plan_json: dict[str, Any],
    canary: StubEngine,
    twin: StubEngine,
) -> None:
    # Given
    path = tmp_path / "workload.jsonl"
    path.write_text('{"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}\n')
    bench = await bench_of(session, plan_json, canary, twin, workload={"kind": "Jsonl", "path": str(path)})

    # When
    slot = await run_slot(bench, 0)

    # Then
    assert not slot.canary.failed.any()
    assert all(sent["messages"][0]["content"].endswith("hello") for sent in canary.bodies)


async def test_warm_up_reaches_both_arms_with_all_lengths_and_ends(
    session: aiohttp.ClientSession, plan_json: dict[str, Any], canary: StubEngine, twin: StubEngine
) -> None:
    # Given
    canary.first_s = twin.first_s = 0.03
    bench = await bench_of(session, plan_json, canary, twin, warmup={"minRounds": 3, "maxSeconds": 60})

    # When
    warm = await warm_up(bench)

    # Then
    assert warm.stable and warm.rounds >= 3
    assert len(canary.bodies) == len(twin.bodies) == 20 * warm.rounds
    assert {len(sent["prompt"]) for sent in twin.bodies} >= {16, 96}


async def test_warm_up_of_a_dead_arm_ends_too(
    session: aiohttp.ClientSession, plan_json: dict[str, Any], canary: StubEngine, twin: StubEngine
) -> None:
    # Given
    canary.fault = "http500"
    bench = await bench_of(session, plan_json, canary, twin, warmup={"minRounds": 2, "maxSeconds": 60})

    # Then
    assert (await warm_up(bench)).rounds < 30


@pytest.mark.parametrize(
    ("medians", "stable"),
    [
        ([(1.0, 1.0)], False),
        ([(1.0, 1.0), (1.04, 0.96)], True),
        ([(1.0, float("inf")), (1.0, 1.0)], False),
        ([(1.0, 1.0), (1.0, 0.94)], False),
        ([(1.0, 1.0), (1.0, 1.3)], True),
        ([(1.0, 1.0), (1.0, 1.3), (1.0, 1.0)], True),
        ([(1.0, float("inf")), (1.0, float("inf"))], True),
        ([(float("inf"), 1.0), (1.0, 1.0)], False),
    ],
)
def test_stable_means_no_arm_got_five_percent_faster(medians: list[tuple[float, ...]], stable: bool) -> None:
    assert is_stable(medians) is stable


@pytest.mark.parametrize(
    ("canary_half", "twin_half", "looks", "reason"),
    [
        (half(), half(), (look(), look()), ""),
        (half(late_s=0.05), half(), (look(), look()), "GeneratorLate: "),
        (half(), half(), (look(lag_s=0.05), look()), "GeneratorLagging: "),
        (half(), half(), (look(), look(started=51)), "OtherTraffic: twin "),
        (half(), half(), (look(hits=50), look()), "UnequalCacheHits: "),
        (half(), half(), (look(hits=5), look()), ""),
        (half(), half(output=7), (look(), look()), "UnequalLengths: 50 of 50 "),
        (half(), half(ttft_s=np.inf, output=0), (look(), look()), ""),
        (half(), half(), (look(processes="8-2"), look()), "ArmLost: the server of canary "),
        (half(), half(), (look(), Look(Counters(running=0), Counters())), "ArmLost: the server of twin "),
    ],
)
def test_what_voids_a_slot_and_what_does_not(
    canary_half: Half, twin_half: Half, looks: tuple[Look, Look], reason: str
) -> None:
    # When
    void = void_reason(Gate(), canary_half, twin_half, looks)

    # Then
    assert void.startswith(reason) and bool(void) == bool(reason)


def test_a_rate_off_by_more_than_a_percent_voids_the_slot() -> None:
    # Given each send a little later than the one before: slow answers hide the lateness, the rate shows it
    slow = half(ttft_s=100.0)
    stretched = dataclasses.replace(slow, sent_s=slow.intended_s * 1.02)

    # Then
    assert void_reason(Gate(), stretched, slow, (look(), look())).startswith("RateMissed: canary ")


def test_one_late_request_in_a_hundred_is_no_p99() -> None:
    # Given
    one_late = half()
    late = one_late.sent_s.copy()
    late[7] += 0.4

    # Then
    assert lateness_p99(dataclasses.replace(one_late, sent_s=late), half()) == 0.0


def test_counters_say_unknown_and_never_zero() -> None:
    assert counters_from_metrics("# nothing\nother_metric 3\n") == Counters()
    assert counters_from_guard({"running": 1, "engine": None}) == Counters(running=1)


def test_a_server_is_drained_when_guard_and_engine_both_say_so() -> None:
    engine = {"running": 1, "waiting": 2, "prefixCacheQueries": None, "prefixCacheHits": None}
    assert counters_from_guard({"running": 0, "engine": engine}).running == 3
