"""Engines so large that a node holds only some of them."""

from __future__ import annotations

import json
from fractions import Fraction

from e2e.demo.kube import Kube
from e2e.tests.scenario import Object

from tailguard_operator.resources.quantity import parse
from tailguard_operator.resources.room import pod_requests


def sized(kube: Kube, pods: int) -> Object:
    """`spec.engine` of a service of which one node has room for so many pods, and half of another."""
    free = {node["metadata"]["name"]: _free_memory(kube, node) for node in kube.list("nodes")}
    roomiest = max(free, key=lambda name: free[name])
    request = int(free[roomiest] / (pods + Fraction(1, 2)))
    labels = (kube.get("node", roomiest) or {})["metadata"]["labels"]
    selector = {"kubernetes.io/hostname": labels["kubernetes.io/hostname"]}
    return {
        "resources": {"requests": {"memory": str(request)}},
        "template": {"spec": {"nodeSelector": selector}},
    }


def _free_memory(kube: Kube, node: Object) -> Fraction:
    """Bytes that no pod on the node has asked for."""
    name = node["metadata"]["name"]
    fields = f"--field-selector=spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed"
    found: list[Object] = json.loads(kube.kubectl("get", "pods", "--all-namespaces", fields, "-o", "json"))["items"]
    used = sum((pod_requests(pod["spec"]).get("memory", Fraction(0)) for pod in found), Fraction(0))
    return parse(node["status"]["allocatable"]["memory"]) - used
