"""What happens to a service in its life while users are served: hands, scaling, evictions, restarts, upgrades.

One service for all of it; the first tests meet it while its Baseline is frozen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.cluster.layout import REPOSITORY, State
from e2e.cluster.restart import restart_api_server
from e2e.demo.install import NAMESPACE as SYSTEM
from e2e.demo.install import RELEASE, install
from e2e.tests.scenario import DEMO_LOAD, FREEZE, REVISION_LABEL, SHORT, Object, Scenario, engine, restarts, uids

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def served(s: Scenario) -> Scenario:
    """The service is Ready, and its Baseline is being frozen."""
    s.load = DEMO_LOAD
    return s.when_applied().then_ready().then("the A/A pair starts", lambda s: {"aa-a", "aa-b"} <= set(s.sizes()))


@pytest.fixture
def two_operators(s: Scenario) -> Iterator[Scenario]:
    """A second operator of the same installation runs beside the first."""
    s.system.kubectl("scale", f"deployment/{RELEASE}", "--replicas=2")
    s.system.kubectl("rollout", "status", f"deployment/{RELEASE}", "--timeout=90s")
    yield s
    s.system.kubectl("scale", f"deployment/{RELEASE}", "--replicas=1")


def test_a_child_deleted_by_hand_comes_back(served: Scenario) -> None:
    # Given
    s = served
    (child,) = s.deployments("aa-b")
    # When
    s.kube.kubectl("delete", "deployment", child["metadata"]["name"], "--wait=false")
    # Then
    s.then("another one is there", lambda s: (found := uids(s.deployments("aa-b"))) and uids([child]) != found)


def test_a_child_edited_by_hand_is_put_right_and_the_serving_pod_stays(served: Scenario) -> None:
    # Given
    s = served
    (child,), (pod,) = s.deployments(), s.pods("serving")
    name, revision = child["metadata"]["name"], s.selected()
    # When
    s.kube.kubectl("set", "env", f"deployment/{name}", "--containers=engine", "OMP_NUM_THREADS=7")
    s.kube.kubectl("patch", "service", s.name, "-p", json.dumps({"spec": {"selector": {REVISION_LABEL: "nowhere"}}}))

    def restored(s: Scenario) -> bool:
        (now,) = s.deployments()
        return engine(now["spec"]["template"]) == engine(child["spec"]["template"]) and s.selected() == revision

    # Then
    s.then("flags and route are the stable revision's", restored)
    s.then("only the same pod serves", lambda s: uids(s.pods("serving")) == uids([pod])).then_ready()


def test_scaling_in_the_middle_changes_the_stable_pool_only(served: Scenario) -> None:
    """`kubectl scale`, and a write to /scale as an autoscaler makes it."""
    # Given
    s = served
    before = s.then("all pools are there", lambda s: set(s.sizes()) == {"serving", "aa-a", "aa-b"}).sizes()
    # When
    s.kube.kubectl("scale", "inferenceservice", s.name, "--replicas=2")
    # Then
    s.then("two serving pods are wanted", lambda s: s.sizes() == before | {"serving": 2})
    s.then("/scale says so", lambda s: _scale(s)["status"]["replicas"] == 2)
    # When
    patch = json.dumps({"spec": {"replicas": 1}})
    s.kube.kubectl("patch", "inferenceservice", s.name, "--subresource=scale", "--type=merge", "-p", patch)
    # Then
    s.then("one is wanted", lambda s: s.sizes() == before == {"serving": 1, "aa-a": 1, "aa-b": 1})
    selected = s.kube.list("pods", _scale(s)["status"]["selector"])
    assert uids(s.pods("serving")) <= uids(selected)


def test_a_benchmark_pod_evicted_half_way_goes_on_at_the_next_number(served: Scenario) -> None:
    # Given
    s = _measuring(served, slots=2)
    benchmark = s.status["freeze"]["benchmark"]
    (pod,) = s.kube.list("pods", f"batch.kubernetes.io/job-name={benchmark}-j0")
    name = pod["metadata"]["name"]
    # When
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": s.namespace}}
    path = f"/api/v1/namespaces/{s.namespace}/pods/{name}/eviction"
    s.kube.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    # Then
    stored = s.then("the next Job", lambda s: s.kube.get("job", f"{benchmark}-j1"), 2 * SHORT).slots(benchmark)
    s.then("it goes on", lambda s: len(s.slots(benchmark)) > len(stored), 3 * SHORT)
    numbers = s.slots(benchmark)
    assert numbers == [*range(len(numbers))]
    assert s.status["freeze"]["benchmark"] == benchmark


def test_an_api_server_restarted_in_the_middle_costs_nothing_that_was_measured(served: Scenario, local: State) -> None:
    # Given
    s = _measuring(served, slots=1)
    freeze, engines = s.status["freeze"], s.pods()
    stored = s.slots(freeze["benchmark"])
    # When
    restart_api_server(local)
    # Then
    s.then("measuring goes on", lambda s: len(s.slots(freeze["benchmark"])) > len(stored), 2 * SHORT)
    now = s.status["freeze"]
    assert (now["benchmark"], now["job"], now["pair"]) == (freeze["benchmark"], freeze["job"], freeze["pair"])
    assert uids(s.pods()) == uids(engines) and not any(map(restarts, s.pods()))


def test_the_baseline_comes_from_slots_without_a_gap(served: Scenario) -> None:
    """R-016: a snapshot of a controlled measurement, whatever happened meanwhile."""
    # When
    s = served.then_baseline()
    # Then
    baseline = s.kube.get("baseline", s.status["baseline"]["name"]) or {}
    samples = baseline["spec"]["samples"]
    assert baseline["spec"]["calibration"] == "Measured"
    assert samples["slots"] >= 10 and len(samples["sha256"]) == samples["slots"]
    numbers = s.slots(samples["benchmark"])
    assert numbers == [*range(len(numbers))]
    s.then_ready()


def test_of_two_operators_one_works_and_the_other_takes_over(served: Scenario, two_operators: Scenario) -> None:
    # Given
    s = served.then_baseline()
    leader, running = s.leader(), uids(s.pods())
    s.then_stays("the same one leads", lambda s: s.leader() == leader, seconds=5)
    # When
    s.when_leader_dies()
    s.kube.kubectl("delete", "service", s.name)
    # Then
    s.then("users are led to the service again", lambda s: s.selected() == s.status["stable"]["revision"])
    assert uids(s.pods()) == running and s.leader() != leader


def test_an_upgraded_operator_restarts_no_pod_and_scales_with_the_old_rendering(
    served: Scenario, tmp_path: Path
) -> None:
    # Given
    s = served.then_baseline()
    (pod,), revisions = s.pods("serving"), uids(s.owned("controllerrevisions"))
    try:
        # When
        _upgrade(s, tmp_path, "--max-num-batched-tokens=512")
        # Then
        s.then_stays("pod and revision", lambda s: uids(s.pods()) == uids([pod]), seconds=15)
        assert s.rollout["state"] == "Stable" and uids(s.owned("controllerrevisions")) == revisions
        # When
        s.kube.kubectl("scale", "inferenceservice", s.name, "--replicas=2")
        # Then
        s.then("two pods serve", lambda s: s.status.get("readyReplicas") == 2, FREEZE)
        assert [engine(p)["args"] for p in s.pods("serving")] == 2 * [engine(pod)["args"]]
        assert not any(map(restarts, s.pods()))
    finally:
        install(s.system)


def _measuring(s: Scenario, slots: int) -> Scenario:
    """The freeze has stored so many slots and is not at its end."""

    def holds(s: Scenario) -> bool:
        freeze = s.status["freeze"]
        return bool(freeze.get("canaryPod")) and len(s.slots(freeze["benchmark"])) >= slots

    return s.then(f"{slots} slots of the freeze are stored", holds, FREEZE)


def _scale(s: Scenario) -> Object:
    path = f"/apis/tailguard.dev/v1alpha1/namespaces/{s.namespace}/inferenceservices/{s.name}/scale"
    found: Object = json.loads(s.kube.kubectl("get", "--raw", path))
    return found


def _upgrade(s: Scenario, folder: Path, flag: str) -> None:
    """`helm upgrade` with one more flag in the profile that the service uses."""
    values = json.loads(s.kube.helm("get", "values", RELEASE, "--namespace", SYSTEM, "--all", "-o", "json"))
    name = values["defaultProfile"]
    changed = folder / "values.yaml"
    changed.write_text(json.dumps({"engines": {name: {"args": [*values["engines"][name].get("args", []), flag]}}}))
    chart = str(REPOSITORY / "charts" / "tailguard")
    arguments = ["--namespace", SYSTEM, "--reuse-values", "--values", str(changed), "--wait", "--timeout", "180s"]
    s.kube.helm("upgrade", RELEASE, chart, *arguments)
