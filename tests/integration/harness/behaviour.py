"""What FakeKubelet is told: how engines and benchmark Jobs behave, and for which pods that holds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Pod = dict[str, Any]
PodTest = Callable[[Pod], bool]

ROLE_LABEL, REVISION_LABEL, SERVICE_LABEL = "tailguard.dev/role", "tailguard.dev/revision", "tailguard.dev/service"


class Start(StrEnum):
    """How a pod's start ends."""

    READY = "Ready"
    NEVER_READY = "NeverReady"
    PULL_ERROR = "ImagePullBackOff"
    CRASH_LOOP = "CrashLoopBackOff"
    OUT_OF_MEMORY = "OOMKilled"
    UNSCHEDULABLE = "Unschedulable"


class Mishap(StrEnum):
    """What happens to an arm's pod while it is measured."""

    DIES = "Dies"
    """Its engine's container exits by itself."""
    DISRUPTED = "Disrupted"
    """It is taken away from outside: DisruptionTarget, then gone."""


class JobEnd(StrEnum):
    """What happens to the pod of a benchmark Job."""

    EVICTED = "Evicted"
    PENDING = "Pending"


@dataclass(frozen=True)
class Engine:
    """How engines of some pods behave."""

    start: Start = Start.READY
    ready_after: float = 0.0
    """Seconds from the node to Ready (or to the failure)."""
    message: str = ""
    """The kubelet's or the container's own words about the failure."""
    slowdown: float = 1.0
    """Latency against the nominal engine."""
    mishap: Mishap | None = None
    after_slots: int = 0
    """Slots measured before the mishap."""
    times: int = 1_000_000
    """How many pods the mishap hits."""


@dataclass(frozen=True)
class JobFault:
    """How benchmark Jobs of some pairs go wrong."""

    end: JobEnd
    after_slots: int = 0
    times: int = 1_000_000


@dataclass
class Script:
    """Rules in order; the last that matches wins. Counts how often a limited rule was used."""

    engines: list[tuple[PodTest, Engine]] = field(default_factory=list)
    jobs: list[tuple[PodTest, JobFault]] = field(default_factory=list)
    used: dict[int, int] = field(default_factory=dict)

    def engine(self, pod: Pod) -> Engine:
        """How this pod's engine behaves."""
        return next((each for test, each in reversed(self.engines) if test(pod)), Engine())

    def job_fault(self, canary: Pod | None) -> JobFault | None:
        """What goes wrong with the next Job that measures this canary arm; uses up one of its times."""
        for test, fault in reversed(self.jobs):
            if canary is not None and test(canary) and self.take(fault, fault.times):
                return fault
        return None

    def take(self, rule: object, times: int) -> bool:
        """Whether `rule` may be used once more; it then counts as used."""
        used = self.used.get(id(rule), 0)
        self.used[id(rule)] = used + (used < times)
        return used < times


def pods(*, flag: str = "", role: str = "", image: str = "") -> PodTest:
    """Pods with this flag in their engine's command line, of this role, with this image; all, if nothing is said."""

    def test(pod: Pod) -> bool:
        engine = engine_container(pod)
        words = [*engine.get("command", []), *engine.get("args", [])]
        return (
            (not flag or flag in words)
            and (not role or pod["metadata"].get("labels", {}).get(ROLE_LABEL) == role)
            and (not image or engine.get("image") == image)
        )

    return test


def engine_container(pod: Pod) -> dict[str, Any]:
    """The engine's container, else the first one."""
    containers: list[dict[str, Any]] = pod["spec"]["containers"]
    return next((each for each in containers if each["name"] == "engine"), containers[0])
