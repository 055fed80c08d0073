"""The user's client as a pod: started before the first change, asked for its counts at the end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.demo.install import NAMESPACE, RELEASE
from e2e.demo.kube import Kube

CLIENT = "client"
_SCRIPT = Path(__file__).with_name("client.py")


@dataclass(frozen=True)
class Counts:
    """Requests of the client so far."""

    sent: int
    failed: int
    problems: tuple[str, ...]


def start_client(kube: Kube, url: str, model: str) -> None:
    """Starts the client pod, with the image and mounts that the operator has."""
    values = json.loads(kube.helm("get", "values", RELEASE, "--namespace", NAMESPACE, "--all", "-o", "json"))
    script = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CLIENT},
        "data": {"client.py": _SCRIPT.read_text()},
    }
    kube.apply(script, _pod(values, url, model))
    kube.kubectl("wait", f"pod/{CLIENT}", "--for=condition=Ready", "--timeout=60s")


def counts(kube: Kube) -> Counts:
    """What the client has counted, with the problems that it met."""
    lines = [json.loads(line) for line in kube.kubectl("logs", CLIENT, "--tail=-1").splitlines() if line[:1] == "{"]
    if not lines:
        return Counts(0, 0, ())
    return Counts(lines[-1]["sent"], lines[-1]["failed"], tuple(row["problem"] for row in lines if row["problem"]))


def _pod(values: dict[str, Any], url: str, model: str) -> dict[str, Any]:
    command = [*(values.get("command") or ["python3"]), "/client/client.py", url, model]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": CLIENT},
        "spec": {
            "restartPolicy": "Never",
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 5,
            "containers": [
                {
                    "name": CLIENT,
                    "image": values["image"],
                    "imagePullPolicy": values.get("imagePullPolicy", "IfNotPresent"),
                    "command": command,
                    "env": values.get("env") or [],
                    "volumeMounts": [
                        *(values.get("volumeMounts") or []),
                        {"name": "client", "mountPath": "/client", "readOnly": True},
                    ],
                }
            ],
            "volumes": [*(values.get("volumes") or []), {"name": "client", "configMap": {"name": CLIENT}}],
        },
    }
