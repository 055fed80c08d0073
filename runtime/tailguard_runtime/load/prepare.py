"""From the plan to a workload that both arms can be asked, before the first request is timed."""

import asyncio

import numpy as np

from tailguard_runtime.load.arms import Arm
from tailguard_runtime.load.lengths import recorded_lengths, scaled_lengths
from tailguard_runtime.load.plan import DefaultWorkload, Plan
from tailguard_runtime.load.prompts import (
    LEAST_POOL,
    MOST_TOKENS_A_WORD,
    Prompter,
    ordinary_tokens,
    random_words,
    token_prompter,
    word_prompter,
)
from tailguard_runtime.load.workload import DefaultRequests, Workload, read_user_requests

_POOL_WORDS = 2_000
_POOL_SEED = 0


async def prepare_workload(plan: Plan, arms: tuple[Arm, Arm]) -> Workload:
    """Return the plan's workload.

    Prompts of the default workload are token ids, so that lengths are exact, if both arms have the same tokenizer;
    else they are words, and the engine's own counts say how long they were.

    Raises:
        WorkloadError: a user's file can't be used.
    """
    if not isinstance(plan.workload, DefaultWorkload):
        return read_user_requests(plan.workload.path, plan.served_name, plan.workload.max_model_len)
    prompter, prompts = await _prompter(plan, plan.workload, arms)
    lengths = scaled_lengths(recorded_lengths(), plan.workload.max_model_len)
    return DefaultRequests(lengths, prompter, plan.served_name, prompts)


async def _prompter(plan: Plan, workload: DefaultWorkload, arms: tuple[Arm, Arm]) -> tuple[Prompter, str]:
    if workload.vocab_size is not None:
        return token_prompter(ordinary_tokens(workload.vocab_size)), "tokens"
    text = random_words(np.random.default_rng(_POOL_SEED), _POOL_WORDS)
    canary, twin = await asyncio.gather(*(arm.tokens_of(plan.served_name, text) for arm in arms))
    if canary is not None and canary == twin and len(set(canary)) >= LEAST_POOL:
        return token_prompter(canary), "tokens"
    counts = [len(tokens) for tokens in (canary, twin) if tokens is not None]
    return word_prompter(max(counts) / _POOL_WORDS if len(counts) == 2 else MOST_TOKENS_A_WORD), "words"
