"""Given, when, then for one service in one namespace, against the real API server and the real operator.

Every `then_` waits, up to a bound, and fails with the service's last status, its Events, its pods and the end of the
operator's log.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import httpx
import yaml

from harness.api import Api, ApiError, Object
from harness.behaviour import REVISION_LABEL, ROLE_LABEL, SERVICE_LABEL, Engine, JobFault, PodTest, pods
from harness.fake_kubelet import SLOTS_A_TICK, FakeKubelet
from harness.operator_process import Operator
from harness.processes import tail

DEADLINE_SECONDS = 40.0
POLL_SECONDS = 0.1
MODEL = "file:///models/tiny"
QUICK_ROLLOUT: Mapping[str, Any] = {
    "keepPrevious": "10m",
    "benchmark": {"slot": {"requests": 100, "minSeconds": 1}},
}
"""Slots of 100 decide after ten; previous pods stay until a test says otherwise."""

BASE, SLOWER, SLIGHTLY_SLOWER, FASTER = (f"--max-num-seqs={n}" for n in (8, 1, 4, 32))


@dataclass
class Scenario:
    """One service's story. Steps return the scenario, so that they can be chained."""

    api: Api
    namespace: str
    kubelet: FakeKubelet
    operator: Operator
    name: str = "chat"
    deadline: float = DEADLINE_SECONDS
    others: list[Operator] = field(default_factory=list)
    """Operators beside the first; they end with the scenario."""

    def stop(self) -> None:
        """End everything that the scenario started."""
        for operator in (self.operator, *self.others):
            operator.kill()
        self.kubelet.stop()

    # Given

    def given_operator(self, **fault: Any) -> Self:
        """The operator runs."""
        self.operator.start(**fault)
        return self

    def another_operator(self, identity: str = "operator-b") -> Operator:
        """A second operator of the same installation; not started yet."""
        other = self.operator.sibling(identity)
        self.others.append(other)
        return other

    def given_engine(self, test: PodTest, **behaviour: Any) -> Self:
        """Engines of these pods behave so; of several rules the last one said counts."""
        self.kubelet.script.engines.append((test, Engine(**behaviour)))
        return self

    def given_jobs(self, canary: PodTest, **fault: Any) -> Self:
        """Benchmark Jobs that measure such a canary arm go wrong."""
        self.kubelet.script.jobs.append((canary, JobFault(**fault)))
        return self

    def given_speeds(self) -> Self:
        """The four flags of this module stand for engines of those speeds."""
        return (
            self.given_engine(pods(flag=SLOWER), slowdown=2.0)
            .given_engine(pods(flag=SLIGHTLY_SLOWER), slowdown=1.13)
            .given_engine(pods(flag=FASTER), slowdown=0.8)
        )

    def given_measuring_paused(self) -> Self:
        """Benchmarks store nothing until `when_measuring_goes_on`."""
        self.kubelet.slots_a_tick = 0
        return self

    def given_short_deadline(self) -> Self:
        """A pod may take three seconds to become Ready. Before the operator starts."""
        self.operator.constants |= {
            "tailguard_operator.plan.arms.DEADLINE_MARGIN_SECONDS": 2,
            "tailguard_runtime.engines.vllm.STARTUP_BASE_SECONDS": 1,
        }
        return self

    def given_short_patience(self) -> Self:
        """A benchmark's pod may be Pending for two seconds. Before the operator starts."""
        self.operator.constants["tailguard_operator.plan.jobs.PENDING_LIMIT"] = {"seconds": 2}
        return self

    def given_stable(self, *args: str, replicas: int = 1, **rollout: Any) -> Self:
        """The service serves and its Baseline is frozen."""
        self.given_speeds().given_operator() if not self.operator.alive else self
        return self.when_applied(*(args or (BASE,)), replicas=replicas, **rollout).then_baseline()

    # When

    def when_applied(self, *args: str, replicas: int = 1, engine: Object | None = None, **rollout: Any) -> Self:
        """The user applies the service with these engine flags."""
        spec: Object = {
            "model": {"uri": MODEL},
            "engine": {"args": [*args]} | (engine or {}),
            "replicas": replicas,
            "rollout": dict(QUICK_ROLLOUT) | rollout,
        }
        return self.when_spec(spec)

    def when_spec(self, spec: Object) -> Self:
        """The user applies this spec."""
        if self.api.get("InferenceService", self.namespace, self.name) is None:
            self.api.create("InferenceService", self.namespace, {"metadata": {"name": self.name}, "spec": spec})
        else:
            self.api.patch("InferenceService", self.namespace, self.name, {"spec": spec})
        return self

    def when_annotated(self, command: str, token: str) -> Self:
        """The user gives a command, such as `retry`."""
        annotations = {f"tailguard.dev/{command}": token}
        self.api.patch("InferenceService", self.namespace, self.name, {"metadata": {"annotations": annotations}})
        return self

    def when_scaled(self, replicas: int) -> Self:
        """`kubectl scale`, or an autoscaler, writes to /scale."""
        self.api.patch("InferenceService", self.namespace, self.name, {"spec": {"replicas": replicas}}, "scale")
        return self

    def when_measuring_goes_on(self) -> Self:
        """Benchmarks store slots again."""
        self.kubelet.slots_a_tick = SLOTS_A_TICK
        return self

    def when_deleted(self) -> Self:
        """The user deletes the service."""
        self.api.delete("InferenceService", self.namespace, self.name)
        return self

    # Then

    def then(self, what: str, holds: Callable[["Scenario"], Any], seconds: float | None = None) -> Self:
        """Wait until `holds` gives something true; fails with the whole picture when it does not."""
        end = time.monotonic() + (seconds or self.deadline)
        while not self._holds(holds):
            self._check_kubelet()
            if time.monotonic() > end:
                waited = seconds or self.deadline
                raise AssertionError(f"did not come true within {waited:g} s: {what}\n{self.picture()}")
            time.sleep(POLL_SECONDS)
        return self

    def then_never(self, what: str, holds: Callable[["Scenario"], Any], seconds: float) -> Self:
        """Look for `seconds` and fail at once when `holds` gives something true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert not self._holds(holds), f"came true: {what}\n{self.picture()}"
            time.sleep(POLL_SECONDS)
        return self

    def then_condition(self, type_: str, status: str, reason: str = "", message: str = "") -> Self:
        """The condition has this status and reason, and a message that holds `message`."""

        def holds(s: "Scenario") -> bool:
            row = s.condition(type_)
            said = message.lower() in row.get("message", "").lower()
            return row.get("status") == status and (not reason or row.get("reason") == reason) and said

        return self.then(f"condition {type_}={status} reason={reason or 'any'} message has {message!r}", holds)

    def then_state(self, state: str, reason: str = "", message: str = "") -> Self:
        """The rollout is in this state."""

        def holds(s: "Scenario") -> bool:
            row = s.rollout
            said = message.lower() in row.get("message", "").lower()
            return row.get("state") == state and (not reason or row.get("reason") == reason) and said

        return self.then(f"state {state} reason={reason or 'any'} message has {message!r}", holds)

    def then_baseline(self) -> Self:
        """A Baseline of the stable revision is in force."""

        def holds(s: "Scenario") -> bool:
            found = s.baseline()
            return bool(found and found["spec"]["revision"] == s.status["stable"]["revision"])

        return self.then("the stable revision's Baseline is frozen", holds)

    def then_stable(self, flag: str) -> Self:
        """Users are served by engines with this flag, and no change is under way."""
        return self.then_state("Stable").then(f"users are on {flag}", lambda s: s.serves(flag))

    def then_event(self, reason: str) -> Self:
        """An Event with this reason was sent about the service."""
        return self.then(f"event {reason}", lambda s: any(e["reason"] == reason for e in s.events()))

    # What there is

    @property
    def service(self) -> Object:
        """The InferenceService; empty when it is gone."""
        return self.api.get("InferenceService", self.namespace, self.name) or {}

    @property
    def status(self) -> Object:
        status: Object = self.service.get("status", {})
        return status

    @property
    def rollout(self) -> Object:
        rollout: Object = self.status.get("rollout", {})
        return rollout

    def condition(self, type_: str) -> Object:
        """One condition; empty when it is not set."""
        rows: list[Object] = self.status.get("conditions", [])
        return next((row for row in rows if row["type"] == type_), {})

    def users_service(self) -> Object | None:
        """The Service that users reach."""
        return self.api.get("Service", self.namespace, self.name)

    def route(self) -> str:
        """The revision that the users' Service selects; empty when there is none."""
        found = self.users_service()
        return str(found["spec"]["selector"].get(REVISION_LABEL, "")) if found else ""

    def routes_since(self, resource_version: str) -> list[str]:
        """Revisions that the users' Service has selected since then, one for each change of the Service."""
        changes = self.api.changes("Service", self.namespace, resource_version)
        ours = [each for each in changes if each["metadata"]["name"] == self.name]
        return [each["spec"]["selector"].get(REVISION_LABEL, "") for each in ours]

    def revision_of(self, flag: str) -> str:
        """The rendered revision whose engine has this flag; empty when there is none."""
        for each in self.owned("ControllerRevision"):
            if flag in each["data"]["template"]["spec"]["containers"][0].get("args", []):
                return str(each["metadata"]["labels"][REVISION_LABEL])
        return ""

    def pods(self, role: str = "", revision: str = "") -> list[Object]:
        """Engine pods of the service that are not on their way out."""
        labels = {SERVICE_LABEL: self.name} | ({ROLE_LABEL: role} if role else {})
        labels |= {REVISION_LABEL: revision} if revision else {}
        found = self.api.find("Pod", self.namespace, ",".join(f"{key}={value}" for key, value in labels.items()))
        engines = [pod for pod in found if ROLE_LABEL in pod["metadata"]["labels"]]
        return [pod for pod in engines if "deletionTimestamp" not in pod["metadata"]]

    def users_pods(self) -> list[Object]:
        """Ready pods behind the users' Service."""
        found = self.users_service()
        if found is None:
            return []
        selector = ",".join(f"{key}={value}" for key, value in found["spec"]["selector"].items())
        return [pod for pod in self.api.find("Pod", self.namespace, selector) if is_ready(pod)]

    def serves(self, flag: str) -> bool:
        """Whether all Ready pods that users reach have this flag, and there is one."""
        found = self.users_pods()
        return bool(found) and all(pods(flag=flag)(pod) for pod in found)

    def owned(self, kind: str) -> list[Object]:
        """Objects of the service by its label."""
        return self.api.find(kind, self.namespace, f"{SERVICE_LABEL}={self.name}")

    def benchmarks(self, purpose: str) -> list[Object]:
        """Benchmarks of the service for this purpose."""
        found = self.api.find("Benchmark", self.namespace)
        return [each for each in found if each["spec"]["service"] == self.name and each["spec"]["purpose"] == purpose]

    def baseline(self) -> Object | None:
        """The Baseline in force."""
        name = self.status.get("baseline", {}).get("name")
        return self.api.get("Baseline", self.namespace, name) if name else None

    def events(self) -> list[Object]:
        """Events about the service."""
        return [e for e in self.api.find("Event", self.namespace) if e["involvedObject"].get("name") == self.name]

    def picture(self) -> str:
        """All that helps to understand a failure."""
        status = yaml.safe_dump(self.status, sort_keys=False)
        events = [f"{e['type']} {e['reason']}: {e.get('message', '')}" for e in self.events()]
        found = [f"{pod['metadata']['name']} {pod.get('status', {}).get('phase')}" for pod in self.pods()]
        log = tail(self.operator.log)
        return f"--- status\n{status}--- events\n" + "\n".join([*events, "--- pods", *found, "--- operator", log])

    def _holds(self, holds: Callable[["Scenario"], Any]) -> bool:
        """Whether it holds now; an API server that is away, or a part that is not there yet, means no."""
        try:
            return bool(holds(self))
        except (httpx.TransportError, ApiError, KeyError):
            return False

    def _check_kubelet(self) -> None:
        if self.kubelet.problem is not None:
            raise AssertionError("FakeKubelet could not go on") from self.kubelet.problem


def is_ready(pod: Object) -> bool:
    """Whether the pod is Ready."""
    rows = pod.get("status", {}).get("conditions", [])
    return any(row["type"] == "Ready" and row["status"] == "True" for row in rows)


def uids(found: list[Object]) -> set[str]:
    """The identities of objects: the same name with another uid is another object."""
    return {each["metadata"]["uid"] for each in found}
