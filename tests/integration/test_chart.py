"""The chart in a real API server: it installs, and its accounts may do what they need and nothing else."""

import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from e2e.cluster.layout import cache_folder
from e2e.cluster.programs import go_programs
from harness.api import Api, Object
from harness.control_plane import ControlPlane

from tailguard_operator.resources.measure import account_name, job_account
from tailguard_operator.resources.owner import Owner
from tailguard_operator.resources.profile import Installation

CHART = Path(__file__).parents[2] / "charts" / "tailguard"
RELEASE, NAMESPACE = "tailguard", "tailguard-chart"
OPERATOR = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"
BENCHMARK = "chat-1a2b3c4d-b1"
POD = f"{BENCHMARK}-j0-x7k2p"
SECONDS = 30

Helm = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm, with a home of its own."""
    program, home = go_programs(cache_folder()) / "helm", tmp_path_factory.mktemp("helm")
    environment = {f"HELM_{name}_HOME": str(home / name) for name in ("CACHE", "CONFIG", "DATA")} | {"HOME": str(home)}

    def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([program, *arguments], capture_output=True, text=True, env=environment, timeout=120)

    return run


@pytest.fixture(scope="module")
def release(control_plane: ControlPlane, helm: Helm) -> Iterator[Api]:
    """The installed chart; the definitions are there already."""
    place = ("--namespace", NAMESPACE, "--kubeconfig", control_plane.kubeconfig)
    done = helm("install", RELEASE, CHART, "--create-namespace", "--set", "crds.install=false", *place)
    assert done.returncode == 0, done.stderr
    yield control_plane.api
    gone = helm("uninstall", RELEASE, *place)
    assert gone.returncode == 0, gone.stderr


def template(helm: Helm, *settings: str) -> list[Object]:
    """What the chart renders with these `--set` arguments."""
    sets = [word for setting in settings for word in ("--set", setting)]
    done = helm("template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", "1.34.4", *sets)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def one(documents: list[Object], kind: str) -> Object:
    (found,) = [document for document in documents if document["kind"] == kind]
    return found


def test_lint_has_nothing_to_say(helm: Helm) -> None:
    # When
    done = helm("lint", "--strict", CHART)
    # Then
    assert done.returncode == 0, done.stdout


def test_the_installation_file_is_what_the_operator_reads(helm: Helm) -> None:
    # When
    documents = template(helm, "engines.trtllm=null", "runtime.command={taskset,python3}", "image=own/image:1")
    # Then
    text = one(documents, "ConfigMap")["data"]["installation.yaml"]
    installation = Installation.parse(yaml.safe_load(text), "installation")
    assert sorted(installation.profiles) == ["vllm-cpu", "vllm-cuda"]
    assert installation.default_profile == "vllm-cuda"
    assert installation.runtime_command == ("taskset", "python3")
    assert installation.runtime_image == "own/image:1"
    assert installation.namespace == NAMESPACE


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("defaultProfile=nope", 'defaultProfile is "nope", which is none of engines (trtllm, vllm-cpu, vllm-cuda)'),
        ("engines.vllm-cuda.imag=x", "additional properties 'imag' not allowed"),
        ("replica=2", "additional properties 'replica' not allowed"),
        ("replicas=-1", "at '/replicas': minimum"),
    ],
)
def test_a_wrong_value_is_refused_by_name(helm: Helm, setting: str, words: str) -> None:
    # When
    done = helm("template", CHART, "--kube-version", "1.34.4", "--set", setting)
    # Then
    assert done.returncode != 0
    assert words in done.stderr


def test_definitions_and_budget_are_switches(helm: Helm) -> None:
    # When
    usual, other = template(helm), template(helm, "crds.install=false", "podDisruptionBudget.enabled=true")
    # Then
    count = {
        kind: [d["kind"] for d in usual].count(kind) for kind in ("CustomResourceDefinition", "PodDisruptionBudget")
    }
    assert count == {"CustomResourceDefinition": 3, "PodDisruptionBudget": 0}
    assert "CustomResourceDefinition" not in [d["kind"] for d in other]
    assert one(other, "PodDisruptionBudget")["spec"]["minAvailable"] == 1


def test_a_changed_profile_restarts_the_operator(helm: Helm) -> None:
    # Given
    def checksum(*settings: str) -> str:
        pod = one(template(helm, *settings), "Deployment")["spec"]["template"]
        return str(pod["metadata"]["annotations"]["checksum/installation"])

    # Then
    assert checksum() == checksum()
    assert checksum() != checksum("engines.vllm-cuda.image=own/vllm:2")


def test_the_operator_may_not_become_root_or_write_its_image(helm: Helm) -> None:
    # When
    pod = one(template(helm), "Deployment")["spec"]["template"]["spec"]
    # Then
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


GROUP, RBAC = "tailguard.dev", "rbac.authorization.k8s.io"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
ALLOWED: dict[tuple[str, str], set[str]] = {
    (GROUP, "inferenceservices"): {"get", "list", "watch"},
    (GROUP, "inferenceservices/status"): {"patch"},
    (GROUP, "inferenceservices/scale"): set(),
    (GROUP, "inferenceservices/finalizers"): {"update"},
    (GROUP, "benchmarks"): {"get", "list", "watch", "create", "delete"},
    (GROUP, "benchmarks/status"): {"patch"},
    (GROUP, "baselines"): {"get", "list", "watch", "create", "delete"},
    ("apps", "deployments"): {"get", "list", "watch", "create", "patch", "delete"},
    ("apps", "controllerrevisions"): {"list", "create", "patch", "delete"},
    ("apps", "statefulsets"): set(),
    ("batch", "jobs"): {"get", "list", "watch", "create", "delete"},
    ("", "services"): {"get", "list", "watch", "create", "patch"},
    ("", "pods"): {"list", "watch"},
    ("", "pods/exec"): set(),
    ("", "nodes"): {"list"},
    ("", "configmaps"): {"get", "create"},
    ("", "secrets"): set(),
    ("", "events"): {"create"},
    ("", "serviceaccounts"): {"get", "create", "patch"},
    ("", "serviceaccounts/token"): set(),
    (RBAC, "rolebindings"): {"get", "create", "patch"},
    (RBAC, "clusterrolebindings"): set(),
    ("coordination.k8s.io", "leases"): set(),
    ("apiextensions.k8s.io", "customresourcedefinitions"): set(),
}


def may(api: Api, verb: str, group: str, resource: str, namespace: str, name: str = "") -> bool:
    """Whether the operator's account may do this to `RESOURCE` or `RESOURCE/SUBRESOURCE`."""
    kind, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": kind, "subresource": subresource}
    review = {"user": OPERATOR, "resourceAttributes": {**attributes, "namespace": namespace, "name": name}}
    answer = api.raw("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", json={"spec": review})
    return bool(answer.json()["status"]["allowed"])


