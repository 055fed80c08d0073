"""The Deployment of a pool: from stored data alone, so that an upgraded operator changes no pod."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_operator.api.service import InferenceServiceSpec
from tailguard_operator.plan.decision import Pool
from tailguard_operator.plan.world import PoolKey, Role
from tailguard_operator.resources.diff import differs
from tailguard_operator.resources.owner import Owner
from tailguard_operator.resources.pools import deployment, pool_name
from tailguard_operator.resources.profile import Installation
from tailguard_operator.resources.revision import Pins, Rendered, controller_revision, render

MakeSpec = Callable[..., InferenceServiceSpec]
SERVING = PoolKey("1a2b3c4d", Role.SERVING, 0)


@pytest.fixture
def rendered(make_spec: MakeSpec, installation: Installation) -> Rendered:
    return render("chat", make_spec(), installation, Pins(), None)


@pytest.fixture
def data(rendered: Rendered) -> dict[str, Any]:
    return rendered.data


def affinity(made: dict[str, Any]) -> Any:
    return made["spec"]["template"]["spec"].get("affinity")


def test_what_was_stored_rebuilds_the_same_deployment(rendered: Rendered, owner: Owner) -> None:
    """The operator upgraded across a changed builder: no pod restarts."""
    # Given
    pool = Pool(PoolKey(rendered.revision, Role.SERVING, 3), 2)
    stored = json.loads(json.dumps(controller_revision(owner, rendered)))
    # When
    made = deployment(owner, stored["data"], pool)
    # Then
    assert made == deployment(owner, rendered.data, pool)


def test_pods_are_the_stored_template_with_two_more_labels(data: dict[str, Any], owner: Owner) -> None:
    """A builder that adds anything else here would restart every pod at the operator's next upgrade."""
    # When
    template = deployment(owner, data, Pool(SERVING, 1))["spec"]["template"]
    # Then
    labels = template["metadata"]["labels"]
    assert labels.pop("tailguard.dev/role") == "serving"
    assert labels.pop("tailguard.dev/slot") == "0"
    labels["tailguard.dev/revision"] = data["template"]["metadata"]["labels"]["tailguard.dev/revision"]
    assert template == data["template"]


def test_data_of_another_schema_with_fields_unknown_today_builds_the_same_pods(
    data: dict[str, Any], owner: Owner
) -> None:
    old = {"startupSeconds": data["startupSeconds"], "template": data["template"]}
    assert deployment(owner, old, Pool(SERVING, 1)) == deployment(owner, data, Pool(SERVING, 1))


def test_stored_data_is_left_alone(data: dict[str, Any], owner: Owner) -> None:
    before = json.dumps(data)
    deployment(owner, data, Pool(SERVING, 1, avoid_nodes=("n1",)))
    assert json.dumps(data) == before


def test_its_selector_names_service_revision_role_and_slot(data: dict[str, Any], owner: Owner) -> None:
    # When
    made = deployment(owner, data, Pool(PoolKey("1a2b3c4d", Role.CONFIRM_TWIN, 12), 1))
    # Then
    selector = {
        "tailguard.dev/service": "chat",
        "tailguard.dev/revision": "1a2b3c4d",
        "tailguard.dev/role": "confirm-twin",
        "tailguard.dev/slot": "12",
    }
    assert made["spec"]["selector"] == {"matchLabels": selector}
    assert selector.items() <= made["spec"]["template"]["metadata"]["labels"].items()
    assert selector.items() <= made["metadata"]["labels"].items()


@given(
    st.lists(
        st.builds(PoolKey, st.sampled_from(["aaaaaaaa", "bbbbbbbb"]), st.sampled_from(Role), st.integers(0, 99)),
        unique=True,
    )
)
def test_no_two_pools_share_a_name_or_a_selector(keys: list[PoolKey]) -> None:
    data = {"startupSeconds": 1, "template": {"metadata": {"labels": {}}, "spec": {"containers": []}}}
    made = [deployment(Owner("chat", "d", "u"), data, Pool(key, 1)) for key in keys]
    assert len({m["metadata"]["name"] for m in made}) == len(keys)
    assert len({str(m["spec"]["selector"]) for m in made}) == len(keys)


