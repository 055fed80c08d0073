"""FakeKubelet: plays the scheduler and the kubelet for the pods of one namespace, and the work of benchmark Jobs.

Level-triggered as the real one: several times a second it looks at all pods and does the next thing for each. The
controllers above it (Deployments, ReplicaSets, Jobs, garbage collection) are the real ones.
"""

import random
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from harness import fake_node, pod_status
from harness.api import Api, ApiError, Object
from harness.behaviour import Engine, JobEnd, JobFault, Mishap, Pod, Script, Start
from harness.benchmark_job import BenchmarkJob, read_plan
from harness.close_port import ClosePorts
from harness.recordings import ArmPace
from tailguard_runtime.load.plan import Plan

TICK_SECONDS = 0.1
MISHAP_SECONDS = 5.0
"""A half takes seconds; so the next slot after a mishap is stored well after the kubelet has told of it."""
SLOTS_A_TICK = 5
JOB_LABEL = "batch.kubernetes.io/job-name"
NODE_MEMORY = "64Gi"


@dataclass
class _Memory:
    """What the kubelet remembers of one pod."""

    ip: str
    bound_at: float | None = None
    died: str = ""
    disrupted: str = ""
    last: Object | None = None
    job: BenchmarkJob | None = None
    fault: JobFault | None = None
    hit: bool = False
    resumes_at: float = 0.0


