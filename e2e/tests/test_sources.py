"""A model from a PersistentVolumeClaim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.cluster import engine
from e2e.cluster.layout import State, cache_folder
from e2e.tests.scenario import Object, Scenario

pytestmark = pytest.mark.e2e

CLAIM = "weights"


@pytest.fixture
def claim(s: Scenario, local: State) -> Iterator[str]:
    """A claim of the service's namespace that holds the demo's tiny model."""
    base = cache_folder()
    volume = _volume(s.namespace, engine.model(base, engine.vllm_python(base), engine.VARIANTS[0]))
    s.kube.apply(volume, _claim(volume["metadata"]["name"]))
    yield CLAIM
    s.kube.kubectl("delete", "persistentvolume", volume["metadata"]["name"], "--wait=false")


def test_a_model_on_a_claim_is_served(s: Scenario, claim: str) -> None:
    """R-172: the model and how it is loaded are part of the revision, whatever it is read from."""
    # When
    s.when_applied(f"pvc://{claim}").then_ready()
    # Then
    (model,) = s.ask("/v1/models")["data"]
    assert model["id"] == s.name
    (revision,) = s.owned("controllerrevisions")
    assert revision["data"]["manifest"]["model"] == f"pvc://{claim}"
    (pod,) = s.pods("serving")
    mounts = [v["persistentVolumeClaim"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v]
    assert mounts == [{"claimName": claim, "readOnly": True}]


def _volume(namespace: str, folder: Path) -> Object:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadOnlyMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "claimRef": {"namespace": namespace, "name": CLAIM},
        "hostPath": {"path": str(folder), "type": "Directory"},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{CLAIM}"},
        "spec": spec,
    }


def _claim(volume: str) -> Object:
    spec = {
        "accessModes": ["ReadOnlyMany"],
        "storageClassName": "",
        "volumeName": volume,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM}, "spec": spec}
