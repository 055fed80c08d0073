"""The node that FakeKubelet plays, and whether a pod has room on it."""

from collections.abc import Iterable

from harness.api import Api, Object
from harness.behaviour import Pod

NODE_LABEL = "tailguard.test/namespace"
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "": 1}


def memory(quantity: str) -> int:
    """Bytes of a quantity with a binary suffix.

    Raises:
        KeyError: another suffix than Ki, Mi, Gi or none.
    """
    digits = quantity.rstrip("KMGi")
    return int(float(digits) * _UNITS[quantity[len(digits) :]])


def requested(pod: Pod) -> int:
    """Bytes of memory that the pod's containers ask for."""
    rows = (each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"])
    return sum(memory(row.get("memory", "0")) for row in rows)


def shortage(pod: Pod, placed: Iterable[Pod], capacity: str) -> str:
    """The scheduler's words when the node has no room for `pod`; empty when it has."""
    used = sum(requested(each) for each in placed)
    if used + requested(pod) <= memory(capacity):
        return ""
    return "0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes are available."


def create_node(api: Api, name: str, namespace: str, capacity: str) -> None:
    """A Ready node for the pods of one namespace."""
    api.create("Node", "", {"metadata": {"name": name, "labels": {NODE_LABEL: namespace}}})
    info = dict.fromkeys(("bootID", "machineID", "systemUUID", "operatingSystem", "kubeProxyVersion"), "")
    info |= {"architecture": "amd64", "kernelVersion": "6.1.0", "osImage": "Debian 12", "kubeletVersion": "v1.34.4"}
    info |= {"containerRuntimeVersion": "containerd://1.6.20"}
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status: Object = {"conditions": [condition], "nodeInfo": info} | _amounts(capacity)
    api.patch("Node", "", name, {"status": status}, "status")
    # Admission taints every new node as not ready; nobody here would take the taint off.
    api.patch("Node", "", name, {"spec": {"taints": None}})


def resize_node(api: Api, name: str, capacity: str) -> None:
    """Give the node another amount of memory."""
    api.patch("Node", "", name, {"status": _amounts(capacity)}, "status")


def _amounts(capacity: str) -> Object:
    amounts = {"cpu": "64", "memory": capacity, "pods": "110"}
    return {"capacity": amounts, "allocatable": amounts}
