"""Random prompts that no other request of the run shares a beginning with.

An engine with a prefix cache answers a repeated beginning many times faster, so prompts are drawn anew for every
request; the chance that two of 12,000 share their first 16 tokens is below 1e-11.
"""

from collections.abc import Callable, Sequence

import numpy as np

Prompt = str | list[int]
Prompter = Callable[[np.random.Generator, int], Prompt]

# Every word has four letters: with its space it is at most five tokens, even where every byte is a token.
_SYLLABLES = tuple(consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou")
WORDS = tuple(first + second for first in _SYLLABLES for second in _SYLLABLES)
MOST_TOKENS_A_WORD = 5.0
LEAST_POOL = 16


def token_prompter(pool: Sequence[int]) -> Prompter:
    """Return prompts as token ids, exactly as long as asked, drawn from `pool`.

    Raises:
        ValueError: the pool has fewer than 16 different tokens.
    """
    tokens = np.unique(np.asarray(pool, dtype=np.int64))
    if tokens.size < LEAST_POOL:
        raise ValueError(f"token pool: {tokens.size} different tokens: at least {LEAST_POOL} are needed")

    def prompt(rng: np.random.Generator, length: int) -> Prompt:
        drawn: list[int] = rng.choice(tokens, size=length).tolist()
        return drawn

    return prompt


def word_prompter(tokens_a_word: float = MOST_TOKENS_A_WORD) -> Prompter:
    """Return prompts as short words, at most about as long as asked, for engines whose tokens can't be named."""

    def prompt(rng: np.random.Generator, length: int) -> Prompt:
        return random_words(rng, max(1, int(length / tokens_a_word)))

    return prompt


def random_words(rng: np.random.Generator, count: int) -> str:
    """Return `count` words drawn at random, joined by spaces."""
    return " ".join(rng.choice(WORDS, size=count).tolist())


def ordinary_tokens(vocab_size: int) -> range:
    """Return ids that are ordinary text in known vocabularies.

    Special tokens sit in the first per cent (Mistral keeps 1,000 there) or at the end (Llama, Qwen, Gemma).
    """
    return range(max(4, vocab_size // 100), vocab_size * 9 // 10)
