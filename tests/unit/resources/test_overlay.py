"""Strategic merge by our own table of list keys."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_operator.resources.overlay import OverlayError, merge

_names = st.sampled_from(["a", "b", "containers", "env", "args", "tolerations"])
_scalars = st.one_of(st.integers(0, 3), st.text("xy", max_size=2), st.booleans())


def _objects() -> st.SearchStrategy[dict[str, Any]]:
    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        item = st.builds(lambda name, rest: {**rest, "name": name}, st.sampled_from("pqr"), inner)
        keyed = st.lists(item, max_size=3, unique_by=lambda i: i["name"])
        return st.fixed_dictionaries(
            {},
            optional={
                "a": _scalars,
                "b": inner,
                "containers": keyed,
                "env": keyed,
                "args": st.lists(st.text("xy", min_size=1, max_size=2), max_size=3),
                "tolerations": st.lists(
                    st.fixed_dictionaries({"key": st.text("xy", max_size=2)}), max_size=2, unique_by=str
                ),
            },
        )

    return st.recursive(st.just({}), grow, max_leaves=4)


@given(_objects(), _objects())
def test_an_overlay_merged_twice_is_as_merged_once(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    once = merge(base, overlay)
    assert merge(once, overlay) == once


@given(_objects())
def test_an_empty_overlay_changes_nothing_and_an_empty_base_gives_the_overlay(tree: dict[str, Any]) -> None:
    assert merge(tree, {}) == tree
    assert merge({}, tree) == tree


@given(_objects(), _objects())
def test_what_goes_in_is_left_alone_and_shared_with_nobody(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    # Given
    before = copy.deepcopy((base, overlay))
    # When
    merged = merge(base, overlay)
    _spoil(merged)
    # Then
    assert (base, overlay) == before


def _spoil(tree: Any) -> None:
    if isinstance(tree, dict):
        for value in tree.values():
            _spoil(value)
        tree["spoiled"] = True
    elif isinstance(tree, list):
        for value in tree:
            _spoil(value)
        tree.append("spoiled")


def test_a_container_is_found_by_its_name_and_merged() -> None:
    # Given
    base = {"spec": {"containers": [{"name": "engine", "image": "a", "args": ["x"]}, {"name": "side", "image": "b"}]}}
    # When
    merged = merge(base, {"spec": {"containers": [{"name": "engine", "image": "c"}, {"name": "new", "image": "d"}]}})
    # Then
    assert merged["spec"]["containers"] == [
        {"name": "engine", "image": "c", "args": ["x"]},
        {"name": "side", "image": "b"},
        {"name": "new", "image": "d"},
    ]


@pytest.mark.parametrize(
    ("field", "base", "overlay", "merged"),
    [
        ("args", ["a", "b"], ["c"], ["c"]),
        (
            "volumeMounts",
            [{"mountPath": "/m", "name": "x"}],
            [{"mountPath": "/m", "name": "y"}],
            [{"mountPath": "/m", "name": "y"}],
        ),
        (
            "ports",
            [{"containerPort": 80}],
            [{"containerPort": 80, "protocol": "TCP", "name": "n"}],
            [{"containerPort": 80, "protocol": "TCP", "name": "n"}],
        ),
        (
            "ports",
            [{"containerPort": 80}],
            [{"containerPort": 80, "protocol": "UDP"}],
            [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
        ),
        ("tolerations", [{"key": "gpu"}], [{"key": "gpu"}, {"key": "spot"}], [{"key": "gpu"}, {"key": "spot"}]),
        (
            "env",
            [{"name": "A", "value": "1"}],
            [{"name": "A", "valueFrom": {"x": 1}}],
            [{"name": "A", "valueFrom": {"x": 1}}],
        ),
        (
            "volumes",
            [{"name": "v", "emptyDir": {}}],
            [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        ),
        (
            "volumes",
            [{"name": "v", "emptyDir": {"medium": "Memory"}}],
            [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
            [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
        ),
        ("imagePullSecrets", [{"name": "a"}], [{"name": "a"}, {"name": "b"}], [{"name": "a"}, {"name": "b"}]),
        (
            "topologySpreadConstraints",
            [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}],
            [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 2}],
            [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 2}],
        ),
    ],
)
def test_each_list_by_its_own_key(field: str, base: list[Any], overlay: list[Any], merged: list[Any]) -> None:
    assert merge({field: base}, {field: overlay}) == {field: merged}


def test_a_null_removes_a_field_and_a_directive_removes_an_item() -> None:
    # Given
    base = {"nodeSelector": {"gpu": "yes"}, "volumes": [{"name": "a"}, {"name": "b"}]}
    # When
    overlay = {
        "nodeSelector": None,
        "volumes": [{"name": "a", "$patch": "delete"}, {"name": "gone", "$patch": "delete"}],
    }
    # Then
    assert merge(base, overlay) == {"volumes": [{"name": "b"}]}


def test_a_null_inside_something_new_is_nothing() -> None:
    assert merge({}, {"a": {"b": None, "c": 1}, "args": [{"x": None}]}) == {"a": {"c": 1}, "args": [{}]}


@pytest.mark.parametrize(
    ("overlay", "named"),
    [
        ({"containers": [{"image": "x"}]}, r"spec\.containers\[0\]: .* says its name"),
        ({"containers": ["x"]}, r"spec\.containers\[0\]: 'x' .* says its name"),
        ({"containers": {"engine": {}}}, r"spec\.containers: .* has to be a list"),
        ({"containers": "engine"}, r"spec\.containers: 'engine' .* has to be a list"),
        (
            {"containers": [{"name": "e", "ports": [{"name": "x"}]}]},
            r"containers\[0\]\.ports\[0\]: .* says its port and protocol",
        ),
        ({"nodeSelector": "gpu"}, r"spec\.nodeSelector: 'gpu' .* has to be an object"),
        ({"hostname": ["a"]}, r"spec\.hostname: .* has to be a single value"),
        ({"$patch": "replace"}, r"spec\.\$patch: 'replace' .* a null removes a field"),
        ({"$retainKeys": ["a"]}, r"spec\.\$retainKeys"),
        ({"containers": [{"name": "e", "$patch": "replace"}]}, r"containers\[0\]\.\$patch: 'replace' .* only `delete`"),
    ],
)
def test_what_cannot_be_merged_is_named(overlay: dict[str, Any], named: str) -> None:
    # Given
    base = {"containers": [{"name": "e"}], "nodeSelector": {"a": "b"}, "hostname": "h"}
    # Then
    with pytest.raises(OverlayError, match=named):
        merge(base, overlay, "spec")
