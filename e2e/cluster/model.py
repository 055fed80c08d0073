"""Make the demo's model: a small Llama with seeded random weights and a real byte-level tokenizer.

Nothing is downloaded: the weights come from numpy's PCG64 and the tokenizer is trained on the manual text that
Python itself ships. Run by the engine's own interpreter, which has numpy, safetensors and tokenizers:

    python model.py OUT [--seed 1] [--layers 2] [--width 128]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VOCABULARY = 4096
CONTEXT = 1024
HEAD_SIZE = 64  # one of the sizes that vLLM's CPU attention has
BYTES = 256  # a byte-level tokenizer's alphabet follows the special tokens
SPECIAL = ("<unk>", "<s>", "</s>")
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<s>' + m['role'] + '\\n' + m['content'] + '</s>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant\\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Shape:
    """Sizes of a Llama; `width` is the hidden size, a multiple of the head size."""

    layers: int = 2
    width: int = 128
    vocabulary: int = VOCABULARY
    context: int = CONTEXT

    def __post_init__(self) -> None:
        if self.layers < 1 or self.width < HEAD_SIZE or self.width % HEAD_SIZE:
            raise ValueError(
                f"layers={self.layers}, width={self.width}: allowed are layers >= 1 and a width that is a "
                f"multiple of {HEAD_SIZE}"
            )

    @property
    def heads(self) -> int:
        return self.width // HEAD_SIZE

    @property
    def inner(self) -> int:
        """Width of the feed-forward part, 8/3 of the width, rounded up to 32."""
        return -(-self.width * 8 // 3 // 32) * 32


def tensor_shapes(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every weight, in the order in which they are drawn."""
    yield "model.embed_tokens.weight", (shape.vocabulary, shape.width)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}"
        for name in ("q", "k", "v", "o"):
            yield f"{prefix}.self_attn.{name}_proj.weight", (shape.width, shape.width)
        yield f"{prefix}.mlp.gate_proj.weight", (shape.inner, shape.width)
        yield f"{prefix}.mlp.up_proj.weight", (shape.inner, shape.width)
        yield f"{prefix}.mlp.down_proj.weight", (shape.width, shape.inner)
        yield f"{prefix}.input_layernorm.weight", (shape.width,)
        yield f"{prefix}.post_attention_layernorm.weight", (shape.width,)
    yield "model.norm.weight", (shape.width,)
    yield "lm_head.weight", (shape.vocabulary, shape.width)


def config(shape: Shape) -> dict[str, Any]:
    """`config.json` of a Llama of this shape, as transformers reads it."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "head_dim": HEAD_SIZE,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "bos_token_id": SPECIAL.index("<s>"),
        "eos_token_id": SPECIAL.index("</s>"),
        "torch_dtype": "float32",
    }


def tokenizer_config(shape: Shape) -> dict[str, Any]:
    """`tokenizer_config.json` with a chat template, so that the chat endpoint works too."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": shape.context,
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def write_weights(out: Path, shape: Shape, seed: int) -> None:
    """Draw every weight from N(0, 0.02), norms as ones, and write one safetensors file.

    The output rows of the special and the single-byte tokens are zero: greedy decoding then never ends early
    and never emits half of a UTF-8 character, so every generated token shows as text in a stream.
    """
    import numpy as np
    from safetensors.numpy import save_file  # type: ignore[import-not-found, unused-ignore]

    rng = np.random.Generator(np.random.PCG64(seed))
    tensors = {
        name: np.ones(size, np.float32) if len(size) == 1 else (0.02 * rng.standard_normal(size, dtype=np.float32))
        for name, size in tensor_shapes(shape)
    }
    tensors["lm_head.weight"][: len(SPECIAL) + BYTES] = 0
    weights = out / "model.safetensors"
    save_file(tensors, weights, metadata={"format": "pt"})
    weights.chmod(0o644)  # safetensors writes 0600, and engines do not run as this user


def write_tokenizer(out: Path, shape: Shape) -> None:
    """Train a byte-level BPE: every text has tokens, plain English about four letters each."""
    from pydoc_data.topics import topics

    from tokenizers import (  # type: ignore[import-not-found, unused-ignore]
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        trainers,
    )

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=shape.vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((topics[name] for name in sorted(topics)), trainer)
    if tokenizer.get_vocab_size() != shape.vocabulary:
        raise RuntimeError(f"the corpus gave {tokenizer.get_vocab_size()} tokens, not {shape.vocabulary}")
    tokenizer.save(str(out / "tokenizer.json"))


def make(out: Path, shape: Shape, seed: int) -> None:
    """Write the whole model folder as an engine loads it from `file://`."""
    out.mkdir(parents=True, exist_ok=True)
    write_weights(out, shape, seed)
    write_tokenizer(out, shape)
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    generation = {"bos_token_id": 1, "eos_token_id": 2, "do_sample": False}
    for name, content in (
        ("config.json", config(shape)),
        ("tokenizer_config.json", tokenizer_config(shape)),
        ("special_tokens_map.json", special),
        ("generation_config.json", generation),
    ):
        (out / name).write_text(json.dumps(content, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--layers", type=int, default=Shape.layers)
    parser.add_argument("--width", type=int, default=Shape.width)
    arguments = parser.parse_args()
    make(arguments.out, Shape(layers=arguments.layers, width=arguments.width), arguments.seed)


if __name__ == "__main__":
    main()
