"""What a measurement consists of: Benchmark, Job, plan, account and Baseline."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tailguard_operator.plan.decision import BaselineOrder, BenchmarkOrder, JobOrder
from tailguard_operator.resources.measure import (
    PlanError,
    baseline,
    benchmark,
    job,
    job_account,
    job_name,
    plan_config_map,
    plan_name,
)
from tailguard_operator.resources.owner import Owner
from tailguard_operator.resources.profile import Gate, Installation
from tailguard_operator.resources.workload import SIZE_LIMIT
from tailguard_runtime.load.plan import Plan

CANARY = {"servedName": "chat", "contextLength": 512, "engine": {"type": "VLLM"}}
TWIN = {"servedName": "chat", "contextLength": 1024, "engine": {"type": "VLLM"}}
LINES = '{"prompt": "Hello", "max_tokens": 8}\n'


def plan(owner: Owner, order: JobOrder, jsonl: str | None = None, **canary: Any) -> dict[str, Any]:
    data = plan_config_map(owner, order, {**CANARY, **canary}, TWIN, jsonl)["data"]
    found: dict[str, Any] = json.loads(data["plan.json"])
    return found


def test_the_plan_is_what_the_job_reads(owner: Owner, order: JobOrder) -> None:
    # When
    read = Plan.model_validate(plan(owner, order))
    # Then
    assert (read.benchmark.name, read.benchmark.namespace, read.benchmark.uid) == ("chat-new-b1", "team-a", "uid-b")
    assert read.benchmark.service == "chat"
    assert (read.engine, read.served_name) == ("VLLM", "chat")
    assert (read.start_slot, read.max_slots, read.seed, read.rate_per_second) == (7, 120, 1234, 5)
    assert (read.slot.requests, read.slot.min_seconds) == (50, 10)
    assert read.judge_spec().to_json() == order.spec["judge"]


def test_the_users_requests_travel_with_the_plan(owner: Owner, order: JobOrder) -> None:
    # When
    made = plan_config_map(owner, order, CANARY, TWIN, LINES)
    # Then
    assert made["data"]["workload.jsonl"] == LINES
    read = Plan.model_validate(json.loads(made["data"]["plan.json"]))
    assert (read.workload.kind, getattr(read.workload, "path", None)) == (
        "Jsonl",
        Path("/etc/tailguard/workload.jsonl"),
    )
    assert (read.workload.max_model_len, read.workload.hash) == (512, "abc")


def test_each_arm_is_reached_at_its_own_pod(owner: Owner, order: JobOrder) -> None:
    assert plan(owner, order)["arms"] == {
        "canary": {"url": "http://10.0.0.7:8000", "probe": "http://10.0.0.7:9901", "pod": "c-1", "revision": "new"},
        "twin": {"url": "http://[fd00::8]:8000", "probe": "http://[fd00::8]:9901", "pod": "t-1", "revision": "old"},
    }


@pytest.mark.parametrize(
    ("canary", "twin", "assumed"), [(512, 1024, 512), (2048, 1024, 1024), (None, 1024, 1024), (None, None, 1024)]
)
def test_requests_fit_the_shorter_context(
    canary: int | None, twin: int | None, assumed: int, owner: Owner, order: JobOrder
) -> None:
    """R-178: length settings are equal on both sides, also when the change under test is the context."""
    # Given
    arms = [
        {k: v for k, v in {**CANARY, "contextLength": length}.items() if v is not None} for length in (canary, twin)
    ]
    # When
    made = plan_config_map(owner, order, arms[0], arms[1], None)
    # Then
    assert json.loads(made["data"]["plan.json"])["workload"] == {
        "kind": "Default",
        "maxModelLen": assumed,
        "hash": "abc",
    }


def test_a_users_lines_have_no_limit_while_the_context_is_unknown(owner: Owner, order: JobOrder) -> None:
    arms = [{k: v for k, v in CANARY.items() if k != "contextLength"}] * 2
    made = json.loads(plan_config_map(owner, order, arms[0], arms[1], LINES)["data"]["plan.json"])
    assert "maxModelLen" not in made["workload"]
    assert Plan.model_validate(made).workload.max_model_len is None


def test_arms_that_answer_to_different_names_cannot_be_compared(owner: Owner, order: JobOrder) -> None:
    with pytest.raises(PlanError, match=r"spec\.model\.servedName: .* 'other' .* 'chat'; .* new service"):
        plan(owner, order, servedName="other")


def test_a_plan_that_fits_and_one_that_does_not(owner: Owner, order: JobOrder) -> None:
    # Given
    line = '{"prompt": "' + "é" * 1000 + '", "max_tokens": 8}\n'
    most = line * (SIZE_LIMIT // len(line.encode()))
    # Then
    assert plan(owner, order, most)["workload"]["kind"] == "Jsonl"
    with pytest.raises(PlanError, match=r"workloadRef: .* plan \d+ bytes; a ConfigMap holds at most 1048576"):
        plan(owner, order, most + line * 64)


def test_the_plan_is_immutable_and_goes_with_its_benchmark(owner: Owner, order: JobOrder) -> None:
    # When
    made = plan_config_map(owner, order, CANARY, TWIN, None)
    # Then
    assert made["immutable"] is True
    assert made["metadata"]["name"] == plan_name(order) == "chat-new-b1-j2-plan"
    assert made["metadata"]["namespace"] == "team-a"
    reference = made["metadata"]["ownerReferences"][0]
    assert (reference["kind"], reference["name"], reference["uid"]) == ("Benchmark", "chat-new-b1", "uid-b")


def test_the_plans_name_is_none_that_a_job_writes_its_samples_to(order: JobOrder) -> None:
    assert plan_name(order).removeprefix(order.benchmark + "-") not in {str(n) for n in range(1000)}


def test_the_job_runs_the_generator_over_the_mounted_plan(
    owner: Owner, order: JobOrder, installation: Installation
) -> None:
    # When
    pod = job(owner, order, installation)["spec"]["template"]["spec"]
    # Then
    [container] = pod["containers"]
    assert container["image"] == "tailguard/runtime:1"
    assert container["command"] == ["taskset", "-c", "0", "python3"]
    assert container["args"] == ["-m", "tailguard_runtime.load.job", "--plan", "/etc/tailguard/plan.json"]
    [mount], [volume] = container["volumeMounts"], pod["volumes"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], "/etc/tailguard")
    assert volume["configMap"]["name"] == plan_name(order)


def test_the_job_runs_once_under_its_own_account(owner: Owner, order: JobOrder, installation: Installation) -> None:
    # When
    made = job(owner, order, installation)
    pod = made["spec"]["template"]["spec"]
    # Then
    assert (made["spec"]["backoffLimit"], pod["restartPolicy"]) == (0, "Never")
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("chat-tailguard-benchmark", True)
    assert made["metadata"]["name"] == job_name(order) == "chat-new-b1-j2"
    assert made["metadata"]["ownerReferences"][0]["kind"] == "Benchmark"


def test_the_jobs_pod_is_selected_by_no_pool_and_no_service(
    owner: Owner, order: JobOrder, installation: Installation
) -> None:
    labels = job(owner, order, installation)["spec"]["template"]["metadata"]["labels"]
    assert labels == {"tailguard.dev/service": "chat", "tailguard.dev/benchmark": "chat-new-b1"}


def test_the_installation_overlays_the_jobs_pod(owner: Owner, order: JobOrder, installation: Installation) -> None:
    # Given
    overlay = {
        "spec": {
            "containers": [{"name": "benchmark", "resources": {"requests": {"cpu": "10m"}}}],
            "volumes": [{"name": "python", "hostPath": {"path": "/opt"}}],
        }
    }
    # When
    template = job(owner, order, installation.model_copy(update={"job_template": overlay}))["spec"]["template"]
    # Then
    [container] = template["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "10m", "memory": "256Mi"}
    assert container["image"] == "tailguard/runtime:1"
    assert [v["name"] for v in template["spec"]["volumes"]] == ["plan", "python"]


def test_a_stuck_job_ends_some_time_after_every_possible_benchmark(
    owner: Owner, order: JobOrder, installation: Installation
) -> None:
    """Halves of 10 s, each waiting 60 s for its last request, over 113 slots, a warm-up of 120 s, and ten minutes."""
    deadline = job(owner, order, installation)["spec"]["activeDeadlineSeconds"]
    assert deadline == 113 * 2 * 70 + 120 + 600
    slow = dataclasses.replace(order, spec={**order.spec, "ratePerSecond": 1})
    assert job(owner, slow, installation)["spec"]["activeDeadlineSeconds"] == 113 * 2 * 110 + 120 + 600


def test_the_account_may_do_what_the_charts_role_says_and_no_pod_gets_its_token_unasked(owner: Owner) -> None:
    # When
    account, binding = job_account(owner)
    # Then
    assert account["metadata"]["name"] == binding["metadata"]["name"] == "chat-tailguard-benchmark"
    assert account["automountServiceAccountToken"] is False
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "tailguard-benchmark",
    }
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "chat-tailguard-benchmark", "namespace": "team-a"}
    ]
    assert binding["metadata"]["ownerReferences"][0]["uid"] == "uid-1"


def test_benchmark_and_baseline_are_their_orders(owner: Owner, order: JobOrder) -> None:
    made = benchmark(owner, BenchmarkOrder("chat-new-b1", order.spec))
    frozen = baseline(owner, BaselineOrder("chat-0a1b", {"revision": "r"}))
    assert (made["apiVersion"], made["kind"], made["spec"]) == ("tailguard.dev/v1alpha1", "Benchmark", order.spec)
    assert (frozen["kind"], frozen["metadata"]["name"], frozen["spec"]) == ("Baseline", "chat-0a1b", {"revision": "r"})
    for child in (made, frozen):
        assert child["metadata"]["ownerReferences"][0]["name"] == "chat"
        assert child["metadata"]["labels"]["tailguard.dev/service"] == "chat"


def test_names_fit_for_the_longest_service() -> None:
    longest = JobOrder("s" * 36 + "-1a2b3c4d-b999", "u", 9, 0, 1, None, {}, None, None)  # type: ignore[arg-type]
    assert len(job_name(longest)) + len("-xxxxx") <= 63


def test_a_freeze_ends_after_so_many_valid_slots_whatever_they_show(owner: Owner, order: JobOrder) -> None:
    # Given the Job of a Baseline, which needs seven more valid slots
    freezing = dataclasses.replace(order, valid_slots=7)
    # Then its plan says so, and that of a comparison leaves it to the evidence
    assert plan(owner, freezing)["validSlots"] == 7
    assert "validSlots" not in plan(owner, order)


def test_the_installation_says_how_late_the_generator_may_be(owner: Owner, order: JobOrder) -> None:
    # Given an installation whose generator shares its core
    gate = Gate(lateness_milliseconds=30)
    # Then the plan has that limit, the rest is the generator's own, and without one nothing is said
    made = json.loads(plan_config_map(owner, order, CANARY, TWIN, None, gate)["data"]["plan.json"])
    read = Plan.model_validate(made)
    assert (made["gate"], read.gate.lateness_milliseconds, read.gate.rate_percent) == (
        {"latenessMilliseconds": 30},
        30,
        1,
    )
    assert "gate" not in plan(owner, order)
