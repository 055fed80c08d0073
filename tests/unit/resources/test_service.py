"""The Service that users reach."""

from tailguard_operator.resources.owner import Owner
from tailguard_operator.resources.service import user_service

OWNER = Owner("chat", "team-a", "uid-1")


def test_it_selects_the_serving_pods_of_one_revision() -> None:
    # When
    service = user_service(OWNER, "1a2b3c4d")
    # Then
    assert service["spec"]["selector"] == {
        "tailguard.dev/service": "chat",
        "tailguard.dev/revision": "1a2b3c4d",
        "tailguard.dev/role": "serving",
    }


def test_port_80_leads_to_the_engine_and_nothing_leads_to_the_probes() -> None:
    ports = user_service(OWNER, "r")["spec"]["ports"]
    assert ports == [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]


def test_it_goes_with_its_owner() -> None:
    metadata = user_service(OWNER, "r")["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("chat", "team-a")
    assert metadata["labels"] == {"app.kubernetes.io/managed-by": "tailguard", "tailguard.dev/service": "chat"}
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "tailguard.dev/v1alpha1",
            "kind": "InferenceService",
            "name": "chat",
            "uid": "uid-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_a_move_of_users_changes_the_selector_and_nothing_else() -> None:
    before, after = user_service(OWNER, "old"), user_service(OWNER, "new")
    after["spec"]["selector"]["tailguard.dev/revision"] = "old"
    assert before == after
