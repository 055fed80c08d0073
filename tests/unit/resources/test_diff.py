"""Whether a live object still is what was asked for."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_operator.resources.diff import differs

_text = st.text("abc", min_size=1, max_size=3)
_leaf = st.one_of(st.integers(1, 5), _text, st.just(True))


def _keyed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    item = st.builds(lambda name, rest: {**rest, "name": name}, _text, st.dictionaries(st.sampled_from("xyz"), inner))
    return st.lists(item, min_size=1, max_size=3, unique_by=lambda i: i["name"])


def _grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.dictionaries(st.sampled_from(["f", "g", "h"]), inner, min_size=1, max_size=3),
        st.fixed_dictionaries({"containers": _keyed(inner)}),
        st.fixed_dictionaries({"args": st.lists(_leaf, min_size=1, max_size=3)}),
    )


_trees = st.dictionaries(st.sampled_from(["p", "q"]), st.recursive(_leaf, _grow, max_leaves=8), min_size=1)
Path = tuple[str | int, ...]


def _leaves(tree: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield from _leaves(value, (*path, name))
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from _leaves(value, (*path, number))
    else:
        yield path


def _changed(tree: Any, path: Path) -> Any:
    tree = copy.deepcopy(tree)
    parent: Any = tree
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = "changed!"
    return tree


def _with_extras(tree: Any) -> Any:
    """`tree` as a server gives it back: defaults added to every object, items of others in keyed lists, reordered."""
    if isinstance(tree, dict):
        return {"default": "added", **{name: _with_extras(value) for name, value in tree.items()}}
    if isinstance(tree, list) and tree and isinstance(tree[0], dict):
        return [{"name": "injected"}, *(_with_extras(item) for item in reversed(tree))]
    return tree


@given(_trees)
def test_nothing_differs_from_itself(tree: dict[str, Any]) -> None:
    assert not differs(tree, copy.deepcopy(tree))


@given(_trees)
def test_what_the_server_adds_is_no_difference(tree: dict[str, Any]) -> None:
    assert not differs(tree, _with_extras(tree))


@given(_trees, st.data())
def test_any_changed_leaf_is_a_difference(tree: dict[str, Any], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(_leaves(tree), key=str)))
    assert differs(tree, _with_extras(_changed(tree, path)))


@given(_trees, st.data())
def test_any_missing_field_is_a_difference(tree: dict[str, Any], data: st.DataObject) -> None:
    # Given
    path = data.draw(st.sampled_from(sorted(_leaves(tree), key=str)))
    live = copy.deepcopy(tree)
    parent: Any = live
    for step in path[:-1]:
        parent = parent[step]
    # When
    del parent[path[-1]]
    # Then
    assert differs(tree, live)


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"requests": {"cpu": "1000m"}}, {"requests": {"cpu": "1"}}),
        ({"limits": {"memory": "1024Mi"}}, {"limits": {"memory": "1Gi"}}),
        ({"requests": {"nvidia.com/gpu": 1}}, {"requests": {"nvidia.com/gpu": "1"}}),
        ({"emptyDir": {"sizeLimit": "2048Mi"}}, {"emptyDir": {"sizeLimit": "2Gi"}}),
    ],
)
def test_quantities_are_compared_by_amount(desired: Any, live: Any) -> None:
    assert not differs(desired, live)


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1m"}}),
        ({"requests": {"cpu": "1"}}, {"requests": {}}),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": []}}),
        ({"annotations": {"cpu": "1000m"}}, {"annotations": {"cpu": "1"}}),
        ({"args": ["1000m"]}, {"args": ["1"]}),
    ],
)
def test_other_amounts_and_texts_that_only_look_like_amounts_differ(desired: Any, live: Any) -> None:
    assert differs(desired, live)


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"env": [{"name": "A", "value": ""}]}, {"env": [{"name": "A"}]}),
        ({"readOnly": False, "initialDelaySeconds": 0, "tolerations": []}, {}),
        ({"annotations": {}, "labels": {}, "nodeSelector": {}}, {}),
        ({"nodeSelector": None}, {}),
    ],
)
def test_what_the_server_leaves_out_is_no_difference(desired: Any, live: Any) -> None:
    assert not differs(desired, live)


def test_an_empty_object_with_a_meaning_has_to_be_there() -> None:
    assert differs(
        {"volumes": [{"name": "v", "emptyDir": {}}]}, {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}
    )


def test_an_emptied_mapping_of_ours_is_seen() -> None:
    assert differs({"labels": {"a": "b"}}, {"labels": None})


@pytest.mark.parametrize(
    ("desired", "live", "different"),
    [
        (
            {"ports": [{"port": 80, "targetPort": "http"}]},
            {"ports": [{"port": 80, "targetPort": "http", "protocol": "TCP", "nodePort": 3}]},
            False,
        ),
        ({"ports": [{"port": 80, "protocol": "TCP"}]}, {"ports": [{"port": 80, "protocol": "UDP"}]}, True),
        ({"args": ["a", "b"]}, {"args": ["b", "a"]}, True),
        ({"args": ["a"]}, {"args": ["a", "b"]}, True),
        ({"args": ["a"]}, {"args": "a"}, True),
        ({"spec": {"a": 1}}, {"spec": "a"}, True),
        ({"replicas": 1}, {"replicas": True}, True),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}, {"key": "a", "effect": "NoSchedule"}]}, False),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, True),
        (
            {"ownerReferences": [{"uid": "1", "controller": True}]},
            {"ownerReferences": [{"uid": "2", "controller": True}]},
            True,
        ),
    ],
)
def test_lists(desired: Any, live: Any, different: bool) -> None:
    assert differs(desired, live) is different


@pytest.mark.parametrize("field", ["selector", "nodeSelector"])
def test_a_name_added_to_a_selector_by_hand_is_seen(field: str) -> None:
    """A Service with one label too many selects nothing, and applying again replaces the whole map."""
    assert differs({field: {"a": "1"}}, {field: {"a": "1", "extra": "2"}})
    assert not differs({field: {"a": "1"}}, {field: {"a": "1"}})


def test_an_object_that_is_not_there_differs() -> None:
    assert differs({"metadata": {"name": "x"}}, None)
