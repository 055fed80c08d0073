"""The health of one arm: its pod, judged from what the kubelet and the scheduler say."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tailguard_operator.plan.world import PodView, PoolKey, World

DEADLINE_MARGIN_SECONDS = 120
"""Beyond the longest start that the start-up probe allows: scheduling and pulling the image."""
DEFAULT_STARTUP_SECONDS = 1800


class ArmState(StrEnum):
    """How an arm is."""

    STARTING = "Starting"
    READY = "Ready"
    FAILED = "Failed"
    """By itself: crash loop, image error, exit, or not Ready by the deadline."""
    UNSCHEDULABLE = "Unschedulable"
    DISRUPTED = "Disrupted"
    """Gone or stopped by somebody else."""


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm and why it is so."""

    state: ArmState
    reason: str = ""
    message: str = ""
    pod: PodView | None = None


def deadline_seconds(world: World, revision: str) -> int:
    """Seconds that a pod of `revision` may take to become Ready."""
    view = world.revision(revision)
    return (view.startup_seconds if view else DEFAULT_STARTUP_SECONDS) + DEADLINE_MARGIN_SECONDS


def starting_arm(world: World, key: PoolKey, now: datetime) -> Arm:
    """The arm while its pod starts: any pod of the pool may become the one that is measured."""
    pods = sorted(world.pods_of(key), key=lambda p: (not p.ready, bool(p.disrupted), p.created, p.name))
    limit = deadline_seconds(world, key.revision)
    if not pods:
        return _without_pod(world, key, now, limit)
    pod = pods[0]
    late = now - _created(world, key, pod) > timedelta(seconds=limit)
    if pod.failure and (pod.failure.fatal or late):
        return Arm(ArmState.FAILED, pod.failure.reason, pod.failure.message, pod)
    if moved := image_moved(world, pod):
        return Arm(ArmState.FAILED, "ImageMoved", moved, pod)
    if pod.ready:
        return Arm(ArmState.READY, pod=pod)
    return _late(pods, pod, limit) if late else Arm(ArmState.STARTING, "PodNotReady", _waiting(pod), pod)


def measured_arm(world: World, key: PoolKey, name: str | None) -> Arm:
    """The arm while it is measured: exactly the pod `name`, since another one is another start."""
    pod = next((p for p in world.pods if p.name == name), None)
    if pod is None or pod.deleting:
        return Arm(ArmState.DISRUPTED, "PodGone", f"pod {name} was deleted while it was measured", pod)
    if pod.disrupted:
        return Arm(ArmState.DISRUPTED, "Disrupted", f"pod {pod.name} was disrupted: {pod.disrupted}", pod)
    if pod.failure and (pod.failure.exited or pod.failure.fatal):
        return Arm(ArmState.FAILED, pod.failure.reason, pod.failure.message, pod)
    return Arm(ArmState.READY if pod.ready else ArmState.STARTING, pod=pod)


def _without_pod(world: World, key: PoolKey, now: datetime, limit: int) -> Arm:
    pool = next((p for p in world.pools if p.key == key and not p.deleting), None)
    if pool and pool.replicas and now - pool.created > timedelta(seconds=limit):
        text = f"no {key.role} pod was created within {limit} s: look for a quota or an admission rule in the way"
        return Arm(ArmState.UNSCHEDULABLE, "InsufficientCapacity", text)
    return Arm(ArmState.STARTING, "PodMissing", f"the {key.role} pod has not been created yet")


def _late(pods: Sequence[PodView], pod: PodView, limit: int) -> Arm:
    """Why the pod is not Ready by the deadline; a disruption is nobody's fault."""
    if disrupted := next((p for p in pods if p.disrupted), None):
        text = f"pod {disrupted.name} was disrupted before it was Ready: {disrupted.disrupted}"
        return Arm(ArmState.DISRUPTED, "Disrupted", text, pod)
    if pod.unschedulable:
        return Arm(ArmState.UNSCHEDULABLE, "InsufficientCapacity", pod.unschedulable, pod)
    return Arm(ArmState.FAILED, "ProgressDeadlineExceeded", f"pod {pod.name} was not Ready within {limit} s", pod)


def _created(world: World, key: PoolKey, pod: PodView) -> datetime:
    pool = next((p for p in world.pools if p.key == key), None)
    return pool.created if pool else pod.created


def image_moved(world: World, pod: PodView) -> str:
    """Why the pod must not be used: its tag means another image than when the revision's first pod ran."""
    first = (world.status.images or {}).get(pod.pool.revision)
    if not first or not pod.image_id or pod.image_id == first:
        return ""
    return (
        f"pod {pod.name} runs image {pod.image_id}, the revision's first pod ran {first}: "
        "the tag has moved; name the image by digest, or annotate tailguard.dev/refresh to render it again"
    )


def _waiting(pod: PodView) -> str:
    if pod.unschedulable:
        return f"pod {pod.name} waits for room: {pod.unschedulable}"
    if pod.failure:
        return f"pod {pod.name} is not Ready: {pod.failure.reason}: {pod.failure.message}"
    return f"pod {pod.name} is starting"
