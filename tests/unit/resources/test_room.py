"""The pre-flight: how many more pods have room, and what is missing for the next one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_operator.plan.world import Room
from tailguard_operator.resources.quantity import QuantityError
from tailguard_operator.resources.room import pod_requests, room


def node(name: str = "n1", **changes: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": changes.get("labels", {})},
        "spec": {"taints": changes.get("taints", []), "unschedulable": changes.get("cordoned", False)},
        "status": {
            "allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", **changes.get("allocatable", {})},
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": changes.get("ready", "True")},
            ],
        },
    }


def template(requests: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "engine", "resources": {"requests": requests or {"cpu": "3"}}}], **spec}}


def pod(node_name: str | None, requests: dict[str, Any], phase: str = "Running") -> dict[str, Any]:
    spec = template(requests)["spec"]
    return {"spec": {**spec, **({"nodeName": node_name} if node_name else {})}, "status": {"phase": phase}}


def test_an_empty_node_holds_what_its_scarcest_resource_allows() -> None:
    # Given
    nodes = [node()]
    # When
    found = room(nodes, [], template({"cpu": "3", "memory": "10Gi"}))
    # Then
    assert found == Room(2, "1 of 1 nodes lack cpu (needed 3, 2 free)")


def test_pods_that_run_take_room_and_those_that_are_done_or_elsewhere_do_not() -> None:
    # Given
    pods = [
        pod("n1", {"cpu": "3"}),
        pod("n1", {"cpu": "8"}, "Succeeded"),
        pod("n1", {"cpu": "8"}, "Failed"),
        pod(None, {"cpu": "8"}, "Pending"),
        pod("n2", {"cpu": "8"}),
    ]
    # When
    found = room([node("n1"), node("n2")], pods, template())
    # Then
    assert found == Room(1, "1 of 2 nodes lack cpu (needed 3, 2 free); 1 of 2 nodes lack cpu (needed 3, 0 free)")


def test_a_pending_pod_on_a_node_counts() -> None:
    assert room([node()], [pod("n1", {"cpu": "6"}, "Pending")], template()).pods == 0


@pytest.mark.parametrize(
    ("resource", "has", "wanted", "fits"),
    [
        ("nvidia.com/gpu", "8", "2", 4),
        ("ephemeral-storage", "100Gi", "40Gi", 2),
        ("memory", "64Gi", "64Gi", 1),
        ("cpu", "8", "0", 110),
    ],
)
def test_every_kind_of_resource(resource: str, has: str, wanted: str, fits: int) -> None:
    assert room([node(allocatable={resource: has})], [], template({resource: wanted})).pods == fits


def test_a_resource_that_no_node_has() -> None:
    found = room([node(), node("n2")], [], template({"nvidia.com/gpu": 1}))
    assert found == Room(0, "2 of 2 nodes lack nvidia.com/gpu (needed 1, 0 free)")


def test_the_largest_number_of_pods_of_a_node() -> None:
    found = room([node(allocatable={"pods": "1"})], [pod("n1", {"cpu": "1m"})], template({"cpu": "1m"}))
    assert found == Room(0, "1 of 1 nodes have reached their largest number of pods")


def test_an_overcommitted_node_has_no_room_rather_than_less_than_none() -> None:
    nodes = [node("n1"), node("n2")]
    assert room(nodes, [pod("n1", {"cpu": "80"})], template()).pods == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ready": "False"}, "not Ready"),
        ({"ready": "Unknown"}, "not Ready"),
        ({"cordoned": True}, "cordoned"),
        ({"labels": {"gpu": "a10"}}, "without label gpu=h100"),
        ({"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]}, "tainted dedicated"),
        ({"taints": [{"key": "down", "effect": "NoExecute"}]}, "tainted down"),
    ],
)
def test_nodes_that_take_no_such_pod(changes: dict[str, Any], reason: str) -> None:
    # Given
    refusing = node(**{"labels": {"gpu": "h100"}, **changes})
    # When
    found = room([refusing], [], template(nodeSelector={"gpu": "h100"}))
    # Then
    assert found == Room(0, f"1 of 1 nodes {reason}")


def test_a_taint_that_only_prefers_repels_nothing() -> None:
    assert room([node(taints=[{"key": "x", "effect": "PreferNoSchedule"}])], [], template()).pods == 2


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"value": "yes"}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], tolerated: bool) -> None:
    # Given
    tainted = node(taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    # Then
    assert (room([tainted], [], template(tolerations=[toleration])).pods > 0) is tolerated


def test_every_taint_has_to_be_tolerated() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]
    found = room([node(taints=taints)], [], template(tolerations=[{"key": "a", "operator": "Exists"}]))
    assert found == Room(0, "1 of 1 nodes tainted b")


def test_no_node_at_all() -> None:
    assert room([], [], template()) == Room(0, "there is no node")


def test_init_containers_count_by_their_largest_and_sidecars_beside_the_others() -> None:
    # Given
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [
            {"resources": {"requests": {"cpu": "5", "memory": "1Gi"}}},
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        ],
        "overhead": {"cpu": "250m"},
    }
    # When
    amounts = pod_requests(spec)
    # Then
    assert (float(amounts["cpu"]), float(amounts["memory"])) == (6.25, 1024**3)


def test_a_limit_without_a_request_is_a_request() -> None:
    spec = {"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}, {}]}
    assert pod_requests(spec) == {"cpu": 1, "memory": 1024**3}


def test_a_request_that_is_no_quantity() -> None:
    with pytest.raises(QuantityError, match="'lots'"):
        room([node()], [], template({"cpu": "lots"}))


def test_room_beyond_a_thousand_is_not_told_apart() -> None:
    assert room([node(str(i)) for i in range(20)], [], template({"cpu": "1m"})).pods == 1000


@given(st.integers(1, 4), st.integers(100, 4000), st.integers(0, 8000))
def test_as_many_as_it_says_fit_and_not_one_more(nodes: int, wanted: int, used: int) -> None:
    # Given
    names = [f"n{i}" for i in range(nodes)]
    running = [pod("n0", {"cpu": f"{used}m"})]
    ours = template({"cpu": f"{wanted}m"})
    # When
    found = room([node(n) for n in names], running, ours).pods
    filled = [
        pod(n, {"cpu": f"{wanted}m"}) for n in names for _ in range(min(110, (8000 - used * (n == "n0")) // wanted))
    ]
    # Then
    assert room([node(n) for n in names], running + filled[:found], ours).pods == 0
    assert found == 0 or room([node(n) for n in names], running + filled[: found - 1], ours).pods > 0
