"""Objects as decisions see them."""

from typing import Any

import pytest

from tailguard_operator.api import InvalidObject
from tailguard_operator.cluster import views
from tailguard_operator.cluster.kinds import JOB, POD, Object

UID = "uid-job"


def job(name: str = "chat-1a2b3c4d-b1-j2", conditions: list[dict[str, str]] | None = None) -> Object:
    meta = {"uid": UID, "resourceVersion": "5", "creationTimestamp": "2026-12-01T10:00:00Z"}
    return JOB.partial("default", name, **meta) | {"status": {"conditions": conditions or []}}


def pod_of_job(phase: str, **status: Any) -> Object:
    owner = {"kind": "Job", "name": "j", "uid": UID, "controller": True}
    head = POD.partial("default", "p", creationTimestamp="2026-12-01T10:00:02Z", ownerReferences=[owner])
    return head | {"spec": {}, "status": {"phase": phase} | status}


def test_a_spec_that_cannot_be_read_is_read_section_by_section() -> None:
    # Given a spec with one bad section and two good ones
    written = {
        "model": {"uri": "hf://a/b"},
        "replicas": 4,
        "rollout": {"tolerance": 0},
        "engine": {"args": ["--max-num-seqs=4"]},
    }
    # When it is read
    spec, problems = views.read_spec({"spec": written})
    # Then what is good is kept, what is bad has its default and is named
    assert (spec.replicas, spec.model.uri, spec.rollout.tolerance) == (4, "hf://a/b", 8)
    assert spec.engine is not None and spec.engine.args == ["--max-num-seqs=4"]
    assert len(problems) == 1 and problems[0].startswith("spec.rollout.tolerance: 0 is not allowed")


def test_a_spec_without_a_readable_model_still_keeps_its_size() -> None:
    spec, problems = views.read_spec({"spec": {"model": {"uri": "what"}, "replicas": 2, "unheard": 1}})
    assert (spec.replicas, spec.model.uri) == (2, views.UNREADABLE_MODEL)
    assert {p.split(":")[0] for p in problems} == {"spec.model.uri", "spec.unheard"}


def test_a_status_that_nobody_of_us_wrote_is_an_error_and_not_a_fresh_start() -> None:
    with pytest.raises(InvalidObject, match=r"status\.phase"):
        views.read_status({"status": {"phase": "Running"}})


def test_commands_are_our_annotations_only() -> None:
    annotations = {"tailguard.dev/retry": "1", "tailguard.dev/other": "2", "retry": "3"}
    assert views.commands({"metadata": {"annotations": annotations}}) == {"retry": "1"}


def test_a_job_whose_pod_waits_is_pending_since_then() -> None:
    view = views.job_view(job(), [pod_of_job("Pending")])
    assert (view.number, view.active) == (2, True)
    assert view.pending_since is not None and view.pending_since.second == 2
    # And without a pod since the Job was made, but not once the pod runs
    without = views.job_view(job(), [])
    assert without.pending_since == without.created
    assert views.job_view(job(), [pod_of_job("Running")]).pending_since is None


def test_a_failed_job_says_what_its_pod_said() -> None:
    # Given a Job whose pod has failed with a last word
    failed = [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "limit"}]
    ended = {"state": {"terminated": {"exitCode": 3, "reason": "Error", "message": "no route to the canary"}}}
    pod = pod_of_job("Failed", containerStatuses=[{"name": "benchmark"} | ended])
    # Then that is the reason; without the pod, the Job's own
    view = views.job_view(job(conditions=failed), [pod])
    assert (view.failed, view.active, view.succeeded) == (True, False, False)
    assert "no route to the canary" in view.reason
    assert views.job_view(job(conditions=failed), []).reason == "BackoffLimitExceeded: limit"


def test_a_finished_job_has_succeeded() -> None:
    view = views.job_view(job(conditions=[{"type": "Complete", "status": "True"}]), [])
    assert (view.succeeded, view.failed, view.active) == (True, False, False)


def test_whose_an_object_is() -> None:
    # Given one owned by another service, and one that a person made
    owner = {"kind": "InferenceService", "name": "code", "uid": "u2", "controller": True}
    theirs = POD.partial("default", "x", ownerReferences=[owner])
    nobodys = POD.partial("default", "y", managedFields=[{"manager": "helm"}])
    # Then each is told by its owner
    assert "belongs to InferenceService code" in views.foreign(theirs)
    assert "belongs to nobody (made by helm)" in views.foreign(nobodys)
    assert views.owned(theirs, "u2") and not views.owned(theirs, "u1")


def test_a_finished_benchmark_is_known_by_its_status_alone() -> None:
    # Given a Benchmark with final evidence
    status = {
        "outcome": "Alarm",
        "message": "TTFT is worse",
        "slots": 12,
        "requests": 1200,
        "startedAt": "2026-12-01T10:00:00Z",
        "finishedAt": "2026-12-01T10:10:00Z",
        "verdict": {"voidSlots": 2, "reason": "LatencyDrift"},
    }
    # When it is read
    evidence = views.stored_evidence({"status": status})
    # Then
    assert views.finished({"status": status}) and not views.finished({})
    assert (evidence.outcome, evidence.slots, evidence.void_slots, evidence.reason) == ("Alarm", 12, 2, "LatencyDrift")
