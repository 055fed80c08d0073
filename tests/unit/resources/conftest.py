"""An installation with one profile of each kind, a service and the objects around it."""

from collections.abc import Callable
from typing import Any

import pytest

from tailguard_operator.api.service import InferenceServiceSpec
from tailguard_operator.plan.decision import JobOrder, PodTarget
from tailguard_operator.resources.owner import Owner
from tailguard_operator.resources.profile import Installation

MakeSpec = Callable[..., InferenceServiceSpec]
MODEL = {"uri": "file:///models/tiny"}


@pytest.fixture
def installation() -> Installation:
    return Installation.parse(
        {
            "namespace": "tailguard-system",
            "defaultProfile": "vllm-cpu",
            "runtimeImage": "tailguard/runtime:1",
            "runtimeCommand": ["taskset", "-c", "0", "python3"],
            "profiles": {
                "vllm-cpu": {
                    "type": "VLLM",
                    "version": "0.32.0",
                    "image": "vllm/cpu:1",
                    "args": ["--max-num-seqs=2", "--max-model-len=512"],
                    "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
                    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                    "template": {"spec": {"tolerations": [{"key": "cpu", "operator": "Exists"}]}},
                    "modelBytes": 1_000_000_000,
                },
                "vllm-cuda": {"type": "VLLM", "version": "0.32.0", "image": "vllm/cuda:1"},
                "trtllm": {"type": "TensorRTLLM", "version": "1.2.0", "image": "trtllm:1"},
            },
        },
        "installation",
    )


@pytest.fixture
def owner() -> Owner:
    return Owner("chat", "team-a", "uid-1")


@pytest.fixture
def make_spec() -> MakeSpec:
    """A spec with `model.uri` and whatever else is said."""

    def make(**fields: Any) -> InferenceServiceSpec:
        return InferenceServiceSpec.parse({"model": MODEL, **fields}, "spec")

    return make


@pytest.fixture
def order() -> JobOrder:
    spec = {
        "service": "chat",
        "purpose": "Canary",
        "workload": {"hash": "abc"},
        "ratePerSecond": 5,
        "slot": {"requests": 50, "minSeconds": 10},
        "seed": 1234,
        "judge": {
            "metrics": ["TTFT", "TPOT", "Latency"],
            "classes": [{"name": "all", "minPromptTokens": 0}],
            "tolerance": 8,
            "proof": {"typical": 8, "p90": 8, "p99": 25},
            "errorRates": {"rollback": 5, "promote": 5},
            "slotRequests": 50,
            "maxRequests": 12000,
            "spentRequests": 0,
            "offsetSdMillionths": 40000,
            "offsetStarts": 0,
            "thresholdsMicroseconds": {},
        },
    }
    canary, twin = PodTarget("c-1", "10.0.0.7", "new"), PodTarget("t-1", "fd00::8", "old")
    return JobOrder("chat-new-b1", "uid-b", 2, 7, 120, None, spec, canary, twin)
