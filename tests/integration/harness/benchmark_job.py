"""The work of a benchmark Job, slot by slot, with recordings in the place of real measurements.

The plan is read by the Job's own model and the slots are stored in its own format, so that what the operator writes
and reads is exactly what the real Job reads and writes.
"""

import base64
import json
import time
from collections.abc import Callable

from harness.api import Api, ApiError, Object
from harness.recordings import ArmPace, record_slot
from tailguard_runtime.judge.process import Process
from tailguard_runtime.judge.samples import Slot, encode_slot
from tailguard_runtime.judge.verdict import Outcome
from tailguard_runtime.load.plan import Plan
from tailguard_runtime.load.store import MANIFEST_KEY, SLOT_KEY, digest, manifest, object_name

Paces = Callable[[Plan], tuple[ArmPace, ArmPace]]


def read_plan(api: Api, namespace: str, job: str) -> Plan | None:
    """The plan of the Job `job` in the ConfigMap `JOB-plan`; None while it is not there.

    Raises:
        ValidationError: the real Job would refuse this plan.
    """
    found = api.get("ConfigMap", namespace, f"{job}-plan")
    return Plan.model_validate(json.loads(found["data"]["plan.json"])) if found else None


class BenchmarkJob:
    """One run of a Job: `advance` stores one slot; the last call stores the manifest."""

    def __init__(self, api: Api, plan: Plan, paces: Paces):
        self.plan, self.stored, self.done = plan, 0, False
        self._api, self._paces = api, paces
        self._process = Process(plan.judge_spec())
        self._digests: dict[str, str] = {}
        self._number = plan.start_slot

    def advance(self) -> None:
        """Store the next slot, or the manifest when an end is reached; a taken number is skipped."""
        if self.done:
            return
        if self._ended():
            self._close()
            return
        canary, twin = self._paces(self.plan)
        slot = record_slot(self._number, self.plan.slot.requests, self.plan.seed, canary, twin, time.time())
        self._number += 1
        if self._store(slot):
            self.stored += 1
            self._process.add(slot)

    def _ended(self) -> bool:
        wanted = self.plan.valid_slots
        if self._number >= self.plan.max_slots or (wanted is not None and self.stored >= wanted):
            return True
        return wanted is None and self._process.outcome is not Outcome.CONTINUE

    def _store(self, slot: Slot) -> bool:
        content = encode_slot(slot, benchmark=self.plan.benchmark.name)
        encoded = base64.b64encode(content).decode()
        if not self._create(slot.number, {"binaryData": {SLOT_KEY: encoded}}):
            self._process = Process(self.plan.judge_spec())  # a gap: what was seen before can't be joined to it
            return False
        self._digests[object_name(self.plan.benchmark.name, slot.number)] = digest(content)
        return True

    def _close(self) -> None:
        content = manifest(self._digests, self._process.verdict().to_json()).decode()
        self.done = self._create(self._number, {"data": {MANIFEST_KEY: content}})
        self._number += 1

    def _create(self, number: int, content: Object) -> bool:
        """Whether the object was created; False when its number is taken."""
        benchmark = self.plan.benchmark
        labels = {"app.kubernetes.io/managed-by": "tailguard", "tailguard.dev/benchmark": benchmark.name}
        owner = {"apiVersion": "tailguard.dev/v1alpha1", "kind": "Benchmark"}
        metadata = {
            "name": object_name(benchmark.name, number),
            "labels": labels | ({"tailguard.dev/service": benchmark.service} if benchmark.service else {}),
            "ownerReferences": [owner | {"name": benchmark.name, "uid": benchmark.uid}],
        }
        try:
            self._api.create("ConfigMap", benchmark.namespace, {"metadata": metadata, "immutable": True} | content)
        except ApiError as error:
            if error.code != 409:
                raise
            return False
        return True
