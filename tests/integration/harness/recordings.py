"""Slots as a benchmark would record them, from seeds: what an engine with a given slowdown would have shown."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tailguard_runtime.judge.samples import Half, Slot

NO_ANSWER, OK = 0, 200
PROMPT_SPREAD = 0.05  # sd of the log latency that both arms share, as they get the same prompts
OWN_SPREAD = 0.02  # sd of the log latency of one request in one arm
TTFT_SECONDS, TPOT_SECONDS, TOKENS = 0.080, 0.020, 16


@dataclass(frozen=True)
class ArmPace:
    """How one arm answers: its slowdown against the nominal engine, and whether it answers at all."""

    slowdown: float = 1.0
    dead: bool = False


def record_slot(number: int, requests: int, seed: int, canary: ArmPace, twin: ArmPace, started_at: float) -> Slot:
    """Slot `number` of a benchmark: `requests` requests an arm; the same arguments give the same samples."""
    rng = np.random.default_rng([seed, number])
    shared = rng.normal(0, PROMPT_SPREAD, requests)
    first: Literal["canary", "twin"] = "canary" if rng.random() < 0.5 else "twin"
    halves = [_half(rng, shared, pace) for pace in (canary, twin)]
    facts = {"seed": str(seed), "lateness.p99": "0.000100"}
    return Slot(number, first, "", started_at, halves[0], halves[1], facts)


def _half(rng: np.random.Generator, shared: "np.ndarray[tuple[int], np.dtype[np.float64]]", pace: ArmPace) -> Half:
    count = len(shared)
    factor = pace.slowdown * np.exp(shared + rng.normal(0, OWN_SPREAD, count))
    failed = np.full(count, np.inf)
    ttft, tpot = TTFT_SECONDS * factor, TPOT_SECONDS * factor
    offsets = np.linspace(0, 1, count, endpoint=False)
    return Half(
        prompt_tokens=np.full(count, 64, np.int32),
        output_tokens=np.full(count, 0 if pace.dead else TOKENS, np.int32),
        intended_s=offsets,
        sent_s=offsets,
        ttft_s=failed if pace.dead else ttft,
        tpot_s=failed if pace.dead else tpot,
        e2e_s=failed if pace.dead else ttft + (TOKENS - 1) * tpot,
        status=np.full(count, NO_ANSWER if pace.dead else OK, np.int16),
        error=("ConnectionRefused" if pace.dead else "",) * count,
    )
