"""The user changes their mind in the middle of a canary, and deletes the service in the middle of another."""

from __future__ import annotations

import pytest
from e2e.tests.scenario import FREEZE, START, Scenario, uids

pytestmark = pytest.mark.e2e

KINDS = (
    "deployments,replicasets,pods,services,jobs,configmaps,serviceaccounts,rolebindings,controllerrevisions,"
    "inferenceservices,benchmarks,baselines"
)
"""Everything that a service may leave in its namespace."""


def _change(sequences: int) -> dict[str, list[str]]:
    return {"args": [f"--max-num-seqs={sequences}"]}


def _arms(s: Scenario) -> int:
    """Pods of canary and twin, those on their way out too."""
    return len(s.roles()) - 1


def test_a_change_of_mind_replaces_the_arms_and_the_stable_spec_removes_them(s: Scenario) -> None:
    # Given
    s.when_applied().then_ready().then_baseline()
    users, stable = uids(s.pods("serving")), s.selected()
    s.when_applied(engine=_change(3)).then("canary and twin start", lambda s: _arms(s) == 2)
    dropped = s.rollout["revision"]
    # When
    s.when_applied(engine=_change(2))
    # Then
    s.then("another change is under way", lambda s: s.rollout["revision"] not in (dropped, stable))
    s.then("its arms start", lambda s: len(s.pods(revision=s.rollout["revision"])) == 1)
    s.then("the dropped canary is gone", lambda s: not s.pods(revision=dropped))
    # When
    s.when_applied()
    # Then
    s.then_state("Stable").then("only users' pods are left", lambda s: s.roles() == ["serving"], START)
    s.then_condition("RolloutComplete", "True")
    assert uids(s.pods()) == users and s.selected() == stable
    assert not s.status.get("remembered")


def test_a_service_deleted_in_the_middle_of_a_canary_leaves_nothing(s: Scenario) -> None:
    # Given
    s.when_applied().then_ready().then_baseline()
    s.when_applied(engine=_change(3)).then_state("Benchmark", FREEZE)
    benchmark = s.rollout["benchmark"]
    s.then("a slot is stored", lambda s: s.slots(benchmark), START)
    # When
    s.kube.kubectl("delete", "inferenceservice", s.name, "--wait=false")
    # Then
    s.then("nothing of it is left", lambda s: _left(s) == [], START)


def _left(s: Scenario) -> list[str]:
    """Objects in the namespace that Kubernetes has not put there itself."""
    found = s.kube.kubectl("get", KINDS, "-o", "name").split()
    return [name for name in found if name not in ("configmap/kube-root-ca.crt", "serviceaccount/default")]
