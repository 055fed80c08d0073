"""Builders of samples. Everything random is seeded."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from tailguard_runtime.judge.pairs import Pairs
from tailguard_runtime.judge.samples import Arm, FloatArray, Half, Slot

# A deadline per example would measure the machine's load, not the judge.
settings.register_profile("judge", deadline=None)
settings.load_profile("judge")

RECORDING = Path(__file__).parents[2] / "data" / "judge" / "vllm-cpu-aa-turn.csv"


def build_half(e2e: FloatArray, *, prompt_tokens: int = 100, seconds: float = 10.0) -> Half:
    """A half whose TTFT is a tenth and whose TPOT a hundredth of `e2e`; +inf = failed."""
    count = len(e2e)
    failed = np.isinf(e2e)
    offsets = (np.arange(count) + 0.5) * seconds / max(count, 1)
    return Half(
        prompt_tokens=np.full(count, prompt_tokens),
        output_tokens=np.where(failed, 0, 32),
        intended_s=offsets,
        sent_s=offsets + 1e-4,
        ttft_s=e2e / 10,
        tpot_s=e2e / 100,
        e2e_s=e2e,
        status=np.where(failed, 500, 200),
        error=tuple("HTTP 500" if bad else "" for bad in failed),
    )


def build_slot(
    number: int,
    canary: Sequence[float] | FloatArray,
    twin: Sequence[float] | FloatArray,
    *,
    first: Arm = "canary",
    void: str = "",
    prompt_tokens: int = 100,
    seconds: float = 10.0,
) -> Slot:
    """A slot from end-to-end latencies in seconds."""
    halves = [
        build_half(np.asarray(values, dtype=float), prompt_tokens=prompt_tokens, seconds=seconds)
        for values in (canary, twin)
    ]
    return Slot(number, first, void, 1_700_000_000.0 + 20 * number, halves[0], halves[1], {"seed": "7"})


def paired_slots(
    seed: int, count: int, *, ratio: float = 1.0, size: int = 50, shared: float = 0.45, own: float = 0.2
) -> list[Slot]:
    """Lognormal pairs: sd `shared` by the prompt, `own` of each arm; the canary is slower by `ratio`."""
    rng = np.random.default_rng(seed)
    slots = []
    for number in range(count):
        prompt = shared * rng.standard_normal(size)
        canary, twin = (np.exp(prompt + own * rng.standard_normal(size)) for _ in range(2))
        slots.append(build_slot(number, ratio * canary, twin, first="canary" if rng.random() < 0.5 else "twin"))
    return slots


def log_pairs(canary: FloatArray, twin: FloatArray, size: int = 50) -> Pairs:
    """Pairs in slots of `size`, from ln seconds."""
    return Pairs(np.asarray(canary, float), np.asarray(twin, float), np.arange(size, len(canary) + 1, size))


def recorded_slots(epoch: int, size: int, *, injected: float = 1.0, swap: bool = False) -> list[Slot]:
    """One start of the recorded identical vLLM servers, cut into slots of `size`; arm b is the canary if swapped."""
    with RECORDING.open() as lines:
        rows = [row for row in csv.DictReader(lines) if int(row["epoch"]) == epoch]
    slots: list[Slot] = []
    for place in sorted({int(row["slot"]) for row in rows}):
        arms = {arm: [r for r in rows if r["arm"] == arm and int(r["slot"]) == place] for arm in "ab"}
        first: Arm = "canary" if (arms["a"][0]["half"] == "0") != swap else "twin"
        for start in range(0, len(arms["a"]), size):
            cut = [_recorded_half(arms[arm][start : start + size]) for arm in ("ba" if swap else "ab")]
            canary = _scaled(cut[0], injected)
            slots.append(Slot(len(slots), first, "", 0.0, canary, cut[1], {}))
    return slots


def _recorded_half(rows: list[dict[str, str]]) -> Half:
    tokens = [int(row["output_tokens"]) for row in rows]
    spans = [float(row["e2e_s"]) - float(row["ttft_s"]) for row in rows]
    return Half(
        prompt_tokens=np.array([int(row["prompt_tokens"]) for row in rows]),
        output_tokens=np.array(tokens),
        intended_s=np.array([float(row["intended_s"]) for row in rows]),
        sent_s=np.array([float(row["sent_s"]) for row in rows]),
        ttft_s=np.array([float(row["ttft_s"]) for row in rows]),
        tpot_s=np.array([span / (n - 1) if n > 1 else math.nan for n, span in zip(tokens, spans, strict=True)]),
        e2e_s=np.array([float(row["e2e_s"]) for row in rows]),
        status=np.array([int(row["status"]) for row in rows]),
        error=("",) * len(rows),
    )


def _scaled(half: Half, ratio: float) -> Half:
    return Half(
        half.prompt_tokens,
        half.output_tokens,
        half.intended_s,
        half.sent_s,
        half.ttft_s * ratio,
        half.tpot_s * ratio,
        half.e2e_s * ratio,
        half.status,
        half.error,
    )


@pytest.fixture(scope="session")
def make_slot() -> Callable[..., Slot]:
    return build_slot


@pytest.fixture(scope="session")
def make_slots() -> Callable[..., list[Slot]]:
    return paired_slots


@pytest.fixture(scope="session")
def make_pairs() -> Callable[..., Pairs]:
    return log_pairs


@pytest.fixture(scope="session")
def make_recorded() -> Callable[..., list[Slot]]:
    return recorded_slots
