"""What a measurement consists of: the Benchmark, its Job with plan and account, and the Baseline that comes of it."""

import json
from collections.abc import Mapping
from typing import Any

from tailguard_operator.api.base import API_VERSION
from tailguard_operator.plan.decision import BaselineOrder, BenchmarkOrder, JobOrder, PodTarget
from tailguard_operator.resources.overlay import merge
from tailguard_operator.resources.owner import BENCHMARK_LABEL, SERVICE_LABEL, Owner
from tailguard_operator.resources.profile import Gate, Installation
from tailguard_operator.resources.workload import KEY as WORKLOAD_KEY
from tailguard_runtime.engines import PROBE_PORT, SERVING_PORT

ACCOUNT_ROLE = "tailguard-benchmark"
"""ClusterRole of the chart that may create ConfigMaps and nothing else."""
CONTAINER = "benchmark"
PLAN_DIRECTORY = "/etc/tailguard"
PLAN_KEY = "plan.json"
ASSUMED_CONTEXT = 1024
"""Tokens; when neither flags nor model tell the context. The default workload's prompts are scaled to it."""
REQUEST_TIMEOUT_SECONDS = 60
WARMUP = {"minRounds": 3, "maxSeconds": 120}
_CONFIG_MAP_LIMIT = 1024 * 1024
_NO_GATE = Gate()
_DEADLINE_MARGIN_SECONDS = 600


class PlanError(ValueError):
    """A benchmark that can't be written down; the message names the field, its value and what to do."""


def benchmark(owner: Owner, order: BenchmarkOrder) -> dict[str, Any]:
    """The Benchmark of `order`."""
    return _kind("Benchmark", owner, order.name, order.spec)


def baseline(owner: Owner, order: BaselineOrder) -> dict[str, Any]:
    """The Baseline of `order`."""
    return _kind("Baseline", owner, order.name, order.spec)


def account_name(service: str) -> str:
    """Name of the ServiceAccount of the service's benchmark pods."""
    return f"{service}-tailguard-benchmark"


def job_account(owner: Owner) -> tuple[dict[str, Any], dict[str, Any]]:
    """ServiceAccount and RoleBinding of the service's benchmark pods. No pod gets its token without asking for it."""
    name = account_name(owner.name)
    labels = {SERVICE_LABEL: owner.name}
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": owner.metadata(name, labels),
        "automountServiceAccountToken": False,
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": owner.metadata(name, labels),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": owner.namespace}],
    }
    return account, binding


def job_name(order: JobOrder) -> str:
    """Name of the Job of `order`: BENCHMARK-jNUMBER."""
    return f"{order.benchmark}-j{order.number}"


def plan_name(order: JobOrder) -> str:
    """Name of the ConfigMap that tells the Job of `order` what to do (BENCHMARK-NUMBER are the Job's own)."""
    return f"{job_name(order)}-plan"


def plan_config_map(
    owner: Owner,
    order: JobOrder,
    canary: Mapping[str, Any],
    twin: Mapping[str, Any],
    jsonl: str | None,
    gate: Gate = _NO_GATE,
) -> dict[str, Any]:
    """The immutable ConfigMap with the Job's plan and, if there are some, the user's requests.

    Args:
        owner: the service.
        order: the Job.
        canary: stored data of the canary's revision.
        twin: stored data of the twin's revision.
        jsonl: the user's requests; None for the default workload.
        gate: how late the generator may be here.

    Raises:
        PlanError: the arms answer to different names, or plan and requests are too large for a ConfigMap.
    """
    plan = _plan(owner, order, canary, twin, jsonl is not None)
    if limits := gate.to_object():
        plan["gate"] = limits
    data = {PLAN_KEY: json.dumps(plan, indent=1, sort_keys=True)} | ({WORKLOAD_KEY: jsonl} if jsonl is not None else {})
    size = sum(len(key) + len(text.encode()) for key, text in data.items())
    if size > _CONFIG_MAP_LIMIT:
        raise PlanError(
            f"spec.rollout.benchmark.workloadRef: the requests make the plan {size} bytes; a ConfigMap holds at most "
            f"{_CONFIG_MAP_LIMIT}, keep fewer requests"
        )
    metadata = _benchmark_owner(owner, order).metadata(plan_name(order), _labels(owner, order))
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True, "data": data}


