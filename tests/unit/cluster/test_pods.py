"""What the kubelet says of a pod, and whose fault it is."""

from typing import Any

import pytest

from tailguard_operator.cluster.kinds import Object
from tailguard_operator.cluster.pods import last_lines, pod_view
from tailguard_operator.plan.world import PoolKey, Role

LABELS = {"tailguard.dev/revision": "1a2b3c4d", "tailguard.dev/role": "twin", "tailguard.dev/slot": "3"}
NODES = {"n1": {"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}}


def pod(engine: dict[str, Any] | None = None, **status: Any) -> Object:
    """A pod on a Ready node whose engine's container is as said."""
    found = {"containerStatuses": [{"name": "engine"} | engine]} if engine else {}
    meta = {"name": "p", "labels": LABELS, "creationTimestamp": "2026-12-01T10:00:00Z"}
    return {"metadata": meta, "spec": {"nodeName": "n1"}, "status": found | status}


def view(obj: Object) -> Any:
    return pod_view(obj, NODES)


def test_a_ready_pod_and_its_pool() -> None:
    # Given a Ready pod
    seen = view(pod({"imageID": "img@sha256:1"}, podIP="198.18.0.9", conditions=[{"type": "Ready", "status": "True"}]))
    # Then it is known by its pool, its address and what it runs
    assert seen.pool == PoolKey("1a2b3c4d", Role.TWIN, 3)
    assert (seen.ready, seen.ip, seen.image_id, seen.failure) == (True, "198.18.0.9", "img@sha256:1", None)


@pytest.mark.parametrize(
    ("reason", "fatal"),
    [
        ("ErrImagePull", False),
        ("ImagePullBackOff", True),
        ("InvalidImageName", True),
        ("ErrImageNeverPull", True),
        ("CreateContainerConfigError", True),
        ("CreateContainerError", True),
    ],
)
def test_a_container_that_cannot_start_says_why(reason: str, fatal: bool) -> None:
    # Given a container that waits for something that waiting does not mend
    found = view(pod({"state": {"waiting": {"reason": reason, "message": "no such image"}}})).failure
    # Then the pod's own reason is kept, and it is no exit
    assert (found.reason, found.fatal, found.exited) == (reason, fatal, False)
    assert "no such image" in found.message


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_container_that_is_being_made_is_no_failure(reason: str) -> None:
    assert view(pod({"state": {"waiting": {"reason": reason}}})).failure is None


def test_a_crash_loop_tells_the_last_lines_of_the_log() -> None:
    # Given an engine that crashes over and over
    ended = {"exitCode": 1, "reason": "Error", "message": "\n".join(f"line {n}" for n in range(20))}
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
    found = view(pod({"state": state, "lastState": {"terminated": ended}, "restartCount": 3})).failure
    # Then that is fatal and the engine's own exit, with its last words
    assert (found.reason, found.fatal, found.exited) == ("CrashLoopBackOff", True, True)
    assert "exited with code 1 (3 restarts)" in found.message
    assert found.message.endswith("line 15 | line 16 | line 17 | line 18 | line 19")


def test_a_memory_kill_keeps_its_name_in_a_crash_loop() -> None:
    # Given an engine that was killed for memory again and again
    ended = {"exitCode": 137, "reason": "OOMKilled"}
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    found = view(pod({"state": state, "lastState": {"terminated": ended}, "restartCount": 2})).failure
    # Then OOMKilled is the reason, as that is what to act upon
    assert (found.reason, found.fatal, found.exited) == ("OOMKilled", True, True)


def test_an_engine_that_runs_again_after_an_exit_is_still_a_dead_canary() -> None:
    # Given an engine that the kubelet has restarted after its liveness probe failed
    ended = {"exitCode": 137, "reason": "Error"}
    found = view(pod({"state": {"running": {}}, "lastState": {"terminated": ended}, "restartCount": 1})).failure
    # Then its exit is seen, but more waiting may help
    assert (found.exited, found.fatal) == (True, False)


def test_an_engine_that_ends_with_code_zero_has_ended_all_the_same() -> None:
    found = view(pod({"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}})).failure
    assert (found.reason, found.exited) == ("Completed", True)


def test_an_init_containers_failure_is_told_but_is_no_exit_of_the_engine() -> None:
    # Given a model that cannot be fetched
    ended = {"exitCode": 2, "reason": "Error", "message": "404 Not Found"}
    init = [
        {"name": "guard", "state": {"terminated": {"exitCode": 0}}},
        {"name": "model", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}},
    ]
    found = view(pod(initContainerStatuses=init)).failure
    # Then the init container is named
    assert (found.reason, found.exited, found.fatal) == ("CrashLoopBackOff", False, True)
    assert "init container model exited with code 2" in found.message
    assert "404 Not Found" in found.message


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]},
            "Eviction",
        ),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "Evicted: low on memory"),
        ({"reason": "NodeLost"}, "NodeLost"),
    ],
)
def test_a_disruption_is_never_the_pods_fault(change: dict[str, Any], reason: str) -> None:
    # Given an engine that has exited because its pod was taken away
    seen = view(pod({"state": {"terminated": {"exitCode": 137, "reason": "Error"}}}, **change))
    # Then that is a disruption and no failure
    assert seen.disrupted.startswith(reason)
    assert seen.failure is None


def test_a_pod_deleted_by_hand_and_a_lost_node_are_disruptions() -> None:
    # Given a pod that somebody deletes, and one whose node is gone
    deleted = pod({"state": {"running": {}}})
    deleted["metadata"]["deletionTimestamp"] = "2026-12-01T10:05:00Z"
    elsewhere = pod({"state": {"running": {}}})
    elsewhere["spec"]["nodeName"] = "gone"
    # Then both are disruptions
    assert (view(deleted).disrupted, view(deleted).deleting) == ("Deleted: the pod was deleted", True)
    assert view(elsewhere).disrupted == "NodeGone: node gone no longer exists"
    # And where Nodes may not be read, nothing is said of them
    assert pod_view(elsewhere, None).disrupted == ""  # type: ignore[union-attr]


def test_a_pod_without_room_says_what_the_scheduler_says() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes: memory"}
    assert view(pod(conditions=[condition])).unschedulable == "0/1 nodes: memory"


def test_a_pod_of_no_pool_is_not_ours() -> None:
    stranger = pod()
    stranger["metadata"]["labels"] = LABELS | {"tailguard.dev/role": "queen"}
    assert view(stranger) is None


def test_last_lines_are_short() -> None:
    assert len(last_lines("x" * 10_000)) == 1024
    assert last_lines("\n\n") == ""
