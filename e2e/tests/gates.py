"""Gates at which the operator stops: writes that the API server refuses until the gate is opened.

To whoever reads the cluster, an operator that dies at a gate has died right before that write.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from e2e.demo.kube import Kube


@dataclass(frozen=True)
class Refusal:
    """A kind of write, and when it passes, in CEL."""

    group: str
    versions: str
    resource: str
    operation: str
    passes: str


MOVE_USERS = Refusal("", "v1", "services", "UPDATE", "object.spec.selector == oldObject.spec.selector")
TELL_OF_THE_MOVE = Refusal(
    "tailguard.dev",
    "v1alpha1",
    "inferenceservices/status",
    "UPDATE",
    "!has(object.status.rollout) || object.status.rollout.state != 'Kept'",
)
REMOVE_PREVIOUS = Refusal(
    "apps", "v1", "deployments", "DELETE", "oldObject.metadata.labels['tailguard.dev/role'] != 'serving'"
)


class Gate:
    """One refusal in one namespace; closed on entry, open at the latest on exit."""

    def __init__(self, kube: Kube, name: str, refusal: Refusal) -> None:
        self._kube, self._name, self._refusal = kube, f"{kube.namespace}-{name}", refusal

    def __enter__(self) -> Self:
        self._kube.apply(self._policy(), self._binding())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.open()

    def open(self) -> None:
        """Let the write pass from now on."""
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            self._kube.kubectl("delete", kind, self._name, "--ignore-not-found")

    @property
    def closed(self) -> bool:
        """Whether the API server refuses such a write by now: a policy takes a moment to be in force."""
        found = self._kube.get("validatingadmissionpolicy", self._name) or {}
        status = found.get("status") or {}
        if warnings := (status.get("typeChecking") or {}).get("expressionWarnings"):
            raise ValueError(f"{self._name}: {json.dumps(warnings)}")
        return bool(status.get("observedGeneration") == found["metadata"]["generation"])

    def _policy(self) -> dict[str, Any]:
        refusal = self._refusal
        rule = {
            "apiGroups": [refusal.group],
            "apiVersions": [refusal.versions],
            "resources": [refusal.resource],
            "operations": [refusal.operation],
        }
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": refusal.passes, "message": "the gate of a test is closed"}],
        }
        return self._object("ValidatingAdmissionPolicy", spec)

    def _binding(self) -> dict[str, Any]:
        where = {"matchLabels": {"kubernetes.io/metadata.name": self._kube.namespace}}
        spec = {
            "policyName": self._name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": where},
        }
        return self._object("ValidatingAdmissionPolicyBinding", spec)

    def _object(self, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        api = "admissionregistration.k8s.io/v1"
        return {"apiVersion": api, "kind": kind, "metadata": {"name": self._name}, "spec": spec}