class FakeKubelet:
    """A thread that plays the node of one namespace from `start` to `stop`."""

    def __init__(self, api: Api, namespace: str, node_memory: str = NODE_MEMORY):
        self.namespace, self.script = namespace, Script()
        self.node, self.node_memory = f"node-{namespace}", node_memory
        self.slots_a_tick = SLOTS_A_TICK
        self.ports = ClosePorts()
        self.problem: BaseException | None = None
        self._api = api
        self._pods: dict[str, Pod] = {}
        self._memory: dict[str, _Memory] = {}
        self._addresses = random.Random(namespace)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kubelet-{namespace}", daemon=True)

    def start(self) -> None:
        fake_node.create_node(self._api, self.node, self.namespace, self.node_memory)
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        self.ports.close()

    def resize_node(self, capacity: str) -> None:
        """Give the node another amount of memory, for the scheduler and for the operator."""
        self.node_memory = capacity
        fake_node.resize_node(self._api, self.node, capacity)

    def _run(self) -> None:
        while not self._ending.wait(TICK_SECONDS):
            try:
                self._tick()
            except (httpx.TransportError, ApiError):
                continue  # the API server is away or somebody was faster: the next look sees what is left to do
            except BaseException as error:
                self.problem = error  # the scenario fails with it
                return

    def _tick(self) -> None:
        self._pods = {pod["metadata"]["name"]: pod for pod in self._api.find("Pod", self.namespace)}
        alive = {pod["metadata"]["uid"] for pod in self._pods.values()}
        for gone in self._memory.keys() - alive:
            self.ports.forget(self._memory.pop(gone).ip)
        for pod in self._pods.values():
            self._step(pod)

    def _step(self, pod: Pod) -> None:
        memory = self._remember(pod)
        if pod["metadata"].get("deletionTimestamp"):
            self._api.delete("Pod", self.namespace, pod["metadata"]["name"], grace=0, uid=pod["metadata"]["uid"])
        elif "nodeName" not in pod["spec"]:
            self._schedule(pod, memory)
        elif JOB_LABEL in pod["metadata"].get("labels", {}):
            self._work(pod, memory)
        else:
            self._serve(pod, memory)

    def _remember(self, pod: Pod) -> _Memory:
        return self._memory.setdefault(pod["metadata"]["uid"], _Memory(self._address()))

    def _address(self) -> str:
        """A loopback address that no other pod of this run has."""
        return "127." + ".".join(str(self._addresses.randrange(1, 255)) for _ in range(3))

    # scheduling

    def _schedule(self, pod: Pod, memory: _Memory) -> None:
        if message := self._refusal(pod, memory):
            self._report(pod, memory, pod_status.unschedulable(message, _now()))
            return
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        binding = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
        self._api.create("Pod", self.namespace, {"kind": "Binding"} | binding, pod["metadata"]["name"], "binding")
        memory.bound_at = time.monotonic()
        pod["spec"]["nodeName"] = self.node

    def _refusal(self, pod: Pod, memory: _Memory) -> str:
        if JOB_LABEL in pod["metadata"].get("labels", {}):
            return self._job_refusal(pod, memory)
        engine = self.script.engine(pod)
        if engine.start == Start.UNSCHEDULABLE:
            return engine.message or "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
        placed = [each for each in self._pods.values() if "nodeName" in each["spec"] and not _finished(each)]
        return fake_node.shortage(pod, placed, self.node_memory)

    def _job_refusal(self, pod: Pod, memory: _Memory) -> str:
        """Settles, at the first look, what goes wrong with this Job's pod."""
        plan = self._plan(pod)
        if plan is None:
            return "0/1 nodes are available: the plan is not there yet."
        if not memory.hit:
            memory.hit = True
            memory.fault = self.script.job_fault(self._pods.get(plan.arms.canary.pod))
        pending = memory.fault is not None and memory.fault.end is JobEnd.PENDING
        return "0/1 nodes are available: 1 node(s) were unschedulable." if pending else ""

    # engines

    def _serve(self, pod: Pod, memory: _Memory) -> None:
        if memory.disrupted:
            status = pod_status.disrupted(pod, memory.ip, _now(), memory.disrupted)
        else:
            age = time.monotonic() - (memory.bound_at or 0.0)
            engine = self.script.engine(pod)
            status = pod_status.engine_status(pod, engine, age, memory.ip, _now(), memory.died)
        if status.get("podIP"):
            self.ports.open(memory.ip)
        self._report(pod, memory, status)

    # benchmark Jobs

    def _work(self, pod: Pod, memory: _Memory) -> None:
        if _finished(pod) or not self._begun(pod, memory) or memory.job is None:
            return
        for _ in range(self.slots_a_tick):
            if self._evicted(pod, memory, memory.job) or time.monotonic() < memory.resumes_at:
                return
            if self._hit_arms(memory.job):
                memory.resumes_at = time.monotonic() + MISHAP_SECONDS
                return
            memory.job.advance()
        if memory.job.done:
            self._report(pod, memory, pod_status.job_succeeded(pod, memory.ip, _now()))

    def _begun(self, pod: Pod, memory: _Memory) -> bool:
        """Whether the Job's container runs; it waits for the plan that it mounts, as the real kubelet does."""
        if memory.job is not None:
            return True
        if (plan := self._plan(pod)) is not None:
            memory.job = BenchmarkJob(self._api, plan, self._paces)
            self._report(pod, memory, pod_status.job_running(pod, memory.ip, _now()))
        return False

    def _plan(self, pod: Pod) -> Plan | None:
        return read_plan(self._api, self.namespace, pod["metadata"]["labels"][JOB_LABEL])

    def _evicted(self, pod: Pod, memory: _Memory, job: BenchmarkJob) -> bool:
        fault = memory.fault
        if fault is None or fault.end is not JobEnd.EVICTED or job.stored < fault.after_slots:
            return False
        message = "The node was low on resource: memory."
        self._report(pod, memory, pod_status.disrupted(pod, memory.ip, _now(), message))
        return True

    def _hit_arms(self, job: BenchmarkJob) -> bool:
        """Let the mishaps of both arms happen that are due now; whether there was one."""
        happened = False
        for name in {job.plan.arms.canary.pod, job.plan.arms.twin.pod}:
            pod = self._pods.get(name)
            if pod is None:
                continue
            memory, engine = self._remember(pod), self.script.engine(pod)
            due = engine.mishap is not None and job.stored >= engine.after_slots and not memory.hit
            if due and self.script.take(engine, engine.times):
                memory.hit = happened = True
                self._harm(pod, memory, engine)
        return happened

    def _harm(self, pod: Pod, memory: _Memory, engine: Engine) -> None:
        if engine.mishap is Mishap.DIES:
            memory.died = engine.message or "Segmentation fault (core dumped)"
        else:
            memory.disrupted = engine.message or "The node was low on resource: memory."
        self._serve(pod, memory)

    def _paces(self, plan: Plan) -> tuple[ArmPace, ArmPace]:
        return self._pace(plan.arms.canary.pod), self._pace(plan.arms.twin.pod)

    def _pace(self, name: str) -> ArmPace:
        pod = self._pods.get(name)
        if pod is None:
            return ArmPace(dead=True)
        memory = self._remember(pod)
        return ArmPace(self.script.engine(pod).slowdown, dead=bool(memory.died or memory.disrupted))

    def _report(self, pod: Pod, memory: _Memory, status: Object) -> None:
        """Send the status when it says something new; times alone are nothing new."""
        if memory.last is not None and _untimed(memory.last) == _untimed(status):
            return
        self._api.patch("Pod", self.namespace, pod["metadata"]["name"], {"status": status}, "status")
        memory.last = status


def _finished(pod: Pod) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _untimed(value: object) -> object:
    """The same data without its times."""
    if isinstance(value, dict):
        return {key: _untimed(each) for key, each in value.items() if not key.endswith(("Time", "At"))}
    return [_untimed(each) for each in value] if isinstance(value, list) else value
