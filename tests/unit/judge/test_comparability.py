"""Which results may be compared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_runtime.judge.comparability import compare_environments

MANIFEST: dict[str, Any] = {
    "gpu": {"name": "A100 80GB PCIe", "count": 1, "cuda": "12.4"},
    "engine": {"image": "vllm@sha256:1", "args": ["--max-num-seqs=8"]},
    "compile": {"mode": "eager"},
    "sampling": {"temperature": "0.7", "topP": "0.95"},
    "lengths": {"maxModelLen": 4096},
}


def changed(**sections: dict[str, Any]) -> dict[str, Any]:
    return {key: {**value, **sections.get(key, {})} for key, value in MANIFEST.items()}


def test_equal_environments_are_comparable() -> None:
    result = compare_environments(MANIFEST, MANIFEST, declared=())
    assert (result.refused, result.message) == (False, "Comparable, nothing differs")


def test_the_declared_change_is_listed_and_allowed() -> None:
    """R-171: what the revision itself declares is the thing tested."""
    canary = changed(engine={"args": ["--max-num-seqs=64"]})
    result = compare_environments(canary, MANIFEST, declared=["engine"])
    assert not result.refused
    assert [str(d) for d in result.declared] == ["engine.args: ['--max-num-seqs=64'] against ['--max-num-seqs=8']"]
    assert "only as declared: engine.args" in result.message


def test_an_undeclared_difference_refuses_and_is_listed() -> None:
    """R-171: environments that differ otherwise are never compared."""
    canary = changed(engine={"image": "vllm@sha256:2"}, gpu={"cuda": "12.1"})
    result = compare_environments(canary, MANIFEST, declared=["engine.image"])
    assert result.refused
    assert [d.field for d in result.declared] == ["engine.image"]
    assert result.message == "Not comparable: gpu.cuda: 12.1 against 12.4"


def test_something_recorded_on_one_side_only_is_a_difference() -> None:
    canary = changed(gpu={"driver": "550"})
    assert compare_environments(canary, MANIFEST, declared=()).message == (
        "Not comparable: gpu.driver: 550 against (not recorded)"
    )


@pytest.mark.parametrize(("declared", "refused"), [((), True), (("compile",), False)])
def test_compile_states_are_never_mixed_unless_declared(declared: tuple[str, ...], refused: bool) -> None:
    """R-175: eager against compiled is refused when it isn't the change under test."""
    result = compare_environments(changed(compile={"mode": "torch.compile"}), MANIFEST, declared=declared)
    assert result.refused is refused


@pytest.mark.parametrize("section", ["compile", "sampling", "lengths"])
def test_what_must_be_declared_must_be_recorded(section: str) -> None:
    """R-175: a result that doesn't say its compile state can't be compared, nor one without sampling (R-178)."""
    silent = {key: value for key, value in MANIFEST.items() if key != section}
    result = compare_environments(silent, silent, declared=())
    assert result.unrecorded == (section,)
    assert result.message == f"Not comparable: {section} not recorded on either side"


@pytest.mark.parametrize("path", ["sampling", "sampling.temperature", "lengths", "lengths.maxModelLen"])
def test_sampling_and_lengths_are_equal_whatever_is_declared(path: str) -> None:
    """R-178: fixed and equal on both sides."""
    section, _, key = path.partition(".")
    canary = changed(**{section: {key or "maxTokens": "1"}})
    result = compare_environments(canary, MANIFEST, declared=[path])
    assert result.refused
    assert result.declared == ()


def test_a_path_covers_what_is_below_it_and_nothing_that_only_begins_alike() -> None:
    canary = {**MANIFEST, "engineer": "b"}
    twin = {**MANIFEST, "engineer": "a"}
    assert compare_environments(canary, twin, declared=["engine"]).refused


manifests = st.dictionaries(st.sampled_from("abc"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2)))


@given(manifests, manifests, st.lists(st.sampled_from(["a", "b.x", "c"])))
def test_sides_are_treated_alike(one: dict[str, Any], other: dict[str, Any], declared: list[str]) -> None:
    there = compare_environments(one, other, declared=declared, required=())
    back = compare_environments(other, one, declared=declared, required=())
    assert there.refused == back.refused
    assert [(d.field, d.canary, d.twin) for d in there.undeclared] == [
        (d.field, d.twin, d.canary) for d in back.undeclared
    ]
    assert compare_environments(one, other, declared=["a", "b", "c"], required=()).refused is False
