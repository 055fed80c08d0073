"""A rig: the whole reconcile path over a `FakeCluster`, with a stand-in for controllers and kubelet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from fake_cluster import FakeCluster

from tailguard_operator.cluster.apply import Applier
from tailguard_operator.cluster.events import Recorder
from tailguard_operator.cluster.evidence import EvidenceReader
from tailguard_operator.cluster.health import WatchEcho
from tailguard_operator.cluster.judging import StoredSlot
from tailguard_operator.cluster.kinds import DEPLOYMENT, INFERENCE_SERVICE, POD, Object
from tailguard_operator.cluster.observe import Observation, Observer
from tailguard_operator.cluster.queue import Key, Result
from tailguard_operator.cluster.reconcile import Reconciler
from tailguard_operator.plan import decide
from tailguard_operator.plan.world import Evidence
from tailguard_operator.resources.profile import Installation
from tailguard_operator.resources.revision import Pins

START = datetime(2026, 12, 1, 10, tzinfo=UTC)
KEY = Key("default", "chat")
DIGEST = f"sha256:{'1' * 64}"


def make_installation(image: str = f"local/vllm@{DIGEST}", **profile: Any) -> Installation:
    about = {"type": "VLLM", "version": "0.32.0", "image": image, "modelBytes": 1_000_000} | profile
    return Installation.parse(
        {
            "profiles": {"vllm-test": about},
            "defaultProfile": "vllm-test",
            "runtimeImage": "local/runtime:1",
            "namespace": "default",
        },
        "installation",
    )


class NoJudge:
    """A judge that is never asked."""

    async def judge(
        self, uid: str, spec: Mapping[str, Any], known: Sequence[str], new: Sequence[StoredSlot]
    ) -> Evidence | None:
        raise AssertionError(f"nothing is stored, yet {uid} is judged")


@dataclass
class RecordingCloser:
    asked: list[str] = field(default_factory=list)

    async def close(self, ip: str) -> None:
        self.asked.append(ip)


@dataclass
class Rig:
    """One service's operator."""

    cluster: FakeCluster
    installation: Installation = field(default_factory=make_installation)
    now: datetime = START
    pins: Pins = field(default_factory=Pins)
    lease_transitions: int = 7
    closer: RecordingCloser = field(default_factory=RecordingCloser)
    echo: WatchEcho = field(default_factory=WatchEcho)

    def observer(self) -> Observer:
        evidence = EvidenceReader(self.cluster, NoJudge())
        return Observer(self.cluster, self.installation, evidence, lambda: self.lease_transitions)

    def applier(self) -> Applier:
        return Applier(self.cluster, self.echo)

    def reconciler(self) -> Reconciler:
        """A fresh one every time: nothing may be remembered from one pass to the next."""
        return Reconciler(
            cluster=self.cluster,
            observer=self.observer(),
            applier=self.applier(),
            recorder=Recorder(self.cluster, "operator-a"),
            closer=self.closer,
            installation=self.installation,
            decide=decide,
            ask_pins=self._ask,
            now=lambda: self.now,
        )

    async def reconcile(self, passes: int = 1) -> Result:
        result = Result()
        for _ in range(passes):
            result = await self.reconciler().reconcile(KEY)
        return result

    async def observe(self) -> Observation:
        seen = await self.observer().observe(KEY)
        assert seen is not None
        return seen

    def run_pods(self, **status: Any) -> None:
        """Play controllers and kubelet: every Deployment has its pods, Ready unless said otherwise."""
        for deployment in self.cluster.of(DEPLOYMENT):
            meta, wanted = deployment["metadata"], deployment["spec"]["replicas"]
            for number in range(wanted):
                name = f"{meta['name']}-{number}"
                if not any(p["metadata"]["name"] == name for p in self.cluster.of(POD)):
                    self.cluster.put(_pod(deployment, name))
                self.cluster.set_status(POD, meta["namespace"], name, _running(number) | status)

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def status(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.cluster.one(INFERENCE_SERVICE, KEY.name)["status"]
        return found

    def condition(self, type_: str) -> Mapping[str, Any]:
        return next((c for c in self.status()["conditions"] if c["type"] == type_), {})

    async def _ask(self, image: str, uri: str, revision: str | None) -> Pins:
        return self.pins


def service(**spec: Any) -> Object:
    """An InferenceService of three lines and `spec`."""
    body = {"model": {"uri": "file:///models/tiny"}, "replicas": 1} | spec
    return INFERENCE_SERVICE.partial("default", "chat") | {"spec": body}


def _pod(deployment: Object, name: str) -> Object:
    meta = deployment["metadata"]
    template = deployment["spec"]["template"]
    owner = {"kind": "Deployment", "name": meta["name"], "uid": meta["uid"], "controller": True}
    head = POD.partial(meta["namespace"], name, labels=template["metadata"]["labels"], ownerReferences=[owner])
    return head | {"spec": template["spec"] | {"nodeName": "node-1"}}


def _running(number: int) -> dict[str, Any]:
    return {
        "phase": "Running",
        "podIP": f"198.18.0.{10 + number}",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "engine", "imageID": f"local/vllm@{DIGEST}", "state": {"running": {}}}],
    }
