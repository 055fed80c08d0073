"""The environment that a measurement was made in, as far as the nodes tell (R-171)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_INFO: Mapping[str, str] = {
    "architecture": "architecture",
    "kernel": "kernelVersion",
    "osImage": "osImage",
    "containerRuntime": "containerRuntimeVersion",
    "kubelet": "kubeletVersion",
}
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_PRODUCT_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name")
_DRIVER_LABEL = "nvidia.com/cuda.driver-version.full"
_ACCELERATORS = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "google.com/tpu", "habana.ai/gaudi")


def fingerprint(nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What is known of `nodes` (Node objects), by fact; different values are joined by ", ".

    Facts that no node tells are left out, so that absent and empty can't be mixed up. The order of the nodes, and how
    many of a kind there are, change nothing.
    """
    facts = [_facts(node) for node in nodes]
    names = sorted({name for row in facts for name in row})
    return {name: _joined(row[name] for row in facts if name in row) for name in names}


def _joined(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))


def _facts(node: Mapping[str, Any]) -> dict[str, str]:
    info = node.get("status", {}).get("nodeInfo", {})
    labels = node.get("metadata", {}).get("labels") or {}
    capacity = node.get("status", {}).get("capacity") or {}
    accelerator = next((name for name in _ACCELERATORS if str(capacity.get(name, "0")) != "0"), None)
    found = {name: info.get(key) for name, key in _INFO.items()} | {
        "cpus": capacity.get("cpu"),
        "instanceType": labels.get(_INSTANCE_TYPE),
        "accelerator": next((labels[label] for label in _PRODUCT_LABELS if label in labels), accelerator),
        "acceleratorCount": capacity.get(accelerator) if accelerator else None,
        "acceleratorDriver": labels.get(_DRIVER_LABEL),
    }
    return {name: str(value) for name, value in found.items() if value}
