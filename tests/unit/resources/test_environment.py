"""The environment as far as nodes tell (R-171)."""

from typing import Any

from tailguard_operator.resources.environment import fingerprint


def node(**changes: Any) -> dict[str, Any]:
    info = {
        "architecture": "amd64",
        "kernelVersion": "6.1.0",
        "osImage": "Debian 12",
        "containerRuntimeVersion": "containerd://1.6.20",
        "kubeletVersion": "v1.34.4",
        "bootID": "differs-at-each-boot",
    }
    return {
        "metadata": {"name": "n", "labels": changes.get("labels", {})},
        "status": {"nodeInfo": {**info, **changes.get("info", {})}, "capacity": changes.get("capacity", {"cpu": "2"})},
    }


def test_a_plain_node_tells_its_software_and_size() -> None:
    assert fingerprint([node()]) == {
        "architecture": "amd64",
        "kernel": "6.1.0",
        "osImage": "Debian 12",
        "containerRuntime": "containerd://1.6.20",
        "kubelet": "v1.34.4",
        "cpus": "2",
    }


def test_an_accelerator_tells_product_number_and_driver() -> None:
    # Given
    labels = {
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/cuda.driver-version.full": "560.35.03",
    }
    # When
    found = fingerprint([node(labels=labels, capacity={"cpu": "192", "nvidia.com/gpu": "8"})])
    # Then
    assert found["instanceType"] == "p5.48xlarge"
    assert found["accelerator"] == "NVIDIA-H100-80GB-HBM3"
    assert found["acceleratorCount"] == "8"
    assert found["acceleratorDriver"] == "560.35.03"


def test_an_accelerator_without_a_product_label_is_named_by_its_resource() -> None:
    found = fingerprint([node(capacity={"cpu": "8", "amd.com/gpu": "4", "nvidia.com/gpu": "0"})])
    assert (found["accelerator"], found["acceleratorCount"]) == ("amd.com/gpu", "4")


def test_order_and_number_of_equal_nodes_change_nothing() -> None:
    old, new = node(), node(info={"kernelVersion": "6.8.0"})
    assert fingerprint([old, new]) == fingerprint([new, old, new])
    assert fingerprint([old, new])["kernel"] == "6.1.0, 6.8.0"


def test_a_boot_changes_nothing_and_another_kernel_does() -> None:
    assert fingerprint([node(info={"bootID": "other"})]) == fingerprint([node()])
    assert fingerprint([node(info={"kernelVersion": "6.1.1"})]) != fingerprint([node()])


def test_no_node_and_a_node_that_tells_nothing_have_no_facts() -> None:
    assert fingerprint([]) == {}
    assert fingerprint([{"metadata": {}, "status": {}}]) == {}