def test_the_longest_name_fits() -> None:
    assert len(pool_name("s" * 36, PoolKey("1a2b3c4d", Role.CONFIRM_CANARY, 99))) == 63


@pytest.mark.parametrize("replicas", [0, 1, 7])
def test_replicas_are_given_at_apply(replicas: int, data: dict[str, Any], owner: Owner) -> None:
    assert deployment(owner, data, Pool(SERVING, replicas))["spec"]["replicas"] == replicas


def test_the_mover_is_noted_on_the_deployment_and_not_on_its_pods(data: dict[str, Any], owner: Owner) -> None:
    moved = deployment(owner, data, Pool(SERVING, 1, moved_by=7))
    still = deployment(owner, data, Pool(SERVING, 1))
    assert moved["metadata"]["annotations"] == {"tailguard.dev/mover": "7"}
    assert still["metadata"]["annotations"] == {}
    assert moved["spec"] == still["spec"]


def test_pods_that_run_are_not_replaced_before_new_ones_are_ready(data: dict[str, Any], owner: Owner) -> None:
    spec = deployment(owner, data, Pool(SERVING, 1))["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert spec["revisionHistoryLimit"] == 0


def test_the_progress_deadline_lies_beyond_the_longest_start(data: dict[str, Any], owner: Owner) -> None:
    spec = deployment(owner, data, Pool(SERVING, 1))["spec"]
    assert spec["progressDeadlineSeconds"] == data["startupSeconds"] + 120


def test_nodes_to_avoid_are_a_preference_for_every_other_node(data: dict[str, Any], owner: Owner) -> None:
    made = deployment(owner, data, Pool(SERVING, 1, avoid_nodes=("n2", "n1")))
    preferred = affinity(made)["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred == [
        {
            "weight": 100,
            "preference": {
                "matchFields": [
                    {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]},
                    {"key": "metadata.name", "operator": "NotIn", "values": ["n2"]},
                ]
            },
        }
    ]


def test_avoiding_nodes_keeps_the_affinity_that_the_user_wrote(
    make_spec: MakeSpec, installation: Installation, owner: Owner
) -> None:
    # Given
    wish = {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}}
    written = {
        "podAffinity": {"x": [1]},
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]},
    }
    spec = make_spec(engine={"template": {"spec": {"affinity": written}}})
    data = render("chat", spec, installation, Pins(), None).data
    # When
    made = affinity(deployment(owner, data, Pool(SERVING, 1, avoid_nodes=("n1",))))
    # Then
    assert made["podAffinity"] == {"x": [1]}
    preferred = made["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred[0] == wish
    assert len(preferred) == 2


def test_a_deployment_that_exists_keeps_its_place_whatever_is_to_be_avoided_now(
    data: dict[str, Any], owner: Owner
) -> None:
    """Another affinity is another template, and that would replace the pods in the middle of a measurement."""
    # Given
    placed = deployment(owner, data, Pool(SERVING, 1, avoid_nodes=("n1", "n2")))
    free = deployment(owner, data, Pool(SERVING, 1))
    # Then
    for avoid in ((), ("n3",), ("n1", "n2")):
        pool = Pool(SERVING, 1, avoid_nodes=avoid)
        assert deployment(owner, data, pool, placed)["spec"]["template"] == placed["spec"]["template"]
        assert deployment(owner, data, pool, free)["spec"]["template"] == free["spec"]["template"]


def test_an_affinity_edited_by_hand_is_put_back(data: dict[str, Any], owner: Owner) -> None:
    # Given
    pool = Pool(SERVING, 1, avoid_nodes=("n1",))
    live = deployment(owner, data, pool)
    live["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": {}}
    # When
    wanted = deployment(owner, data, pool, live)
    # Then
    assert differs(wanted, live)
    assert affinity(wanted)["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]


def test_an_unchanged_pool_differs_from_itself_in_nothing(data: dict[str, Any], owner: Owner) -> None:
    live = json.loads(json.dumps(deployment(owner, data, Pool(SERVING, 2))))
    assert not differs(deployment(owner, data, Pool(SERVING, 2), live), live)
    assert differs(deployment(owner, data, Pool(SERVING, 3), live), live)
