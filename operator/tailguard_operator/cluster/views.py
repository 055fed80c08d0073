"""Kubernetes objects as decisions see them: pure readings of plain data."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tailguard_operator.api.base import GROUP, InvalidObject, moment
from tailguard_operator.api.benchmark import BenchmarkStatus
from tailguard_operator.api.service import InferenceServiceSpec
from tailguard_operator.api.status import InferenceServiceStatus
from tailguard_operator.cluster.kinds import Object
from tailguard_operator.cluster.pods import failure, pool_key
from tailguard_operator.plan.world import (
    BaselineView,
    BenchmarkView,
    Evidence,
    JobView,
    PoolView,
    RevisionView,
    ServiceView,
)
from tailguard_operator.resources.owner import REVISION_LABEL

"""On a ControllerRevision: image of its first Ready pod, when the image was not named by digest."""
COMMANDS = ("retry", "promote", "abort", "pin", "refresh")
UNREADABLE_MODEL = "file:///unreadable"
_JOB_NUMBER = re.compile(r"-j([0-9]+)$")


def owned(obj: Object, uid: str) -> bool:
    """Whether `uid` is the controller of `obj`."""
    return any(r.get("uid") == uid and r.get("controller") for r in obj["metadata"].get("ownerReferences") or ())


def belongs_to(obj: Object) -> str:
    """Whose `obj` is, for a sentence."""
    reference = next((r for r in obj["metadata"].get("ownerReferences") or () if r.get("controller")), None)
    if reference:
        return f"{reference['kind']} {reference['name']}"
    managers = [m.get("manager", "") for m in obj["metadata"].get("managedFields") or ()]
    return f"nobody (made by {managers[0]})" if managers and managers[0] else "nobody"


def foreign(obj: Object) -> str:
    """What to tell about a child that exists and is not ours."""
    meta = obj["metadata"]
    return (
        f"{obj['kind']} {meta['namespace']}/{meta['name']} exists and belongs to {belongs_to(obj)}; "
        "Tailguard never takes over what it did not make: delete it, or give the service another name"
    )


def commands(obj: Object) -> dict[str, str]:
    """The command annotations of an InferenceService, by command."""
    annotations = obj["metadata"].get("annotations") or {}
    return {name: annotations[f"{GROUP}/{name}"] for name in COMMANDS if f"{GROUP}/{name}" in annotations}


def read_status(obj: Object) -> InferenceServiceStatus:
    """The status of an InferenceService.

    Raises:
        InvalidObject: somebody else wrote it, or a newer version did.
    """
    return InferenceServiceStatus.parse(obj.get("status") or {}, "status")


def read_spec(obj: Object) -> tuple[InferenceServiceSpec, tuple[str, ...]]:
    """The spec of an InferenceService, and what is wrong with it.

    A spec that cannot be read as a whole is read section by section; a section that cannot be read is replaced by its
    default, so that the service is looked after while the problem is shown. Such a spec never starts anything.
    """
    written = obj.get("spec") or {}
    try:
        return InferenceServiceSpec.parse(written, "spec"), ()
    except InvalidObject as error:
        sections = {name: value for name, value in written.items() if _readable(name, value)}
        safe = {"model": {"uri": UNREADABLE_MODEL}} | sections
        return InferenceServiceSpec.parse(safe, "spec"), tuple(map(str, error.problems))


def _readable(name: str, value: Any) -> bool:
    try:
        InferenceServiceSpec.parse({"model": {"uri": UNREADABLE_MODEL}} | {name: value}, "spec")
    except InvalidObject:
        return False
    return True


def pool_view(deployment: Object, uid: str) -> PoolView | None:
    """The pool of a Deployment; None when its labels name none."""
    meta = deployment["metadata"]
    key = pool_key(meta.get("labels") or {})
    if key is None:
        return None
    return PoolView(
        key=key,
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        replicas=deployment["spec"].get("replicas", 1),
        created=moment(meta["creationTimestamp"]),
        owned=owned(deployment, uid),
        deleting="deletionTimestamp" in meta,
    )


def service_view(service: Object, uid: str) -> ServiceView:
    """The Service that users reach."""
    meta = service["metadata"]
    selector = service["spec"].get("selector") or {}
    return ServiceView(meta["uid"], meta["resourceVersion"], selector.get(REVISION_LABEL, ""), owned(service, uid))


def revision_view(revision: Object) -> RevisionView:
    """A rendered revision."""
    meta, data = revision["metadata"], revision["data"]
    return RevisionView(
        revision=meta["labels"][REVISION_LABEL],
        spec_hash=data["specHash"],
        created=moment(meta["creationTimestamp"]),
        startup_seconds=int(data["startupSeconds"]),
    )


def baseline_view(baseline: Object) -> BaselineView:
    """A frozen Baseline."""
    meta, spec = baseline["metadata"], baseline["spec"]
    return BaselineView(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        key=spec["key"],
        revision=spec["revision"],
        spec=spec,
        created=moment(meta["creationTimestamp"]),
    )


def job_view(job: Object, pods: Iterable[Object]) -> JobView:
    """A Job of a Benchmark with its pod."""
    meta, status = job["metadata"], job.get("status") or {}
    done = {c["type"]: c for c in status.get("conditions") or () if c.get("status") == "True"}
    ended = done.get("Failed") or done.get("FailureTarget") or {}
    pod = next((p for p in pods if owned(p, meta["uid"])), None)
    active = not done.keys() & {"Complete", "SuccessCriteriaMet", "Failed", "FailureTarget"}
    number = _JOB_NUMBER.search(meta["name"])
    created = moment(meta["creationTimestamp"])
    pending = active and (pod is None or (pod.get("status") or {}).get("phase", "Pending") == "Pending")
    return JobView(
        name=meta["name"],
        number=int(number[1]) if number else 0,
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        created=created,
        active=active and "deletionTimestamp" not in meta,
        succeeded=bool(done.keys() & {"Complete", "SuccessCriteriaMet"}),
        failed=bool(ended),
        reason=_job_reason(ended, pod),
        pending_since=(moment(pod["metadata"]["creationTimestamp"]) if pod else created) if pending else None,
    )


def _job_reason(ended: Mapping[str, Any], pod: Object | None) -> str:
    """Why the Job failed or does not start: its pod's words, else its own."""
    why = failure(pod) if pod else None
    if why:
        return f"{why.reason}: {why.message}"
    return ": ".join(str(ended[name]) for name in ("reason", "message") if ended.get(name))


