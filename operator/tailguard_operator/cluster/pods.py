"""Pods as decisions see them: ready or not, and in the kubelet's own words why not."""

from collections.abc import Iterator, Mapping
from typing import Any

from tailguard_operator.api.base import moment
from tailguard_operator.cluster.kinds import Object
from tailguard_operator.plan.world import Failure, PodView, PoolKey, Role
from tailguard_operator.resources.owner import REVISION_LABEL, ROLE_LABEL, SLOT_LABEL
from tailguard_runtime.engines import CONTAINER_NAME

_LAST_LINES = 5
_LONGEST = 1024

_HOPELESS = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
"""Waiting reasons that waiting does not mend. `ErrImagePull` is not among them: the kubelet tries once more first."""
_HARMLESS = frozenset({"ContainerCreating", "PodInitializing"})


def pool_key(labels: Mapping[str, str]) -> PoolKey | None:
    """The pool that `labels` name; None when they name none."""
    try:
        return PoolKey(labels[REVISION_LABEL], Role(labels[ROLE_LABEL]), int(labels[SLOT_LABEL]))
    except (KeyError, ValueError):
        return None


def pod_view(pod: Object, nodes: Mapping[str, Object] | None) -> PodView | None:
    """The engine pod `pod`; None when its labels name no pool.

    Args:
        pod: the Pod.
        nodes: all Nodes by name; None when they may not be read.
    """
    meta, status = pod["metadata"], pod.get("status") or {}
    key = pool_key(meta.get("labels") or {})
    if key is None:
        return None
    disrupted = disruption(pod, nodes)
    deleting = "deletionTimestamp" in meta
    return PodView(
        name=meta["name"],
        pool=key,
        ip=status.get("podIP", ""),
        node=pod["spec"].get("nodeName", ""),
        created=moment(meta["creationTimestamp"]),
        ready=_condition(pod, "Ready").get("status") == "True" and not deleting,
        image_id=next((c.get("imageID", "") for c in _statuses(status) if c["name"] == CONTAINER_NAME), ""),
        failure=None if disrupted or deleting else failure(pod),
        disrupted=disrupted,
        unschedulable=_unschedulable(pod),
        deleting=deleting,
    )


def disruption(pod: Object, nodes: Mapping[str, Object] | None) -> str:
    """Why the pod goes without its own fault (eviction, preemption, lost node, deleted by hand); "" when it does not.

    A deletion of the pod alone counts too: an arm that Tailguard ends is deleted with its whole Deployment.
    """
    status = pod.get("status") or {}
    target = _condition(pod, "DisruptionTarget")
    if target.get("status") == "True":
        return _sentence(target.get("reason") or "DisruptionTarget", target.get("message"))
    if status.get("reason") in ("Evicted", "NodeLost", "Preempting", "Shutdown", "Terminated", "NodeShutdown"):
        return _sentence(status["reason"], status.get("message"))
    node = pod["spec"].get("nodeName")
    if node and nodes is not None:
        if node not in nodes:
            return f"NodeGone: node {node} no longer exists"
        if _condition(nodes[node], "Ready").get("status") != "True":
            return f"NodeNotReady: node {node} is not Ready"
    return "Deleted: the pod was deleted" if "deletionTimestamp" in pod["metadata"] else ""


def failure(pod: Object) -> Failure | None:
    """The first thing that keeps the pod from working, or the way its engine last ended; None when all is well."""
    status = pod.get("status") or {}
    return next(_init_failures(status), None) or next(_failures(status), None) or _failed_pod(status)


def _init_failures(status: Mapping[str, Any]) -> Iterator[Failure]:
    for container in status.get("initContainerStatuses") or ():
        found = _container_failure(container, f"init container {container['name']}")
        if found:
            yield Failure(found.reason, found.message, exited=False, fatal=found.fatal)


def _failures(status: Mapping[str, Any]) -> Iterator[Failure]:
    for container in sorted(_statuses(status), key=lambda c: bool(c["name"] != CONTAINER_NAME)):
        engine = container["name"] == CONTAINER_NAME
        found = _container_failure(container, "the engine" if engine else f"container {container['name']}")
        if found:
            yield Failure(found.reason, found.message, exited=found.exited and engine, fatal=found.fatal)


def _container_failure(container: Mapping[str, Any], who: str) -> Failure | None:
    state, last = container.get("state") or {}, container.get("lastState") or {}
    ended = state.get("terminated") or last.get("terminated")
    waiting = state.get("waiting") or {}
    reason = waiting.get("reason", "")
    if ended and (ended.get("exitCode") or who == "the engine"):
        why = reason if reason == "CrashLoopBackOff" and ended.get("reason") != "OOMKilled" else ended.get("reason")
        restarts = container.get("restartCount", 0)
        return Failure(why or "Error", _ending(who, ended, restarts), exited=True, fatal=reason in _HOPELESS)
    if reason and reason not in _HARMLESS:
        return Failure(reason, _sentence(who, waiting.get("message")), fatal=reason in _HOPELESS)
    return None


def _failed_pod(status: Mapping[str, Any]) -> Failure | None:
    if status.get("phase") != "Failed":
        return None
    return Failure(status.get("reason") or "PodFailed", status.get("message") or "the pod failed", fatal=True)


def _ending(who: str, ended: Mapping[str, Any], restarts: int) -> str:
    how = "was killed for memory" if ended.get("reason") == "OOMKilled" else f"exited with code {ended.get('exitCode')}"
    times = f" ({restarts} restarts)" if restarts else ""
    return _sentence(f"{who} {how}{times}", last_lines(ended.get("message") or ""))


def last_lines(text: str) -> str:
    """The last lines of a termination message, as one short text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-_LAST_LINES:])[-_LONGEST:]


def _sentence(what: str, why: str | None) -> str:
    return f"{what}: {why}"[: 2 * _LONGEST] if why else what


def _unschedulable(pod: Object) -> str:
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return str(scheduled.get("message") or "no node has room")
    return ""


def _statuses(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(status.get("containerStatuses") or ())


def _condition(obj: Object, type_: str) -> dict[str, Any]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == type_), {})
