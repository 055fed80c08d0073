"""Prompt and output lengths of the default workload.

The shape is that of `data/azure_conv_lengths.csv` (2,000 requests of real chat traffic: prompts of 2 to 14,050 tokens,
median 1,020; outputs of 7 to 1,000, median 129). A model with a small context gets the same shape, smaller: at a
context of C tokens

* prompts are scaled by min(1, C / 2048) and kept within 16 and 3C/4,
* outputs are scaled by min(1, C / 4096) and kept within 4 and C/16,

so prompt and output always fit, a context of 16k or more sees the outputs as recorded, and one of 512 a quarter of the
prompt (at most 384) and an eighth of the output tokens (at most 32). Sixteen prompt tokens are the least: shorter first
prompts have crashed engines, and say nothing about prefill; four output tokens are the least that give a time per
token.
"""

import csv
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int64]

LEAST_PROMPT = 16
LEAST_OUTPUT = 4
_FULL_PROMPT_CONTEXT = 2_048
_FULL_OUTPUT_CONTEXT = 4_096


@dataclass(frozen=True)
class Lengths:
    """Pairs of lengths, int64[N] each, in tokens."""

    prompt: Tokens
    output: Tokens


def recorded_lengths() -> Lengths:
    """Return the vendored lengths as recorded."""
    text = (files("tailguard_runtime.load") / "data" / "azure_conv_lengths.csv").read_text()
    rows = [(int(row["prompt_tokens"]), int(row["output_tokens"])) for row in csv.DictReader(text.splitlines())]
    prompt, output = np.array(rows, dtype=np.int64).T
    return Lengths(prompt, output)


def scaled_lengths(recorded: Lengths, max_model_len: int) -> Lengths:
    """Return the lengths for a context of `max_model_len` tokens (at least 64)."""
    return Lengths(
        _scale(recorded.prompt, max_model_len / _FULL_PROMPT_CONTEXT, LEAST_PROMPT, max_model_len * 3 // 4),
        _scale(recorded.output, max_model_len / _FULL_OUTPUT_CONTEXT, LEAST_OUTPUT, max_model_len // 16),
    )


def _scale(tokens: Tokens, factor: float, least: int, most: int) -> Tokens:
    scaled: Tokens = np.clip(np.rint(tokens * min(1.0, factor)).astype(np.int64), least, most)
    return scaled
