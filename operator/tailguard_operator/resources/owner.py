"""Who owns a child: names, labels and the owner reference that all children share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailguard_operator.api.base import API_VERSION, GROUP

SERVICE_LABEL = f"{GROUP}/service"
REVISION_LABEL = f"{GROUP}/revision"
ROLE_LABEL = f"{GROUP}/role"
SLOT_LABEL = f"{GROUP}/slot"
BENCHMARK_LABEL = f"{GROUP}/benchmark"
MANAGER_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "tailguard"


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that its children go with; a Benchmark owns its Jobs and samples, the service owns all else."""

    name: str
    namespace: str
    uid: str
    kind: str = "InferenceService"

    def reference(self) -> dict[str, Any]:
        """The controlling owner reference."""
        return {
            "apiVersion": API_VERSION,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def metadata(self, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """Metadata of the child `name` with `labels` and the label that tells who manages it."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": {MANAGER_LABEL: MANAGER, **labels},
            "ownerReferences": [self.reference()],
        }
