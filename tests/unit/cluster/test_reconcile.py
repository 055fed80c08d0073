"""One pass over a fake API server, with the real planning and the real builders."""

import pytest
from fake_cluster import FakeCluster, add_node
from operator_rig import KEY, Rig, make_installation, service

from tailguard_operator.cluster.errors import Conflict, NotLeader
from tailguard_operator.cluster.fence import FencedCluster
from tailguard_operator.cluster.kinds import (
    BENCHMARK,
    CONTROLLER_REVISION,
    DEPLOYMENT,
    EVENT,
    INFERENCE_SERVICE,
    SERVICE,
    Object,
)
from tailguard_operator.resources.revision import Pins


async def stable(rig: Rig) -> Rig:
    """The rig after its first revision has come to serve."""
    await rig.reconcile(2)
    rig.run_pods()
    await rig.reconcile(2)
    return rig


async def test_three_lines_become_a_ready_service(rig: Rig) -> None:
    """R-093: a service with only model.uri is all that is needed."""
    # Given a three-line service that was just applied
    # When it is reconciled and its pod becomes Ready
    await stable(rig)
    # Then its Service selects the one revision, whose pod serves
    (deployment,) = [d for d in rig.cluster.of(DEPLOYMENT) if "serving" in d["metadata"]["name"]]
    selector = rig.cluster.one(SERVICE, "chat")["spec"]["selector"]
    assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert rig.condition("Ready")["status"] == "True"


async def test_status_is_written_before_anything_that_it_speaks_of(rig: Rig) -> None:
    # When a service is reconciled for the first time
    await rig.reconcile(2)
    # Then the first write after the rendered revision is the status; the Deployment follows it
    log = rig.cluster.log()
    assert log.index("apply_status InferenceService/chat") < next(i for i, w in enumerate(log) if "Deployment" in w)


async def test_planning_what_was_just_applied_writes_nothing(rig: Rig) -> None:
    # Given a service at rest
    await stable(rig)
    rig.run_pods()
    await rig.reconcile(4)
    before = len(rig.cluster.writes)
    # When it is reconciled again, by an operator that remembers nothing
    await rig.reconcile(3)
    # Then nothing is written
    assert rig.cluster.log()[before:] == []


async def test_a_child_that_was_deleted_or_edited_by_hand_is_put_right(rig: Rig) -> None:
    # Given a service at rest
    await stable(rig)
    name = next(d["metadata"]["name"] for d in rig.cluster.of(DEPLOYMENT) if "serving" in d["metadata"]["name"])

    def meddle(obj: Object) -> None:
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = "other:1"
        obj["spec"]["replicas"] = 5

    # When somebody edits the Deployment and deletes the Service
    rig.cluster.edit(DEPLOYMENT, "default", name, meddle)
    rig.cluster.remove(SERVICE, "default", "chat")
    await rig.reconcile()
    # Then both are as they should be
    spec = rig.cluster.one(DEPLOYMENT, name)["spec"]
    assert spec["replicas"] == 1
    assert spec["template"]["spec"]["containers"][0]["image"].startswith("local/vllm@")
    assert rig.cluster.one(SERVICE, "chat")["spec"]["selector"]


