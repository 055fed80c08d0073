"""Children that somebody else touches: ours are repaired, others' are never adopted."""

from harness.behaviour import REVISION_LABEL
from harness.dsl import BASE, FASTER, MODEL, Scenario, uids


def _stable_deployment(s: Scenario) -> str:
    (found,) = s.owned("Deployment")
    return str(found["metadata"]["name"])


def test_a_deleted_deployment_comes_back(s: Scenario) -> None:
    # Given
    s.given_stable().then("only the serving pool is left", lambda s: len(s.owned("Deployment")) == 1)
    name, before = _stable_deployment(s), uids(s.owned("Deployment"))

    # When
    s.api.delete("Deployment", s.namespace, name)

    # Then
    s.then("a new one is there", lambda s: (found := uids(s.owned("Deployment"))) and found.isdisjoint(before))
    s.then("users are served", lambda s: s.serves(BASE)).then_condition("Ready", "True")


def test_an_edit_by_hand_is_undone(s: Scenario) -> None:
    # Given
    s.given_stable().then("only the serving pool is left", lambda s: len(s.owned("Deployment")) == 1)
    name, served = _stable_deployment(s), uids(s.users_pods())

    # When
    s.api.patch("Deployment", s.namespace, name, {"spec": {"replicas": 3}})
    s.api.patch("Service", s.namespace, s.name, {"spec": {"selector": {REVISION_LABEL: "nowhere"}}})

    # Then
    s.then("users are back on their pods", lambda s: uids(s.users_pods()) == served, seconds=10)

    def size(s: Scenario) -> int:
        found = s.api.get("Deployment", s.namespace, name)
        return int(found["spec"]["replicas"]) if found else 0

    s.then("one replica again", lambda s: size(s) == 1)


def test_a_deleted_service_comes_back(s: Scenario) -> None:
    # Given
    s.given_stable()

    # When
    s.api.delete("Service", s.namespace, s.name)

    # Then
    s.then("users are served again", lambda s: s.serves(BASE))


def test_a_foreign_service_of_our_name_is_never_adopted(s: Scenario) -> None:
    """Two want the same child: the status names the conflict, the foreign Service stays as it is, others go on."""
    # Given
    spec = {"selector": {"app": "somebody-elses"}, "ports": [{"port": 80}]}
    s.api.create("Service", s.namespace, {"metadata": {"name": s.name}, "spec": spec})
    before = s.users_service()

    # When
    s.given_operator().when_applied(BASE)
    s.api.create("InferenceService", s.namespace, {"metadata": {"name": "other"}, "spec": {"model": {"uri": MODEL}}})

    # Then
    s.then_condition("Ready", "False", message=f"Service {s.namespace}/{s.name} exists")
    s.then("the other one serves", lambda s: s.api.get("Service", s.namespace, "other"))
    assert s.users_service() == before

    # When
    s.api.delete("Service", s.namespace, s.name)
    s.when_annotated("look", "again")

    # Then
    s.then_condition("Ready", "True").then("users are served", lambda s: s.serves(BASE))


def test_a_child_that_is_deleted_in_the_middle_of_a_rollout_does_not_change_its_end(s: Scenario) -> None:
    # Given
    s.given_stable().given_measuring_paused().when_applied(FASTER).then_state("Benchmark")
    (twin,) = [d for d in s.owned("Deployment") if d["metadata"]["labels"]["tailguard.dev/role"] == "twin"]

    # When
    s.api.delete("Deployment", s.namespace, twin["metadata"]["name"])
    s.when_measuring_goes_on()

    # Then
    s.then_state("Kept")
    assert s.serves(FASTER)
    assert s.rollout["disruptions"] == 1
