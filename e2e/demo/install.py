"""Installs the operator with Helm: `python -m e2e.demo.install`."""

from __future__ import annotations

import os

from e2e.cluster.layout import REPOSITORY, State
from e2e.demo.kube import Kube

RELEASE = "tailguard"
NAMESPACE = "tailguard-system"


def install(kube: Kube) -> None:
    """Installs or upgrades the chart and waits until the operator is Ready."""
    arguments = ["upgrade", "--install", RELEASE, str(REPOSITORY / "charts" / "tailguard"), "--namespace", NAMESPACE]
    own = [] if os.environ.get("KUBECONTEXT") else ["--values", str(State().values)]
    kube.helm(*arguments, "--create-namespace", *own, "--wait", "--timeout", "180s")


if __name__ == "__main__":
    install(Kube.of(NAMESPACE))
    print("the operator is installed")
