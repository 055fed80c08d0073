"""The control plane for the whole run; a namespace, a node and an operator's process for each test."""

import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# The harness is shared by these tests only and e2e/cluster is no installed package, so both are found by path.
sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

from harness.api import Api
from harness.binaries import control_plane_binaries
from harness.control_plane import ControlPlane, wait_for_controllers
from harness.dsl import Scenario
from harness.fake_kubelet import FakeKubelet
from harness.operator_process import Nursery, Operator, installation_file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the control plane."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and {"control_plane", "api"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real etcd, kube-apiserver and kube-controller-manager; without their programs the tests fail and say why."""
    try:
        binaries = control_plane_binaries()
    except RuntimeError as error:
        pytest.fail(f"the integration tests need a real control plane: {error}", pytrace=False)
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"), binaries)
    try:
        wait_for_controllers(plane.api)
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def api(control_plane: ControlPlane) -> Api:
    """The administrator's client."""
    return control_plane.api


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Where operators are forked from."""
    nursery = Nursery(tmp_path_factory.mktemp("nursery"))
    yield nursery
    nursery.stop()


@pytest.fixture
def new_scenario(control_plane: ControlPlane, nursery: Nursery, tmp_path: Path) -> Iterator[Callable[[], Scenario]]:
    """Makes scenarios, each in a namespace of its own; everything they started ends with the test."""
    made: list[Scenario] = []

    def make() -> Scenario:
        scenario = _scenario(control_plane, nursery, tmp_path)
        made.append(scenario)
        return scenario

    yield make
    for scenario in made:
        scenario.stop()


@pytest.fixture
def s(new_scenario: Callable[[], Scenario]) -> Scenario:
    """The test's scenario."""
    return new_scenario()


def _scenario(control_plane: ControlPlane, nursery: Nursery, tmp_path: Path) -> Scenario:
    namespace = f"t-{uuid.uuid4().hex[:10]}"
    control_plane.api.create("Namespace", "", {"metadata": {"name": namespace}})
    folder = tmp_path / namespace
    folder.mkdir()
    kubelet = FakeKubelet(control_plane.api, namespace)
    kubelet.start()
    operator = Operator(nursery, control_plane, namespace, folder, installation_file(folder, namespace))
    return Scenario(control_plane.api, namespace, kubelet, operator)
