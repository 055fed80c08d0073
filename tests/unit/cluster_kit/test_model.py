"""The demo's model: its configuration fits its weights."""

from __future__ import annotations

import pytest
from e2e.cluster.model import HEAD_SIZE, Shape, config, tensor_shapes, tokenizer_config
from hypothesis import given
from hypothesis import strategies as st

SHAPES = st.builds(Shape, layers=st.integers(1, 12), width=st.integers(1, 16).map(lambda heads: heads * HEAD_SIZE))


@given(shape=SHAPES)
def test_weights_have_the_sizes_that_the_configuration_says(shape: Shape) -> None:
    # Given any shape, When its tensors and its configuration are written
    tensors = dict(tensor_shapes(shape))
    said = config(shape)
    # Then they agree, and heads fill the width
    assert said["num_attention_heads"] * said["head_dim"] == said["hidden_size"]
    assert tensors["lm_head.weight"] == (said["vocab_size"], said["hidden_size"])
    assert tensors["model.layers.0.mlp.gate_proj.weight"] == (said["intermediate_size"], said["hidden_size"])
    assert f"model.layers.{said['num_hidden_layers'] - 1}.input_layernorm.weight" in tensors
    assert f"model.layers.{said['num_hidden_layers']}.input_layernorm.weight" not in tensors


@pytest.mark.parametrize(("layers", "width"), [(0, 256), (6, 0), (6, 100)])
def test_an_impossible_shape_names_what_is_allowed(layers: int, width: int) -> None:
    with pytest.raises(ValueError, match="multiple of 64"):
        Shape(layers=layers, width=width)


def test_the_chat_template_ends_with_the_assistants_turn() -> None:
    assert "add_generation_prompt" in tokenizer_config(Shape())["chat_template"]
