"""Helm values: nothing is mounted twice, engines and all else have different cores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from e2e.cluster.layout import Cores
from e2e.cluster.values import MODELS, HostFolders, Mount, engine_profile, outermost, runtime_overlays, same
from hypothesis import given
from hypothesis import strategies as st

PARTS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4)
PATHS = st.lists(PARTS.map(lambda parts: Path("/", *parts)), max_size=8)


@given(paths=PATHS)
def test_outermost_covers_every_path_exactly_once(paths: list[Path]) -> None:
    # Given any folders, When the ones below others are dropped
    kept = outermost(paths)
    # Then each one lies in exactly one that was kept
    for path in paths:
        assert sum(path == top or top in path.parents for top in kept) == 1
    assert set(kept) <= set(paths)


@pytest.mark.parametrize(
    ("usable", "engines", "others"),
    [({0, 1}, 1, 0), ({0}, 0, 0), ({2, 5, 7}, 5, 2)],
)
def test_engines_get_a_core_of_their_own_where_there_are_two(usable: set[int], engines: int, others: int) -> None:
    assert Cores.of(usable) == Cores(engines=engines, others=others)


def test_no_usable_core_is_an_error() -> None:
    with pytest.raises(ValueError, match="no usable core"):
        Cores.of(set())


def profile() -> dict[str, Any]:
    folders = HostFolders("engine", [same(Path("/usr")), Mount(Path("/cache/model"), MODELS / "tiny")])
    return engine_profile(Path("/cache/venv/bin/python"), folders, core=1)


def test_the_engine_is_pinned_and_has_no_cpu_limit() -> None:
    # Given the local profile, Then taskset pins it, and no quota throttles it
    assert profile()["command"][:3] == ["/usr/bin/taskset", "-c", "1"]
    assert "limits" not in profile()["resources"]


def test_every_mount_of_the_engine_is_read_only_and_has_its_volume() -> None:
    # Given the local profile's pod overlay
    spec = profile()["template"]["spec"]
    volumes = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"]}
    mounts = spec["containers"][0]["volumeMounts"]
    # Then mounts and volumes match one to one, nothing is writable, the model is where services expect it
    assert spec["containers"][0]["name"] == "engine"
    assert [mount["name"] for mount in mounts] == list(volumes)
    assert all(mount["readOnly"] for mount in mounts)
    assert {mount["mountPath"]: volumes[mount["name"]] for mount in mounts}["/models/tiny"] == "/cache/model"


def test_the_guards_volumes_and_the_engines_do_not_meet_in_one_pod() -> None:
    # Given an engine pod, which gets both overlays
    overlays = runtime_overlays(Path("/venv/bin/python"), HostFolders("tailguard", [same(Path("/usr"))]))
    guard = overlays["guardTemplate"]["spec"]["volumes"]
    # Then no volume of one has a name of the other, and the guard finds python3
    names = [volume["name"] for volume in [*guard, *profile()["template"]["spec"]["volumes"]]]
    assert len(names) == len(set(names))
    init = overlays["guardTemplate"]["spec"]["initContainers"][0]
    assert {"name": "PATH", "value": "/venv/bin:/usr/bin:/bin"} in init["env"]