@pytest.mark.parametrize(("group", "resource"), ALLOWED)
def test_the_operator_may_do_its_work_in_every_namespace_and_nothing_else(
    release: Api, group: str, resource: str
) -> None:
    # When
    allowed = {verb for verb in VERBS if may(release, verb, group, resource, "default")}
    # Then
    assert allowed == ALLOWED[group, resource]


def test_the_operator_keeps_its_lease(release: Api) -> None:
    # When
    allowed = {verb for verb in VERBS if may(release, verb, "coordination.k8s.io", "leases", NAMESPACE)}
    # Then
    assert allowed == {"get", "create", "update"}


def test_the_operator_hands_out_one_role_only(release: Api) -> None:
    # Then
    assert may(release, "bind", RBAC, "clusterroles", "default", "tailguard-benchmark")
    assert not may(release, "bind", RBAC, "clusterroles", "default", "cluster-admin")


class Account:
    """A caller with a service account's token, as a pod has it."""

    def __init__(self, plane: ControlPlane, token: str):
        self._http = httpx.Client(
            base_url=plane.credentials.url,
            # Not the administrator's context: its client certificate would count before the token.
            verify=ssl.create_default_context(cafile=str(plane.credentials.authority)),
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
        )

    def create(self, body: Object, *, checked_only: bool = False) -> httpx.Response:
        """Create a ConfigMap, or only ask whether that would be accepted."""
        parameters = {"dryRun": "All"} if checked_only else {}
        return self._http.post("/api/v1/namespaces/default/configmaps", json=body, params=parameters)

    def get(self, name: str) -> httpx.Response:
        return self._http.get(f"/api/v1/namespaces/default/configmaps/{name}")


def samples(name: str = f"{BENCHMARK}-0", benchmark: str = BENCHMARK, **changed: Any) -> Object:
    """A ConfigMap as a Job writes it."""
    owner = {"apiVersion": "tailguard.dev/v1alpha1", "kind": "Benchmark", "name": benchmark, "uid": "u"}
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "immutable": True,
        "binaryData": {"slot.arrow": "QVJST1c="},
    }
    return body | changed