def benchmark_view(
    benchmark: Object, jobs: Sequence[Object], pods: Sequence[Object], evidence: Evidence
) -> BenchmarkView:
    """A Benchmark with its Jobs and `evidence`."""
    meta = benchmark["metadata"]
    own = [job for job in jobs if owned(job, meta["uid"])]
    views = sorted((job_view(job, pods) for job in own), key=lambda view: view.number)
    return BenchmarkView(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        created=moment(meta["creationTimestamp"]),
        spec=benchmark["spec"],
        finished=finished(benchmark),
        jobs=tuple(views),
        evidence=evidence,
    )


def finished(benchmark: Object) -> bool:
    """Whether its final evidence is written."""
    return bool((benchmark.get("status") or {}).get("finishedAt"))


def stored_evidence(benchmark: Object) -> Evidence:
    """The evidence of a finished Benchmark, as written; its samples are not read again."""
    status = BenchmarkStatus.parse(benchmark.get("status") or {}, "status")
    verdict = status.verdict or {}
    return Evidence(
        outcome=status.outcome or "Continue",
        reason=str(verdict.get("reason", "")),
        message=status.message or "",
        claim=str(verdict.get("claim", "")),
        slots=status.slots or 0,
        void_slots=int(verdict.get("voidSlots", 0)),
        requests=status.requests or 0,
        first_at=moment(status.started_at) if status.started_at else None,
        verdict=verdict,
    )
