"""The three kinds of `tailguard.dev/v1alpha1` as pydantic models: the one source of `crds/`."""

from tailguard_operator.api.base import API_VERSION, GROUP, VERSION, Duration, FieldProblem, InvalidObject
from tailguard_operator.api.baseline import Baseline, BaselineSpec
from tailguard_operator.api.benchmark import Benchmark, BenchmarkSpec, BenchmarkStatus
from tailguard_operator.api.conditions import Condition, set_condition
from tailguard_operator.api.service import InferenceService, InferenceServiceSpec
from tailguard_operator.api.status import InferenceServiceStatus

__all__ = [
    "API_VERSION",
    "GROUP",
    "VERSION",
    "Baseline",
    "BaselineSpec",
    "Benchmark",
    "BenchmarkSpec",
    "BenchmarkStatus",
    "Condition",
    "Duration",
    "FieldProblem",
    "InferenceService",
    "InferenceServiceSpec",
    "InferenceServiceStatus",
    "InvalidObject",
    "set_condition",
]
