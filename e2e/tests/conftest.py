"""End-to-end tests: the local cluster that `make cluster-up` has started, with real vLLM."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator

import pytest
from e2e.cluster.layout import REPOSITORY, State
from e2e.demo.install import NAMESPACE as SYSTEM
from e2e.demo.install import install
from e2e.demo.kube import Kube, KubeError
from e2e.tests.scenario import Scenario

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
    return subprocess.run([sys.executable, "-m", "e2e.demo"], cwd=REPOSITORY, timeout=4200)


@pytest.fixture(scope="session")
def operator() -> None:
    """The operator is installed."""
    install(Kube.of(SYSTEM))


@pytest.fixture(scope="module")
def s(operator: None, request: pytest.FixtureRequest) -> Iterator[Scenario]:
    """One service in a fresh namespace, the same for all tests of a module, which tell one story."""
    story = request.module.__name__.rpartition(".")[2].removeprefix("test_").replace("_", "-")
    kube = Kube.of(f"tailguard-e2e-{story}")
    _remove(kube)
    kube.kubectl("create", "namespace", kube.namespace)
    yield Scenario(kube)
    _remove(kube)


@pytest.fixture(scope="session")
def local() -> State:
    """The local cluster's own state; for what cannot be done to a cluster of the user's."""
    if os.environ.get("KUBECONTEXT"):
        pytest.skip("KUBECONTEXT names a cluster of your own, whose node this test would have to touch")
    return State()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to a failed test what its cluster shows."""
    report = yield
    scenario = item.funcargs.get("s") if isinstance(item, pytest.Function) else None
    if report.when == "call" and report.failed and isinstance(scenario, Scenario):
        report.sections.append(("cluster", scenario.picture()))
    return report


def _remove(kube: Kube) -> None:
    """The namespace is gone; engines that nobody uses any more need not drain."""
    if kube.get("namespace", kube.namespace) is None:
        return
    kube.kubectl("delete", "inferenceservices,deployments,replicasets,jobs", "--all")
    kube.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    try:
        kube.kubectl("delete", "namespace", kube.namespace, "--timeout=240s")
    except KubeError as error:
        raise KubeError(f"namespace {kube.namespace} does not go away: {error}") from error
