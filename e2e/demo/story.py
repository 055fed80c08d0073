"""The four steps, each with what is expected and what was seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from e2e.demo.kube import Kube

SERVICE = "chat"
POLL_SECONDS = 1.0
ROLLOUT: dict[str, Any] = {
    "benchmark": {"ratePerSecond": 14, "slot": {"requests": 50, "minSeconds": 2}},
    "keepPrevious": "2m",
}
MODEL, SMALLER_MODEL = "file:///models/deep", "file:///models/tiny"
HARMFUL = {"engine": {"args": ["--max-num-seqs=1"]}}
HELPFUL = {"model": {"uri": SMALLER_MODEL}}
NO_IMAGE = {"spec": {"containers": [{"name": "engine", "image": "local/no-such-engine:1"}]}}
BROKEN = HELPFUL | {"engine": {"template": NO_IMAGE}}


@dataclass
class Step:
    """One step of the story as it went."""

    name: str
    expected: str
    seen: str = "nothing"
    seconds: float = 0.0
    requests: int = 0
    why: str = ""
    broken: list[str] = field(default_factory=list)

    @property
    def as_told(self) -> bool:
        """Whether it went as told."""
        return self.seen == self.expected and not self.broken


class LateError(RuntimeError):
    """A step did not get where it should in time."""


def service(**change: Any) -> dict[str, Any]:
    """The manifest that the user applies; `change` replaces parts of the spec."""
    spec: dict[str, Any] = {"model": {"uri": MODEL}, "rollout": ROLLOUT}
    return {
        "apiVersion": "tailguard.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": SERVICE},
        "spec": spec | change,
    }


@dataclass
class Story:
    """Plays the steps on one cluster, telling progress as it goes."""

    kube: Kube
    say: Callable[[str], None]
    steps: list[Step] = field(default_factory=list)
    rejected_benchmark: str = ""

    def first_rollout(self) -> None:
        """Three lines: the service becomes Ready and the first Baseline is frozen."""
        with self._step("apply", "Ready") as step:
            self.kube.apply(service())
            self._wait(lambda s: _condition(s, "Ready") == "True", 600)
            status = self._wait(lambda s: bool(s.get("baseline")) and not s.get("freeze"), 600)
            step.requests = self._requests(self._last_benchmark())
            step.seen = "Ready"
            step.why = f"Baseline {status['baseline']['name']} is frozen, P99 {status.get('p99')}"

    def harmful_change(self) -> None:
        """One sequence at a time: the queue grows, the verdict is ROLLBACK, users never leave stable."""
        with self._step("harmful change", "ROLLBACK") as step:
            stable = self._status()["stable"]["revision"]
            self.kube.apply(service(**HARMFUL))
            status = self._wait(lambda s: _state(s) in ("Rejected", "Held", "Stable", "Kept") and _new(s, stable), 1500)
            self._judged(step, status)
            self.rejected_benchmark = status["rollout"].get("benchmark", "")
            self._check(step, self._selected() == stable, "users left the stable revision")
            self._check(step, _condition(status, "Ready") == "True", "Ready is not True")
            hashes = [r["specHash"] for r in status.get("remembered") or []]
            self._check(step, status["rollout"]["specHash"] in hashes, "the hash is not remembered")

    def helpful_change(self) -> None:
        """A smaller model, faster in every metric: PROMOTE, users move in one step, the way back is removed later."""
        with self._step("helpful change", "PROMOTE") as step:
            before = self._status()
            self.kube.apply(service(**HELPFUL))
            status = self._wait(lambda s: _state(s) in ("Kept", "Held", "Rejected") and _changed(s, before), 2400)
            self._judged(step, status)
            self._check(step, self._selected() == status["stable"]["revision"], "users are not on the new revision")
            self._check(step, self._restarts() == 0, "a serving pod restarted")
            if step.seen != "PROMOTE":
                return
            self.say("users moved; the previous pods are kept for two minutes")
            status = self._wait(lambda s: _state(s) == "Stable", 300)
            self._check(step, status["baseline"] != before["baseline"], "no new Baseline is in force")
            gone = before["stable"]["revision"]
            self._wait(lambda _: not self.kube.list("pods", f"tailguard.dev/revision={gone}"), 180)

    def broken_change(self) -> None:
        """An image that does not exist: rejected with the pod's own reason."""
        with self._step("broken change", "Rejected") as step:
            stable = self._status()["stable"]["revision"]
            self.kube.apply(service(**BROKEN))
            status = self._wait(lambda s: _state(s) in ("Rejected", "Held") and _new(s, stable), 900)
            step.seen = _state(status)
            step.why = status["rollout"].get("message", "")
            self._check(step, "ImagePull" in str(status["rollout"].get("reason")), "the pod's own reason is not told")
            self._check(step, self._selected() == stable, "users left the stable revision")

    def back_to_stable(self) -> None:
        """The spec is the stable one again, so that the demo can be run again and the cluster is tidy."""
        self.kube.apply(service(**HELPFUL))
        self._wait(lambda s: _state(s) == "Stable", 60)

    @contextmanager
    def _step(self, name: str, expected: str) -> Iterator[Step]:
        step = Step(name, expected)
        self.steps.append(step)
        self.say(f"[bold]{name}[/bold]: expected {expected}")
        started = time.monotonic()
        try:
            yield step
        except LateError as late:
            step.why = str(late)
        step.seconds = time.monotonic() - started
        self.say(f"  seen {step.seen} after {step.seconds:.0f} s. {step.why} {'; '.join(step.broken)}")

    def _wait(self, until: Callable[[dict[str, Any]], bool], limit: float) -> dict[str, Any]:
        deadline, told = time.monotonic() + limit, ""
        while time.monotonic() < deadline:
            status = self._status()
            if until(status):
                return status
            told = self._tell(status, told)
            time.sleep(POLL_SECONDS)
        raise LateError(f"not within {limit:.0f} s; the last word was: {told}")

    def _tell(self, status: dict[str, Any], told: str) -> str:
        rollout, freeze = status.get("rollout") or {}, status.get("freeze") or {}
        texts = [rollout.get("message"), freeze.get("message") if _state(status) == "Stable" else None]
        text = "; ".join(t for t in texts if t)
        if text != told:
            self.say(f"  [dim]{_state(status)}: {text}[/dim]")
        return text

    def _status(self) -> dict[str, Any]:
        found = self.kube.get("inferenceservice", SERVICE)
        status: dict[str, Any] = (found or {}).get("status") or {}
        return status

    def _selected(self) -> str:
        found = self.kube.get("service", SERVICE)
        selector = (found or {}).get("spec", {}).get("selector", {})
        return str(selector.get("tailguard.dev/revision", ""))

    def _restarts(self) -> int:
        pods = self.kube.list("pods", f"tailguard.dev/service={SERVICE},tailguard.dev/role=serving")
        statuses = [c for pod in pods for c in pod.get("status", {}).get("containerStatuses", [])]
        return sum(int(c["restartCount"]) for c in statuses)

    def _judged(self, step: Step, status: dict[str, Any]) -> None:
        rollout = status["rollout"]
        step.seen = rollout.get("verdict") or rollout["state"]
        step.why = rollout.get("message", "")
        step.requests = int(rollout.get("spentRequests", 0))

    def _check(self, step: Step, holds: bool, otherwise: str) -> None:
        if not holds:
            step.broken.append(otherwise)

    def _last_benchmark(self) -> dict[str, Any]:
        found = self.kube.list("benchmarks")
        return max(found, key=lambda b: b["metadata"]["creationTimestamp"]) if found else {}

    def _requests(self, benchmark: dict[str, Any]) -> int:
        return int((benchmark.get("status") or {}).get("requests") or 0)


def _state(status: dict[str, Any]) -> str:
    return str((status.get("rollout") or {}).get("state", ""))


def _condition(status: dict[str, Any], type_: str) -> str:
    return next((c["status"] for c in status.get("conditions") or [] if c["type"] == type_), "")


def _new(status: dict[str, Any], stable: str) -> bool:
    return (status.get("rollout") or {}).get("revision") != stable


def _changed(status: dict[str, Any], before: dict[str, Any]) -> bool:
    return (status.get("rollout") or {}).get("specHash") != (before.get("rollout") or {}).get("specHash")
