"""How many more pods the nodes have room for: the pre-flight before a canary and its twin are started.

It says what requests, pod counts, node selectors and taints decide, which is what the scheduler filters by first.
Affinities and volumes are left to the scheduler, whose own message is shown when a pod waits.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tailguard_operator.plan.world import Room
from tailguard_operator.resources import quantity

Amounts = dict[str, Fraction]

_MOST = 1000
"""Room beyond this is not told apart: no service has more replicas."""
_REPELLING = frozenset({"NoSchedule", "NoExecute"})
_PODS = "pods"


@dataclass(frozen=True, slots=True)
class _Free:
    """One node: why no pod may go there (empty: it may), and what is free on it."""

    refusal: str
    free: Amounts

    def fits(self, wanted: Amounts) -> int:
        """Number of pods that still fit."""
        counts = [int(self.free.get(name, Fraction(0)) // amount) for name, amount in wanted.items() if amount > 0]
        return max(0, min(counts)) if not self.refusal else 0

    def without(self, wanted: Amounts, pods: int) -> "_Free":
        """The node after `pods` more pods."""
        return _Free(self.refusal, {name: left - pods * wanted.get(name, 0) for name, left in self.free.items()})

    def shortage(self, wanted: Amounts) -> str:
        """Why the next pod doesn't fit."""
        if self.refusal:
            return self.refusal
        lacking = [n for n, amount in wanted.items() if amount > 0 and self.free.get(n, Fraction(0)) < amount]
        return ", ".join(_lack(name, self.free.get(name, Fraction(0)), wanted[name]) for name in lacking)


def room(nodes: Sequence[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]], template: Mapping[str, Any]) -> Room:
    """How many more pods of `template` fit, and what is missing for the one after them.

    Args:
        nodes: Node objects.
        pods: Pod objects of all namespaces; finished ones and those without a node take no room.
        template: the pod template.

    Raises:
        QuantityError: a request that is no quantity.
    """
    spec = template["spec"]
    wanted = pod_requests(spec) | {_PODS: Fraction(1)}
    used = _used(pods)
    views = [_Free(_refusal(node, spec), _free(node, used.get(node["metadata"]["name"], {}))) for node in nodes]
    fitting = [view.fits(wanted) for view in views]
    left = [view.without(wanted, count) for view, count in zip(views, fitting, strict=True)]
    return Room(min(sum(fitting), _MOST), _shortage(left, wanted))


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """What a pod of `spec` asks of its node: as the scheduler counts, init containers run before the others.

    Raises:
        QuantityError: a request that is no quantity.
    """
    running = _sum(_container_requests(c) for c in spec.get("containers") or ())
    for container in spec.get("initContainers") or ():
        own = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            running = _sum([running, own])
        else:
            running = {name: max(running.get(name, Fraction(0)), own.get(name, Fraction(0))) for name in running | own}
    return _sum([running, _amounts(spec.get("overhead") or {})])


def _container_requests(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return _amounts((resources.get("limits") or {}) | (resources.get("requests") or {}))


def _amounts(quantities: Mapping[str, str | int]) -> Amounts:
    return {name: quantity.parse(text) for name, text in quantities.items()}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total


def _used(pods: Iterable[Mapping[str, Any]]) -> dict[str, Amounts]:
    used: dict[str, Amounts] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            used[node] = _sum([used.get(node, {}), pod_requests(pod["spec"]), {_PODS: Fraction(1)}])
    return used


def _free(node: Mapping[str, Any], used: Amounts) -> Amounts:
    allocatable = _amounts(node.get("status", {}).get("allocatable") or {})
    return {name: amount - used.get(name, Fraction(0)) for name, amount in allocatable.items()}


def _refusal(node: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions") or ()}
    if conditions.get("Ready") != "True":
        return "not Ready"
    if node["spec"].get("unschedulable"):
        return "cordoned"
    labels = node["metadata"].get("labels") or {}
    missing = [f"{k}={v}" for k, v in (spec.get("nodeSelector") or {}).items() if labels.get(k) != v]
    if missing:
        return f"without label {', '.join(missing)}"
    repelling = [taint for taint in node["spec"].get("taints") or () if _repels(taint, spec.get("tolerations") or ())]
    return f"tainted {repelling[0]['key']}" if repelling else ""


def _repels(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    return taint.get("effect") in _REPELLING and not any(_tolerates(t, taint) for t in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    same_value = exists or (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(toleration["key"] == taint["key"]) and same_value


def _shortage(nodes: Sequence[_Free], wanted: Amounts) -> str:
    if not nodes:
        return "there is no node"
    reasons = Counter(node.shortage(wanted) for node in nodes)
    return "; ".join(f"{count} of {len(nodes)} nodes {reason}" for reason, count in reasons.most_common())


def _lack(name: str, free: Fraction, wanted: Fraction) -> str:
    if name == _PODS:
        return "have reached their largest number of pods"
    return f"lack {name} (needed {quantity.show(wanted)}, {quantity.show(free)} free)"
