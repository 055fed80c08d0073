"""The kinds that the operator reads and writes, so that no discovery request is needed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tailguard_operator.api.base import API_VERSION

Object = dict[str, Any]
"""A Kubernetes object as plain JSON data."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object and where the API server serves it."""

    api_version: str
    name: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of the collection, of one object, or of its subresource; `namespace` None means all of them."""
        parts = ["apis" if "/" in self.api_version else "api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts += [self.plural]
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/" + "/".join(parts)

    def partial(self, namespace: str, name: str, **metadata: Any) -> Object:
        """The head of an object of this kind, to be filled with the fields that a write is about."""
        head = {"name": name, "namespace": namespace, **metadata}
        return {"apiVersion": self.api_version, "kind": self.name, "metadata": head}


INFERENCE_SERVICE = Kind(API_VERSION, "InferenceService", "inferenceservices")
BENCHMARK = Kind(API_VERSION, "Benchmark", "benchmarks")
BASELINE = Kind(API_VERSION, "Baseline", "baselines")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
CONTROLLER_REVISION = Kind("apps/v1", "ControllerRevision", "controllerrevisions")
JOB = Kind("batch/v1", "Job", "jobs")
POD = Kind("v1", "Pod", "pods")
SERVICE = Kind("v1", "Service", "services")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
NODE = Kind("v1", "Node", "nodes", namespaced=False)
ROLE_BINDING = Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
EVENT = Kind("v1", "Event", "events")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")

KINDS = (
    INFERENCE_SERVICE,
    BENCHMARK,
    BASELINE,
    DEPLOYMENT,
    CONTROLLER_REVISION,
    JOB,
    POD,
    SERVICE,
    CONFIG_MAP,
    SERVICE_ACCOUNT,
    NODE,
    ROLE_BINDING,
    EVENT,
    LEASE,
)
_BY_NAME = {(kind.api_version, kind.name): kind for kind in KINDS}


def kind_of(obj: Mapping[str, Any]) -> Kind:
    """The kind of `obj`, from its `apiVersion` and `kind`.

    Raises:
        KeyError: not a kind that the operator handles.
    """
    return _BY_NAME[obj["apiVersion"], obj["kind"]]
