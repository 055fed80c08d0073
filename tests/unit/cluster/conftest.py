"""A cluster with one node, and the operator of one service on it."""

import pytest
from fake_cluster import FakeCluster, add_node
from operator_rig import START, Rig, service


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster(lambda: START)
    add_node(cluster)
    return cluster


@pytest.fixture
def rig(cluster: FakeCluster) -> Rig:
    """The operator of a three-line service that was just applied."""
    cluster.put(service())
    return Rig(cluster)
