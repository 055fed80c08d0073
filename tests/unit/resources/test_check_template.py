"""What a user's pod overlay may not do."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_operator.api.service import InferenceServiceSpec
from tailguard_operator.resources.check_template import check_template
from tailguard_operator.resources.profile import Installation
from tailguard_operator.resources.revision import Pins, render

ENGINE = "spec.engine.template.spec.containers[0]"


def problems(template: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in check_template(template)]


def engine(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "engine", **fields}]}}


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}}},
        {
            "spec": {
                "nodeSelector": {"gpu": "h100"},
                "tolerations": [{"operator": "Exists"}],
                "runtimeClassName": "nvidia",
            }
        },
        {"spec": {"serviceAccountName": "engine", "priorityClassName": "high", "affinity": {}}},
        {"spec": {"volumes": [{"name": "cache", "persistentVolumeClaim": {"claimName": "c"}}]}},
        {"spec": {"volumes": [{"name": "shm", "emptyDir": {"sizeLimit": "8Gi", "medium": "Memory"}}]}},
        {"spec": {"initContainers": [{"name": "fetch-model", "env": [{"name": "HF_TOKEN", "value": "x"}]}]}},
        {"spec": {"initContainers": [{"name": "mine", "image": "x"}]}},
        {"spec": {"containers": [{"name": "side", "image": "x", "ports": [{"containerPort": 9000}]}]}},
        engine(image="mine:2", env=[{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "t"}}}]),
        engine(volumeMounts=[{"name": "data", "mountPath": "/data"}], securityContext={"privileged": False}),
        {"spec": {"nodeSelector": None, "volumes": [{"name": "data", "$patch": "delete"}]}},
    ],
)
def test_what_a_user_may_say(template: dict[str, Any]) -> None:
    assert problems(template) == []


def test_a_users_spec_can_never_mount_a_nodes_path() -> None:
    found = problems({"spec": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "d", "hostPath": {"path": "/"}}]}})
    assert found == [
        "spec.engine.template.spec.volumes[1].hostPath: {'path': '/'} is not allowed; a service can't mount a path of "
        "its node; use a claim, or ask for a profile that does"
    ]


@pytest.mark.parametrize(
    ("template", "field", "said"),
    [
        ({"metadata": {"labels": {"tailguard.dev/role": "serving"}}}, "metadata.labels[tailguard.dev/role]", "sets it"),
        ({"metadata": {"labels": {"app.kubernetes.io/managed-by": "x"}}}, "metadata.labels[app", "sets it"),
        ({"metadata": {"annotations": {"tailguard.dev/mover": "1"}}}, "metadata.annotations[", "sets it"),
        ({"metadata": {"name": "x"}}, "metadata.name", "no such field; known are annotations, labels"),
        ({"sepc": {}}, "template.sepc", "did you mean spec?"),
        ({"spec": {"nodeselector": {}}}, "spec.nodeselector", "did you mean nodeSelector?"),
        ({"spec": {"nodeName": "n1"}}, "spec.nodeName", "use nodeSelector"),
        ({"spec": {"hostNetwork": True}}, "spec.hostNetwork", "leave it out"),
        ({"spec": {"hostPID": True}}, "spec.hostPID", "leave it out"),
        ({"spec": {"hostIPC": True}}, "spec.hostIPC", "leave it out"),
        ({"spec": {"restartPolicy": "Never"}}, "spec.restartPolicy", "manages"),
        ({"spec": {"enableServiceLinks": True}}, "spec.enableServiceLinks", "named vllm"),
        ({"spec": {"terminationGracePeriodSeconds": 0}}, "spec.terminationGracePeriodSeconds", "longest request"),
        ({"spec": {"serviceAccountName": "chat-tailguard-benchmark"}}, "spec.serviceAccountName", "another account"),
        ({"spec": {"serviceAccount": "chat-tailguard-benchmark"}}, "spec.serviceAccount", "another account"),
        ({"spec": {"volumes": [{"name": "state", "emptyDir": {}}]}}, "spec.volumes[0].name", "another name"),
        ({"spec": {"volumes": [{"name": "guard", "$patch": "delete"}]}}, "spec.volumes[0].name", "another name"),
        (
            {"spec": {"initContainers": [{"name": "guard", "image": "x"}]}},
            "spec.initContainers[0].name",
            "another name",
        ),
        (
            {"spec": {"initContainers": [{"name": "fetch-model", "command": ["x"]}]}},
            "spec.initContainers[0].name",
            "another name",
        ),
        (
            {"spec": {"containers": [{"name": "side", "ports": [{"containerPort": 9901}]}]}},
            "spec.containers[0].ports[0].containerPort",
            "another port",
        ),
        (
            {"spec": {"containers": [{"name": "side", "ports": [{"containerPort": 9000, "hostPort": 9000}]}]}},
            "spec.containers[0].ports[0].hostPort",
            "leave hostPort out",
        ),
        (
            {"spec": {"containers": [{"name": "side", "volumeMounts": [{"name": "state", "mountPath": "/s"}]}]}},
            "spec.containers[0].volumeMounts[0].name",
            "another name",
        ),
        (
            {"spec": {"initContainers": [{"name": "mine", "securityContext": {"privileged": True}}]}},
            "spec.initContainers[0].securityContext.privileged",
            "node's disks",
        ),
    ],
)
def test_what_is_refused_with_field_and_way_out(template: dict[str, Any], field: str, said: str) -> None:
    # When
    found = problems(template)
    # Then
    assert len(found) == 1, found
    assert found[0].startswith("spec.engine.template")
    assert field in found[0]
    assert said in found[0]


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"args": ["--x"]}, ".args", "spec.engine.args"),
        ({"command": ["sh"]}, ".command", "another profile"),
        ({"resources": {}}, ".resources", "spec.engine.resources"),
        ({"startupProbe": None}, ".startupProbe", "real generations"),
        ({"readinessProbe": {}}, ".readinessProbe", "draining"),
        ({"livenessProbe": {}}, ".livenessProbe", "hung"),
        ({"lifecycle": {}}, ".lifecycle", "drains"),
        ({"terminationMessagePolicy": "File"}, ".terminationMessagePolicy", "last lines"),
        ({"$patch": "delete"}, ".$patch", "can't be removed"),
        ({"env": [{"name": "A"}, {"name": "PYTHONPATH"}]}, ".env[1].name", "this variable"),
        ({"env": [{"name": "TAILGUARD_PORT"}]}, ".env[0].name", "this variable"),
        ({"volumeMounts": [{"name": "x", "mountPath": "/tailguard/lib"}]}, ".volumeMounts[0].mountPath", "elsewhere"),
        ({"volumeMounts": [{"name": "x", "mountPath": "/tailguard/"}]}, ".volumeMounts[0].mountPath", "elsewhere"),
        ({"securityContext": {"privileged": True}}, ".securityContext.privileged", "node's disks"),
        ({"ports": [{"containerPort": 8000, "hostPort": 80}]}, ".ports[0].hostPort", "side by side"),
    ],
)
def test_what_tailguard_manages_of_the_engine(fields: dict[str, Any], field: str, said: str) -> None:
    found = problems(engine(**fields))
    assert len(found) == 1, found
    assert found[0].startswith(f"{ENGINE}{field}: ")
    assert said in found[0]


def test_every_container_and_volume_of_the_guard_is_protected(
    make_spec: Callable[..., InferenceServiceSpec], installation: Installation
) -> None:
    """The names are those that the adapter really uses."""
    # Given
    spec = render("chat", make_spec(model={"uri": "hf://a/b"}), installation, Pins(), None).data["template"]["spec"]
    init = [c["name"] for c in spec["initContainers"]]
    guarded = [m["name"] for m in spec["containers"][0]["volumeMounts"] if m["name"] not in ("cache", "model", "shm")]
    paths = [m["mountPath"] for m in spec["containers"][0]["volumeMounts"] if m["name"] != "shm"]
    # Then
    assert init and guarded and paths
    for name in init:
        assert problems({"spec": {"initContainers": [{"name": name, "image": "evil"}]}})
    for name in guarded:
        assert problems({"spec": {"volumes": [{"name": name, "emptyDir": {}}]}})
    for path in paths:
        assert problems(engine(volumeMounts=[{"name": "mine", "mountPath": path}]))


_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["spec", "metadata", "labels", "containers", "volumes", "name", "env", "ports", "$patch"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["spec", "metadata"]), _json))
def test_a_template_of_any_shape_gets_an_answer(template: dict[str, Any]) -> None:
    assert all(problem for problem in problems(template))