async def test_an_upgraded_builder_restarts_no_pod_but_still_scales(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given pods that an older operator made
    await stable(rig)
    (deployment,) = [d for d in rig.cluster.of(DEPLOYMENT) if "serving" in d["metadata"]["name"]]
    template, name = deployment["spec"]["template"], deployment["metadata"]["name"]
    # When a new operator adds a label to every pod, and the user scales
    from tailguard_operator.resources import pools

    original = pools.pool_labels
    monkeypatch.setattr(pools, "pool_labels", lambda *a: original(*a) | {"new": "label"})
    rig.cluster.edit(INFERENCE_SERVICE, "default", "chat", lambda o: o["spec"].update(replicas=2))
    try:
        await rig.reconcile()
    finally:
        live = rig.cluster.one(DEPLOYMENT, name)["spec"]
    # Then the template is as it was, and the size is new
    assert live["template"] == template
    assert live["replicas"] == 2


async def test_what_belongs_to_somebody_else_is_never_touched(cluster: FakeCluster) -> None:
    # Given a Service of the same name that a user made
    theirs = SERVICE.partial("default", "chat") | {"spec": {"selector": {"app": "theirs"}}}
    cluster.put(theirs)
    cluster.put(service())
    rig = Rig(cluster)
    # When the service is reconciled
    await rig.reconcile(3)
    # Then it says whose it is, and starts nothing
    condition = rig.condition("Stalled")
    assert condition["status"] == "True"
    assert "Service default/chat exists and belongs to nobody" in condition["message"]
    assert cluster.one(SERVICE, "chat")["spec"] == theirs["spec"]
    assert cluster.of(DEPLOYMENT) == []


async def test_a_foreign_object_in_the_way_is_told_before_the_status_claims_anything(rig: Rig) -> None:
    # Given somebody's Deployment under the very name that ours would have
    await rig.reconcile()
    (revision,) = rig.cluster.of(CONTROLLER_REVISION)
    for deployment in rig.cluster.of(DEPLOYMENT):
        rig.cluster.remove(DEPLOYMENT, "default", deployment["metadata"]["name"])
    name = f"{revision['metadata']['name']}-serving-0"
    rig.cluster.put(DEPLOYMENT.partial("default", name) | {"spec": {"replicas": 9}})
    # When the service is reconciled twice
    result = await rig.reconcile()
    writes = len(rig.cluster.writes)
    await rig.reconcile()
    # Then the condition names it, it is untouched, and the status does not flap
    assert f"Deployment default/{name} exists" in rig.condition("Stalled")["message"]
    assert rig.cluster.one(DEPLOYMENT, name)["spec"]["replicas"] == 9
    assert rig.cluster.log()[writes:] == []
    assert result.requeue_after is not None and result.requeue_after <= 30


async def test_a_change_under_way_makes_the_write_a_conflict(rig: Rig) -> None:
    # Given a user who edits the service between our read and our write
    def edit(verb: str, body: Object) -> None:
        if verb == "apply_status":
            rig.cluster.before_write = lambda *_: None
            rig.cluster.edit(INFERENCE_SERVICE, "default", "chat", lambda o: o["spec"].update(replicas=3))

    rig.cluster.before_write = edit
    # When it is reconciled, the pass ends with nothing made
    with pytest.raises(Conflict):
        await rig.reconcile()
    assert rig.cluster.of(DEPLOYMENT) == []
    # Then the next pass plans from what is there now
    await rig.reconcile()
    assert rig.cluster.of(DEPLOYMENT)[0]["spec"]["replicas"] == 3


async def test_a_broken_spec_keeps_the_service_alive_and_names_the_field(rig: Rig) -> None:
    # Given a service that serves
    await stable(rig)
    # When its spec gets a flag that does not exist
    rig.cluster.edit(
        INFERENCE_SERVICE, "default", "chat", lambda o: o["spec"].update(engine={"args": ["--max-num-seq=3"]})
    )
    await rig.reconcile(2)
    # Then the nearest flag is named, and the pods that serve stay
    assert "--max-num-seqs" in rig.condition("Stalled")["message"]
    assert [d["spec"]["replicas"] for d in rig.cluster.of(DEPLOYMENT) if "serving" in d["metadata"]["name"]] == [1]
    # And when the spec is not even readable, the same holds
    rig.cluster.edit(INFERENCE_SERVICE, "default", "chat", lambda o: o["spec"].update(engine={"args": 3}, replicas=2))
    await rig.reconcile(2)
    assert "spec.engine.args" in rig.condition("Stalled")["message"]
    assert [d["spec"]["replicas"] for d in rig.cluster.of(DEPLOYMENT) if "serving" in d["metadata"]["name"]] == [2]


async def test_the_first_ready_pods_image_is_remembered_for_a_tag(cluster: FakeCluster) -> None:
    # Given a profile whose image is a tag that no registry could resolve
    cluster.put(service())
    rig = Rig(cluster, make_installation(image="local/vllm:latest"))
    # When its first pod is Ready
    await stable(rig)
    # Then status remembers which image that was
    (image,) = cluster.of(INFERENCE_SERVICE)[0]["status"]["images"].values()
    assert image.startswith("local/vllm@sha256:")


async def test_what_the_registry_said_is_rendered_for_good(cluster: FakeCluster) -> None:
    # Given a registry that resolves the tag
    cluster.put(service())
    rig = Rig(cluster, make_installation(image="local/vllm:latest"), pins=Pins(image_digest=f"sha256:{'a' * 64}"))
    # When the revision is rendered
    await rig.reconcile(2)
    # Then its pods run that digest
    (deployment,) = cluster.of(DEPLOYMENT)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == f"local/vllm:latest@sha256:{'a' * 64}"


async def test_a_service_that_is_gone_or_going_is_left_alone(rig: Rig) -> None:
    # Given a service in deletion
    rig.cluster.edit(INFERENCE_SERVICE, "default", "chat", lambda o: o["metadata"].update(deletionTimestamp="2026"))
    # When it is reconciled, and again after it is gone
    await rig.reconcile()
    rig.cluster.remove(INFERENCE_SERVICE, "default", "chat")
    result = await rig.reconcile()
    # Then nothing was written and nothing is due
    assert rig.cluster.writes == []
    assert result.requeue_after is None


async def test_users_moves_are_told_in_events_once(rig: Rig) -> None:
    # Given a service that has come to serve
    await stable(rig)
    await rig.reconcile(3)
    # Then each of its steps was told once
    reasons = [e["reason"] for e in rig.cluster.of(EVENT)]
    assert {"Starting", "Serving"} <= set(reasons)
    assert len(reasons) == len(set(reasons))


async def test_a_step_is_told_even_when_its_objects_are_overtaken(rig: Rig) -> None:
    # Given a Deployment that cannot be made at first
    def overtaken(verb: str, body: Object) -> None:
        if body["kind"] == "Deployment":
            raise Conflict(verb, 409, "modified")

    rig.cluster.before_write = overtaken
    # When the pass that has written the status ends in a conflict, and the next one goes through
    with pytest.raises(Conflict):
        await rig.reconcile()
    rig.cluster.before_write = lambda *_: None
    await rig.reconcile()
    # Then the step was told all the same, once
    assert [e["reason"] for e in rig.cluster.of(EVENT)] == ["Starting"]


async def test_nothing_is_written_without_the_lease(rig: Rig) -> None:
    # Given a process that has lost the Lease
    def refuse() -> None:
        raise NotLeader("paused for too long")

    fenced = Rig(FencedCluster(rig.cluster, refuse))  # type: ignore[arg-type]
    # When it wakes in the middle of its work
    with pytest.raises(NotLeader):
        await fenced.reconciler().reconcile(KEY)
    # Then no request has left it that changes anything
    assert rig.cluster.writes == []


async def test_a_freeze_starts_a_pair_and_then_its_benchmark_and_job(rig: Rig) -> None:
    # Given a service that serves, with room on its node
    await stable(rig)
    rig.run_pods()
    # When the freeze goes on
    await rig.reconcile()
    rig.run_pods()
    await rig.reconcile(3)
    # Then its Benchmark exists, and the Job is made last: account, plan, Job
    (benchmark,) = rig.cluster.of(BENCHMARK)
    assert benchmark["spec"]["purpose"] == "Baseline"
    made = [w.split("/")[0] for w in rig.cluster.log() if w.startswith("create")]
    assert made[-4:] == ["create ServiceAccount", "create RoleBinding", "create ConfigMap", "create Job"] or made[
        -5:-1
    ] == ["create ServiceAccount", "create RoleBinding", "create ConfigMap", "create Job"]


async def test_a_lost_node_is_a_disruption_and_its_facts_are_the_environment(rig: Rig) -> None:
    # Given a service that serves
    await stable(rig)
    seen = await rig.observe()
    assert seen.world.environment["kernel"] == "6.1.0"
    # When its node is not Ready any more
    rig.cluster.remove(*(_node()))
    add_node(rig.cluster, ready="Unknown")
    # Then its pods are disrupted, which is never their own fault
    seen = await rig.observe()
    assert all(p.disrupted.startswith("NodeNotReady") and p.failure is None for p in seen.world.pods)


def _node() -> tuple[object, None, str]:
    from tailguard_operator.cluster.kinds import NODE

    return NODE, None, "node-1"