def token(api: Api, account: str, pod: Mapping[str, str] | None) -> str:
    """A token of `account`, bound to `pod` as the kubelet asks for it, or to nothing."""
    bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", **pod}} if pod else {}
    path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
    answer = api.raw("POST", path, json={"spec": {"audiences": [], "expirationSeconds": 600, **bound}})
    return str(answer.json()["status"]["token"])


@pytest.fixture(scope="module")
def job(release: Api, control_plane: ControlPlane) -> Iterator[Account]:
    """The account of a benchmark's pod, once the policy is in force."""
    owner = Owner("chat", "default", "00000000-0000-0000-0000-000000000000")
    account, binding = job_account(owner)
    for body in (account, binding):
        del body["metadata"]["ownerReferences"]
        release.create(body["kind"], "default", body)
    container = {"name": "benchmark", "image": "local/none:1"}
    pod = release.create(
        "Pod",
        "default",
        {
            "metadata": {"name": POD},
            "spec": {"serviceAccountName": account_name("chat"), "nodeName": "none", "containers": [container]},
        },
    )
    caller = Account(control_plane, token(release, account_name("chat"), {"name": POD, "uid": pod["metadata"]["uid"]}))
    deadline = time.monotonic() + SECONDS
    while caller.create(samples(immutable=False), checked_only=True).status_code != 422 and time.monotonic() < deadline:
        time.sleep(0.2)
    yield caller
    release.delete("Pod", "default", POD, grace=0)
    for body in (binding, account):
        release.delete(body["kind"], "default", body["metadata"]["name"])


def test_a_benchmark_pod_stores_samples_of_its_own_benchmark(release: Api, job: Account) -> None:
    # When
    first, second = job.create(samples()), job.create(samples(f"{BENCHMARK}-17"))
    # Then
    assert (first.status_code, second.status_code) == (201, 201)
    for number in (0, 17):
        release.delete("ConfigMap", "default", f"{BENCHMARK}-{number}")


OTHER_OWNER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "uid": "u"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (samples(immutable=False), "immutable must be true"),
        ({k: v for k, v in samples().items() if k != "immutable"}, "immutable must be true"),
        (samples(metadata={"name": f"{BENCHMARK}-0"}), "must hold exactly one entry, the Benchmark"),
        (
            samples(metadata={"name": f"{BENCHMARK}-0", "ownerReferences": [OTHER_OWNER]}),
            "must hold exactly one entry, the Benchmark",
        ),
        (
            samples(
                metadata={
                    "name": f"{BENCHMARK}-0",
                    "ownerReferences": [*samples()["metadata"]["ownerReferences"], OTHER_OWNER],
                }
            ),
            "must hold exactly one entry, the Benchmark",
        ),
        (samples("chat-1a2b3c4d-b2-0", "chat-1a2b3c4d-b2"), f'pod "{POD}" does not belong to Benchmark'),
        (samples("chat-0", "chat"), f'pod "{POD}" does not belong to Benchmark "chat"'),
        (samples("chat-1a2b3c4d.b1-0", "chat-1a2b3c4d.b1"), "does not belong to Benchmark"),
        (samples("kube-root-ca.crt"), f"metadata.name must be {BENCHMARK}-NUMBER"),
        (samples(f"{BENCHMARK}-01"), f"metadata.name must be {BENCHMARK}-NUMBER"),
        (samples(f"{BENCHMARK}-j1-plan"), f"metadata.name must be {BENCHMARK}-NUMBER"),
    ],
)
def test_anything_else_is_refused_with_the_reason(job: Account, body: Object, words: str) -> None:
    # When
    answer = job.create(body, checked_only=True)
    # Then
    assert answer.status_code == 422
    assert words in answer.json()["message"]


def test_samples_are_never_read_back_by_the_one_who_wrote_them(job: Account) -> None:
    # Then
    assert job.get(f"{BENCHMARK}-0").status_code == 403


def test_a_token_that_no_pod_holds_is_worth_nothing(release: Api, control_plane: ControlPlane, job: Account) -> None:
    # Given
    stranger = Account(control_plane, token(release, account_name("chat"), None))
    # When
    answer = stranger.create(samples(), checked_only=True)
    # Then
    assert answer.status_code == 422
    assert 'pod "" does not belong' in answer.json()["message"]


def test_other_accounts_are_left_alone(release: Api, job: Account) -> None:
    # When
    plain = release.create("ConfigMap", "default", {"metadata": {"name": "plain"}, "data": {"a": "b"}})
    # Then
    assert plain["data"] == {"a": "b"}
    release.delete("ConfigMap", "default", "plain")
