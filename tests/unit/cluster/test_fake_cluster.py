"""The fake keeps the promises that the operator relies on; the same are checked on a real API server elsewhere."""

import pytest
from fake_cluster import FakeCluster

from tailguard_operator.cluster.errors import AlreadyExists, Conflict, Invalid, NotFound
from tailguard_operator.cluster.kinds import BENCHMARK, CONFIG_MAP, DEPLOYMENT, INFERENCE_SERVICE, Object


def deployment(replicas: int = 1, **metadata: object) -> Object:
    return DEPLOYMENT.partial("default", "d", **metadata) | {"spec": {"replicas": replicas}}


async def test_an_older_version_is_a_conflict_and_no_change_is_no_new_version() -> None:
    # Given an object and its version
    cluster = FakeCluster()
    first = await cluster.create(deployment())
    version = first["metadata"]["resourceVersion"]
    # When it is applied unchanged, the version stays
    same = await cluster.apply(deployment(resourceVersion=version))
    assert same["metadata"]["resourceVersion"] == version
    # When it is changed, version and generation grow
    changed = await cluster.apply(deployment(2, resourceVersion=version))
    assert changed["metadata"]["generation"] == 2
    # Then the old version is refused
    with pytest.raises(Conflict):
        await cluster.apply(deployment(3, resourceVersion=version))
    assert cluster.one(DEPLOYMENT, "d")["spec"]["replicas"] == 2


async def test_status_and_object_are_written_apart() -> None:
    # Given a service with a status
    cluster = FakeCluster()
    head = INFERENCE_SERVICE.partial("default", "chat")
    await cluster.create(head | {"spec": {"a": 1}, "status": {"ignored": True}})
    assert "status" not in cluster.one(INFERENCE_SERVICE, "chat")
    # When the status is applied together with a spec
    stored = await cluster.apply_status(head | {"spec": {"a": 2}, "status": {"b": 1}})
    # Then only the status changes, and no generation passes
    assert (stored["spec"], stored["status"], stored["metadata"]["generation"]) == ({"a": 1}, {"b": 1}, 1)


async def test_a_field_left_out_of_an_apply_is_given_up_unless_somebody_else_wrote_it() -> None:
    # Given a status with a condition of ours and one of somebody else
    cluster = FakeCluster()
    head = INFERENCE_SERVICE.partial("default", "chat")
    await cluster.create(head)
    cluster.set_status(INFERENCE_SERVICE, "default", "chat", {"conditions": [{"type": "Theirs", "status": "True"}]})
    ours = [{"type": "Ready", "status": "True"}, {"type": "Stalled", "status": "True"}]
    await cluster.apply_status(head | {"status": {"verdict": "PROMOTE", "conditions": ours}})
    # When a later apply leaves out a field and a condition
    stored = await cluster.apply_status(head | {"status": {"conditions": ours[:1]}})
    # Then those are gone, and the other's stays
    assert "verdict" not in stored["status"]
    assert [c["type"] for c in stored["status"]["conditions"]] == ["Theirs", "Ready"]


async def test_create_touches_nothing_that_is_there_and_delete_honours_its_preconditions() -> None:
    # Given an object
    cluster = FakeCluster()
    meta = (await cluster.create(deployment()))["metadata"]
    # Then it is not created again
    with pytest.raises(AlreadyExists):
        await cluster.create(deployment(5))
    # And not deleted under another uid or version
    for uid, version in (("other", meta["resourceVersion"]), (meta["uid"], "0")):
        with pytest.raises(Conflict):
            await cluster.delete(DEPLOYMENT, "default", "d", uid, version)
    await cluster.delete(DEPLOYMENT, "default", "d", meta["uid"], meta["resourceVersion"])
    with pytest.raises(NotFound):
        await cluster.get(DEPLOYMENT, "default", "d")


async def test_dependents_go_with_their_owner_and_immutable_maps_stay_as_they_are() -> None:
    # Given a Benchmark with stored samples
    cluster = FakeCluster()
    owner = await cluster.create(BENCHMARK.partial("default", "b"))
    reference = {"kind": "Benchmark", "name": "b", "uid": owner["metadata"]["uid"]}
    samples = CONFIG_MAP.partial("default", "b-0", ownerReferences=[reference]) | {
        "immutable": True,
        "data": {"a": "1"},
    }
    await cluster.create(samples)
    # Then they cannot be changed
    with pytest.raises(Invalid):
        await cluster.apply(samples | {"data": {"a": "2"}})
    # And they go with it
    cluster.remove(BENCHMARK, "default", "b")
    assert cluster.of(CONFIG_MAP) == []