def job(owner: Owner, order: JobOrder, installation: Installation) -> dict[str, Any]:
    """The Job of `order`; its one pod runs once and is not tried again, a new number is."""
    labels = _labels(owner, order)
    template = {"metadata": {"labels": labels}, "spec": _pod(owner, order, installation)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _benchmark_owner(owner, order).metadata(job_name(order), labels),
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": _deadline_seconds(order),
            "template": merge(template, installation.job_template, "jobTemplate"),
        },
    }


def _kind(kind: str, owner: Owner, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = owner.metadata(name, {SERVICE_LABEL: owner.name})
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def _benchmark_owner(owner: Owner, order: JobOrder) -> Owner:
    return Owner(order.benchmark, owner.namespace, order.benchmark_uid, kind="Benchmark")


def _labels(owner: Owner, order: JobOrder) -> dict[str, str]:
    return {SERVICE_LABEL: owner.name, BENCHMARK_LABEL: order.benchmark}


def _plan(
    owner: Owner, order: JobOrder, canary: Mapping[str, Any], twin: Mapping[str, Any], own_requests: bool
) -> dict[str, Any]:
    if canary["servedName"] != twin["servedName"]:
        raise PlanError(
            f"spec.model.servedName: the canary answers to {canary['servedName']!r} and the stable revision to "
            f"{twin['servedName']!r}; both arms get the same requests, so keep the name and serve the new one as a "
            "new service"
        )
    ends = {} if order.valid_slots is None else {"validSlots": order.valid_slots}
    return ends | {
        "benchmark": {
            "name": order.benchmark,
            "namespace": owner.namespace,
            "uid": order.benchmark_uid,
            "service": owner.name,
        },
        "engine": canary["engine"]["type"],
        "servedName": canary["servedName"],
        "arms": {"canary": _arm(order.canary), "twin": _arm(order.twin)},
        "startSlot": order.start_slot,
        "maxSlots": order.max_slots,
        "seed": order.spec["seed"],
        "ratePerSecond": order.spec["ratePerSecond"],
        "slot": dict(order.spec["slot"]),
        "timeoutSeconds": REQUEST_TIMEOUT_SECONDS,
        "workload": _workload(order, canary, twin, own_requests),
        "warmup": dict(WARMUP),
        "judge": dict(order.spec["judge"]),
    }


def _arm(target: PodTarget) -> dict[str, str]:
    host = f"[{target.ip}]" if ":" in target.ip else target.ip
    return {
        "url": f"http://{host}:{SERVING_PORT}",
        "probe": f"http://{host}:{PROBE_PORT}",
        "pod": target.pod,
        "revision": target.revision,
    }


def _workload(
    order: JobOrder, canary: Mapping[str, Any], twin: Mapping[str, Any], own_requests: bool
) -> dict[str, Any]:
    known = [data["contextLength"] for data in (canary, twin) if "contextLength" in data]
    digest = order.spec["workload"]["hash"]
    if own_requests:
        path = f"{PLAN_DIRECTORY}/{WORKLOAD_KEY}"
        return {"kind": "Jsonl", "path": path, "hash": digest} | ({"maxModelLen": min(known)} if known else {})
    return {"kind": "Default", "maxModelLen": min(known, default=ASSUMED_CONTEXT), "hash": digest}


def _pod(owner: Owner, order: JobOrder, installation: Installation) -> dict[str, Any]:
    container = {
        "name": CONTAINER,
        "image": installation.runtime_image,
        "command": list(installation.runtime_command),
        "args": ["-m", "tailguard_runtime.load.job", "--plan", f"{PLAN_DIRECTORY}/{PLAN_KEY}"],
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "plan", "mountPath": PLAN_DIRECTORY, "readOnly": True}],
    }
    return {
        "serviceAccountName": account_name(owner.name),
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "plan", "configMap": {"name": plan_name(order)}}],
    }


def _deadline_seconds(order: JobOrder) -> int:
    """Far beyond any benchmark that makes progress: every half may wait a whole time-out for its last request."""
    slot = order.spec["slot"]
    half: float = max(slot["minSeconds"], slot["requests"] / order.spec["ratePerSecond"]) + REQUEST_TIMEOUT_SECONDS
    slots = max(1, order.max_slots - order.start_slot)
    return round(WARMUP["maxSeconds"] + 2 * half * slots) + _DEADLINE_MARGIN_SECONDS
