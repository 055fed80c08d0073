"""End-to-end tests: the local cluster that `make cluster-up` has started, with real vLLM."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from e2e.cluster.layout import REPOSITORY
from e2e.demo.kube import Kube

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def kube() -> Kube:
    """The cluster, in the demo's namespace."""
    return Kube.of("tailguard-demo")


@pytest.fixture(scope="session")
def tailguard(kube: Kube) -> Run:
    """Runs the `tailguard` command against the cluster, in the demo's namespace."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(REPOSITORY / "build/venv/bin/tailguard"), *arguments, "-n", kube.namespace]
        environment = {**os.environ, "KUBECONFIG": str(kube.kubeconfig), "COLUMNS": "120"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture(scope="session")
def demo() -> subprocess.CompletedProcess[bytes]:
    """`make demo`, played once for all tests that look at what it left."""
    return subprocess.run([sys.executable, "-m", "e2e.demo"], cwd=REPOSITORY, timeout=2700)
