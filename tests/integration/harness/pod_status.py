"""Pod statuses in the kubelet's form, from a behaviour and an age. Pure."""

from typing import Any

from harness.behaviour import Engine, Pod, Start, engine_container

Status = dict[str, Any]

BACK_OFF = "back-off 10s restarting failed container"
_EXIT_CODES = {Start.CRASH_LOOP: 1, Start.OUT_OF_MEMORY: 137}
KILLED_BY_SIGNAL = 139


def condition(type_: str, status: bool, at: str, reason: str = "", message: str = "") -> dict[str, str]:
    """One condition of a pod."""
    row = {"type": type_, "status": "True" if status else "False", "lastTransitionTime": at}
    return row | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})


def unschedulable(message: str, at: str) -> Status:
    """A pod that no node takes, in the scheduler's words."""
    return {"phase": "Pending", "conditions": [condition("PodScheduled", False, at, "Unschedulable", message)]}


def engine_status(pod: Pod, engine: Engine, age: float, ip: str, at: str, died: str = "") -> Status:
    """Status of an engine's pod that has been on its node for `age` seconds; `died` is its last exit's message."""
    if age < engine.ready_after:
        return _status(pod, ip, at, "Running", False, {"running": {"startedAt": at}})
    if died:
        last = _terminated(KILLED_BY_SIGNAL, "Error", died, at)
        return _status(pod, ip, at, "Running", False, {"waiting": _waiting(Start.CRASH_LOOP, BACK_OFF)}, last, 1)
    if engine.start == Start.PULL_ERROR:
        return _status(pod, ip, at, "Pending", False, {"waiting": _waiting(engine.start, engine.message)})
    if engine.start in _EXIT_CODES:
        reason = "OOMKilled" if engine.start == Start.OUT_OF_MEMORY else "Error"
        last = _terminated(_EXIT_CODES[engine.start], reason, engine.message, at)
        restarts = 1 + int(age - engine.ready_after)
        waiting = _waiting(Start.CRASH_LOOP, BACK_OFF)
        return _status(pod, ip, at, "Running", False, {"waiting": waiting}, last, restarts)
    ready = engine.start == Start.READY
    return _status(pod, ip, at, "Running", ready, {"running": {"startedAt": at}})


def disrupted(pod: Pod, ip: str, at: str, message: str) -> Status:
    """A pod that the kubelet has evicted."""
    ended = {"terminated": _terminated(137, "Error", "", at)}
    status = _status(pod, ip, at, "Failed", False, ended)
    status["conditions"].append(condition("DisruptionTarget", True, at, "TerminationByKubelet", message))
    return status | {"reason": "Evicted", "message": message}


def job_running(pod: Pod, ip: str, at: str) -> Status:
    """The pod of a Job at work."""
    return _status(pod, ip, at, "Running", True, {"running": {"startedAt": at}})


def job_succeeded(pod: Pod, ip: str, at: str) -> Status:
    """The pod of a Job that has done its work."""
    return _status(pod, ip, at, "Succeeded", False, {"terminated": _terminated(0, "Completed", "", at)})


def _waiting(reason: str, message: str) -> dict[str, str]:
    return {"reason": str(reason), "message": message}


def _terminated(code: int, reason: str, message: str, at: str) -> dict[str, Any]:
    return {"exitCode": code, "reason": reason, "message": message, "startedAt": at, "finishedAt": at}


def _status(
    pod: Pod,
    ip: str,
    at: str,
    phase: str,
    ready: bool,
    state: dict[str, Any],
    last: dict[str, Any] | None = None,
    restarts: int = 0,
) -> Status:
    """All containers are like the engine's, but only the engine's failure is told in full."""
    conditions = [
        condition("PodScheduled", True, at),
        condition("Initialized", True, at),
        condition("ContainersReady", ready, at),
        condition("Ready", ready, at),
    ]
    engine = engine_container(pod)["name"]
    containers = [
        {
            "name": each["name"],
            "image": each["image"],
            "imageID": f"{each['image']}@sha256:{'0' * 64}" if "waiting" not in state or last else "",
            "ready": ready,
            "started": ready,
            "restartCount": restarts,
            "state": state,
            "lastState": {"terminated": last} if last and each["name"] == engine else {},
        }
        for each in pod["spec"]["containers"]
    ]
    address = {"podIP": ip, "podIPs": [{"ip": ip}], "hostIP": "127.0.0.1", "hostIPs": [{"ip": "127.0.0.1"}]}
    whole = {"phase": phase, "conditions": conditions, "containerStatuses": containers, "startTime": at}
    return whole | (address if phase != "Pending" else {})
