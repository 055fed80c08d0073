"""The stand-in for the kubelet does what it is told: a test of the tests, so that their failures mean something."""

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from harness.api import Api, Object
from harness.behaviour import Engine, JobEnd, JobFault, Mishap, Start, pods
from harness.dsl import is_ready
from harness.fake_kubelet import FakeKubelet

from tailguard_runtime.judge.samples import decode_slot
from tailguard_runtime.judge.spec import JudgeSpec

IMAGE = "local/engine:1"


@pytest.fixture
def kubelet(api: Api) -> Iterator[FakeKubelet]:
    namespace = f"k-{time.time_ns()}"
    api.create("Namespace", "", {"metadata": {"name": namespace}})
    kubelet = FakeKubelet(api, namespace)
    kubelet.start()
    yield kubelet
    kubelet.stop()
    assert kubelet.problem is None


def _until(get: Any, seconds: float = 15) -> Any:
    """The first true value of `get()`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := get():
            return value
        time.sleep(0.05)
    raise AssertionError(f"nothing came within {seconds} s")


def _deploy(api: Api, namespace: str, name: str, *args: str, memory: str = "1Gi") -> None:
    container = {"name": "engine", "image": IMAGE, "args": [*args], "resources": {"requests": {"memory": memory}}}
    labels = {"app": name, "tailguard.dev/role": "serving"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    api.create("Deployment", namespace, {"metadata": {"name": name}, "spec": spec})


def _pod(api: Api, namespace: str, name: str) -> Object | None:
    return next(iter(api.find("Pod", namespace, f"app={name}")), None)


def _container(pod: Object | None) -> Object:
    found: list[Object] = (pod or {}).get("status", {}).get("containerStatuses") or [{}]
    return found[0]


def test_a_pod_becomes_ready_on_its_node_and_answers_close(api: Api, kubelet: FakeKubelet) -> None:
    # When
    _deploy(api, kubelet.namespace, "one")

    # Then
    pod = _until(lambda: (p := _pod(api, kubelet.namespace, "one")) and is_ready(p) and p)
    assert pod["spec"]["nodeName"] == kubelet.node
    address = pod["status"]["podIP"]
    assert httpx.post(f"http://{address}:9901/tailguard/close").status_code == 200
    assert kubelet.ports.closed[address] == 1


@pytest.mark.parametrize(
    ("start", "waiting", "terminated"),
    [
        (Start.PULL_ERROR, "ImagePullBackOff", ""),
        (Start.CRASH_LOOP, "CrashLoopBackOff", "Error"),
        (Start.OUT_OF_MEMORY, "CrashLoopBackOff", "OOMKilled"),
    ],
)
def test_a_failed_start_is_told_as_the_kubelet_tells_it(
    api: Api, kubelet: FakeKubelet, start: Start, waiting: str, terminated: str
) -> None:
    # Given
    kubelet.script.engines.append((pods(flag="--bad"), Engine(start=start, message="its own words")))

    # When
    _deploy(api, kubelet.namespace, "bad", "--bad")

    # Then
    def waits() -> Object | None:
        found = _container(_pod(api, kubelet.namespace, "bad"))
        return found if "waiting" in found.get("state", {}) else None

    container = _until(waits)
    assert container["state"]["waiting"]["reason"] == waiting
    assert container.get("lastState", {}).get("terminated", {}).get("reason", "") == terminated
    words = json.dumps(container)
    assert "its own words" in words


def test_a_full_node_takes_no_more_pods_until_it_grows(api: Api, kubelet: FakeKubelet) -> None:
    # Given
    kubelet.resize_node("1536Mi")
    _deploy(api, kubelet.namespace, "first")
    _until(lambda: (p := _pod(api, kubelet.namespace, "first")) and is_ready(p))

    # When
    _deploy(api, kubelet.namespace, "second")

    # Then
    condition = _until(lambda: (_pod(api, kubelet.namespace, "second") or {}).get("status", {}).get("conditions"))[0]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
    assert "Insufficient memory" in condition["message"]

    # When
    kubelet.resize_node("4Gi")

    # Then
    _until(lambda: (p := _pod(api, kubelet.namespace, "second")) and is_ready(p))


def _plan(namespace: str, canary: str, twin: str, owner: Object) -> Object:
    arms = {
        role: {"url": "http://127.0.0.1:8000", "probe": "http://127.0.0.1:9901", "pod": pod, "revision": "r"}
        for role, pod in (("canary", canary), ("twin", twin))
    }
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    return {
        "benchmark": {"name": "bench", "namespace": namespace, "uid": uid, "service": name},
        "engine": "VLLM",
        "servedName": "chat",
        "arms": arms,
        "maxSlots": 40,
        "seed": 7,
        "ratePerSecond": 50,
        "slot": {"requests": 100, "minSeconds": 1},
        "timeoutSeconds": 60,
        "workload": {"kind": "Default", "maxModelLen": 512, "hash": "w"},
        "judge": JudgeSpec(slot_requests=100).to_json(),
    }


def _measure(api: Api, kubelet: FakeKubelet, canary_flag: str, job: str = "bench-j0") -> None:
    """Two arms, and a Job that measures them."""
    owner: Object = {}
    for name, flag in (("canary", canary_flag), ("twin", "--twin")):
        if _pod(api, kubelet.namespace, name) is None:
            _deploy(api, kubelet.namespace, name, flag)
    names = []
    for name in ("canary", "twin"):
        pod = _until(lambda name=name: (p := _pod(api, kubelet.namespace, name)) and is_ready(p) and p)
        names.append(pod["metadata"]["name"])
        owner = pod
    plan = json.dumps(_plan(kubelet.namespace, names[0], names[1], owner))
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "benchmark", "image": "local/runtime:1"}]}}
    api.create("Job", kubelet.namespace, {"metadata": {"name": job}, "spec": {"backoffLimit": 0, "template": template}})
    api.create("ConfigMap", kubelet.namespace, {"metadata": {"name": f"{job}-plan"}, "data": {"plan.json": plan}})


def _job_condition(api: Api, namespace: str, name: str, type_: str) -> Object | None:
    rows = (api.get("Job", namespace, name) or {}).get("status", {}).get("conditions", [])
    return next((row for row in rows if row["type"] == type_ and row["status"] == "True"), None)


def test_a_job_stores_slots_until_the_judge_decides_and_completes(api: Api, kubelet: FakeKubelet) -> None:
    # Given
    kubelet.script.engines.append((pods(flag="--slow"), Engine(slowdown=2.0)))

    # When
    _measure(api, kubelet, "--slow")

    # Then
    _until(lambda: _job_condition(api, kubelet.namespace, "bench-j0", "Complete"), seconds=30)
    stored = [api.get("ConfigMap", kubelet.namespace, f"bench-{number}") for number in range(12)]
    found = [each for each in stored if each]
    slots = [decode_slot(base64.b64decode(each["binaryData"]["slot.arrow"])) for each in found[:-1]]
    assert [slot.number for slot in slots] == [*range(len(slots))]
    manifest = json.loads(found[-1]["data"]["manifest.json"])
    assert manifest["proposal"]["outcome"] == "GrossAlarm"
    assert len(manifest["sha256"]) == len(slots)


def test_an_evicted_job_fails_and_leaves_a_valid_prefix(api: Api, kubelet: FakeKubelet) -> None:
    # Given
    kubelet.script.jobs.append((pods(flag="--same"), JobFault(JobEnd.EVICTED, after_slots=3, times=1)))

    # When
    _measure(api, kubelet, "--same")

    # Then
    assert _until(lambda: _job_condition(api, kubelet.namespace, "bench-j0", "Failed"), seconds=30)
    assert api.get("ConfigMap", kubelet.namespace, "bench-2") is not None
    assert api.get("ConfigMap", kubelet.namespace, "bench-3") is None


def test_an_arm_that_dies_answers_nothing_any_more(api: Api, kubelet: FakeKubelet) -> None:
    # Given
    kubelet.script.engines.append((pods(flag="--dies"), Engine(mishap=Mishap.DIES, after_slots=1, message="SIGSEGV")))

    # When
    _measure(api, kubelet, "--dies")

    # Then
    second = _until(lambda: api.get("ConfigMap", kubelet.namespace, "bench-1"), seconds=30)
    slot = decode_slot(base64.b64decode(second["binaryData"]["slot.arrow"]))
    assert slot.canary.failed.all()
    assert not slot.twin.failed.any()
    ended = _container(_pod(api, kubelet.namespace, "canary"))["lastState"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (139, "SIGSEGV")


def test_a_pending_job_waits_for_ever(api: Api, kubelet: FakeKubelet) -> None:
    # Given
    kubelet.script.jobs.append((pods(flag="--same"), JobFault(JobEnd.PENDING, times=1)))

    # When
    _measure(api, kubelet, "--same")

    # Then
    selector = "batch.kubernetes.io/job-name=bench-j0"

    def reason() -> str:
        found = api.find("Pod", kubelet.namespace, selector)
        rows = [row for pod in found for row in pod.get("status", {}).get("conditions", [])]
        return next((row.get("reason", "") for row in rows if row["type"] == "PodScheduled"), "")

    assert _until(lambda: reason() == "Unschedulable")
    assert api.get("ConfigMap", kubelet.namespace, "bench-0") is None
