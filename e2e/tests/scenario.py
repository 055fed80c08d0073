"""Given, when, then for one service in a namespace of its own, on a real node with real engines.

Every `then_` waits up to a bound. What the cluster showed when a test failed is added to its report (see conftest).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import yaml
from e2e.demo.install import NAMESPACE as SYSTEM
from e2e.demo.install import RELEASE
from e2e.demo.kube import Kube, KubeError
from e2e.demo.story import ROLLOUT

Object = dict[str, Any]

SERVICE_LABEL, REVISION_LABEL, ROLE_LABEL = (f"tailguard.dev/{name}" for name in ("service", "revision", "role"))
TINY, DEEP = "file:///models/tiny", "file:///models/deep"
DEMO_LOAD: Mapping[str, Any] = ROLLOUT["benchmark"]
QUICK_LOAD: Mapping[str, Any] = {"ratePerSecond": 10, "slot": {"requests": 20, "minSeconds": 2}}
"""A slot takes 4 s: for stories whose verdict does not matter."""

POLL_SECONDS = 1.0
SHORT = 60.0
"""What only the operator has to do, an operator that starts anew included."""
START = 300.0
"""Engines that start side by side on one core."""
FREEZE = 900.0
"""An A/A pair starts and is measured, once more if it differed."""


@dataclass
class Scenario:
    """One service's story. Steps return the scenario, so that they can be chained."""

    kube: Kube
    name: str = "chat"
    load: Mapping[str, Any] = field(default_factory=lambda: QUICK_LOAD)

    @property
    def namespace(self) -> str:
        return self.kube.namespace

    @property
    def system(self) -> Kube:
        """The same cluster, in the operator's namespace."""
        return Kube(self.kube.kubeconfig, self.kube.programs, SYSTEM)

    # When

    def manifest(self, model: str = TINY, rollout: Object | None = None, **spec: Any) -> Object:
        """What a user writes."""
        rules = {"benchmark": dict(self.load)} | (rollout or {})
        return {
            "apiVersion": "tailguard.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": self.name},
            "spec": {"model": {"uri": model}, "rollout": rules} | spec,
        }

    def when_applied(self, model: str = TINY, **parts: Any) -> Self:
        """The user applies the service."""
        self.kube.apply(self.manifest(model, **parts))
        return self

    def when_leader_dies(self) -> Self:
        """The pod of the operator that leads is gone at once, and another one leads."""
        dead = self.leader()
        self.system.kubectl("delete", "pod", dead, "--force", "--grace-period=0")
        return self.then(f"another operator than {dead} leads", lambda s: s.leader() not in ("", dead), 2 * SHORT)

    # Then

    def then(self, what: str, holds: Callable[[Self], Any], seconds: float = SHORT) -> Self:
        """Wait until `holds` gives something true; an API server that is away, or a part not yet there, means no."""
        end, answer = time.monotonic() + seconds, ""
        while time.monotonic() < end:
            try:
                if holds(self):
                    return self
                answer = "it does not hold"
            except (KubeError, LookupError) as error:
                answer = f"{type(error).__name__}: {error}"
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"did not come true within {seconds:g} s: {what} ({answer})")

    def then_stays(self, what: str, holds: Callable[[Self], Any], seconds: float) -> Self:
        """Look for `seconds` and fail as soon as `holds` gives something false."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert holds(self), f"does not hold any more: {what}"
            time.sleep(POLL_SECONDS)
        return self

    def then_condition(self, type_: str, status: str, reason: str = "", seconds: float = SHORT) -> Self:
        """The condition has this status and, if one is said, this reason."""

        def holds(s: Scenario) -> bool:
            row = s.condition(type_)
            return row.get("status") == status and reason in ("", row.get("reason"))

        return self.then(f"condition {type_}={status} {reason}", holds, seconds)

    def then_state(self, state: str, seconds: float = SHORT) -> Self:
        """The rollout is in this state."""
        return self.then(f"state {state}", lambda s: s.rollout.get("state") == state, seconds)

    def then_ready(self, seconds: float = START) -> Self:
        """Users are served."""
        return self.then_condition("Ready", "True", seconds=seconds)

    def then_baseline(self, seconds: float = FREEZE) -> Self:
        """The stable revision's Baseline is in force and its A/A pair has gone."""

        def holds(s: Scenario) -> bool:
            status = s.status
            return bool(status["baseline"]) and not status.get("freeze") and s.roles() == ["serving"]

        return self.then("the Baseline is frozen", holds, seconds)

    # What there is

    @property
    def status(self) -> Object:
        found: Object = (self.kube.get("inferenceservice", self.name) or {}).get("status") or {}
        return found

    @property
    def rollout(self) -> Object:
        found: Object = self.status.get("rollout") or {}
        return found

    def condition(self, type_: str) -> Object:
        """One condition; empty when it is not set."""
        rows: list[Object] = self.status.get("conditions") or []
        return next((row for row in rows if row["type"] == type_), {})

    def selected(self) -> str:
        """The revision that users are led to; empty when there is no Service."""
        found = self.kube.get("service", self.name) or {}
        return str(found.get("spec", {}).get("selector", {}).get(REVISION_LABEL, ""))

    def owned(self, kind: str) -> list[Object]:
        """Objects of the service by its label."""
        return self.kube.list(kind, f"{SERVICE_LABEL}={self.name}")

    def deployments(self, role: str = "serving") -> list[Object]:
        """Pools of a role that are not on their way out."""
        found = [d for d in self.owned("deployments") if d["metadata"]["labels"][ROLE_LABEL] == role]
        return [d for d in found if "deletionTimestamp" not in d["metadata"]]

    def sizes(self) -> dict[str, int]:
        """Wanted number of pods, by role."""
        return {d["metadata"]["labels"][ROLE_LABEL]: d["spec"]["replicas"] for d in self.owned("deployments")}

    def pods(self, role: str = "", revision: str = "") -> list[Object]:
        """Engine pods that are not on their way out."""
        labels = {SERVICE_LABEL: self.name, ROLE_LABEL: role, REVISION_LABEL: revision}
        found = self.kube.list("pods", ",".join(f"{key}={value}" for key, value in labels.items() if value))
        engines = [p for p in found if ROLE_LABEL in p["metadata"]["labels"]]
        return [p for p in engines if "deletionTimestamp" not in p["metadata"]]

    def roles(self) -> list[str]:
        """Roles of all engine pods, those on their way out too."""
        found = self.owned("pods")
        return sorted(p["metadata"]["labels"][ROLE_LABEL] for p in found if ROLE_LABEL in p["metadata"]["labels"])

    def slots(self, benchmark: str) -> list[int]:
        """Numbers of all that a Benchmark's Jobs have stored."""
        names = [c["metadata"]["name"] for c in self.kube.list("configmaps", f"tailguard.dev/benchmark={benchmark}")]
        found = [re.fullmatch(rf"{re.escape(benchmark)}-(\d+)", name) for name in names]
        return sorted(int(match[1]) for match in found if match)

    def events(self) -> list[Object]:
        """Events about the service, oldest first."""
        found = self.kube.kubectl("get", "events", "--sort-by=.metadata.creationTimestamp", "-o", "json")
        return [e for e in json.loads(found)["items"] if e["involvedObject"].get("name") == self.name]

    def leader(self) -> str:
        """The operator's pod that holds the Lease; empty when none does."""
        lease = self.system.get("lease", "tailguard-operator") or {}
        return str(lease.get("spec", {}).get("holderIdentity", ""))

    def ask(self, path: str) -> Object:
        """What the service answers, through the API server."""
        where = f"/api/v1/namespaces/{self.namespace}/services/{self.name}:80/proxy{path}"
        answer: Object = json.loads(self.kube.kubectl("get", "--raw", where))
        return answer

    def picture(self) -> str:
        """All that helps to understand a failure."""
        return "\n".join(f"--- {name}\n{_quietly(part)}" for name, part in self._parts().items())

    def _parts(self) -> Mapping[str, Callable[[], str]]:
        return {
            "status": lambda: yaml.safe_dump(self.status, sort_keys=False),
            "events": lambda: "\n".join(f"{e['type']} {e['reason']}: {e.get('message')}" for e in self.events()),
            "objects": lambda: self.kube.kubectl("get", "deployments,jobs,benchmarks,baselines,pods", "-o", "wide"),
            "operator": lambda: self.system.kubectl("logs", f"deployment/{RELEASE}", "--tail=40"),
        }


def uids(found: list[Object]) -> set[str]:
    """The identities of objects: the same name with another uid is another object."""
    return {each["metadata"]["uid"] for each in found}


def restarts(pod: Object) -> int:
    """How often the containers of a pod were started again."""
    return sum(int(c["restartCount"]) for c in pod.get("status", {}).get("containerStatuses", []))


def is_ready(pod: Object) -> bool:
    """Whether the pod is Ready."""
    rows = pod.get("status", {}).get("conditions", [])
    return any(row["type"] == "Ready" and row["status"] == "True" for row in rows)


def engine(pod: Object) -> Object:
    """The engine's container."""
    found: list[Object] = pod["spec"]["containers"]
    return next(c for c in found if c["name"] == "engine")


def _quietly(part: Callable[[], str]) -> str:
    try:
        return part()
    except KubeError as error:
        return str(error)
