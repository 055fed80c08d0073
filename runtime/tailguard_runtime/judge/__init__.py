"""The judge: samples in, verdict with its evidence out. Pure: no I/O, no clock, no logging."""

from tailguard_runtime.judge.comparability import Comparison, Difference, compare_environments
from tailguard_runtime.judge.freeze import Frozen, FrozenFormatError, FrozenQuantile, freeze
from tailguard_runtime.judge.objectives import ObjectiveResult, measure_objective
from tailguard_runtime.judge.offset import StartOffset, offset_sd
from tailguard_runtime.judge.process import Process, SlotOrderError, judge
from tailguard_runtime.judge.quantiles import PercentileError, Quantile
from tailguard_runtime.judge.samples import ARMS, Arm, Half, SampleFormatError, Slot, decode_slot, encode_slot
from tailguard_runtime.judge.spec import (
    ErrorRates,
    JudgeSpec,
    Metric,
    Proof,
    RequestClass,
    SpecError,
)
from tailguard_runtime.judge.verdict import Estimate, Outcome, TrailPoint, Verdict, VerdictFormatError

__all__ = [
    "ARMS",
    "Arm",
    "Comparison",
    "Difference",
    "ErrorRates",
    "Estimate",
    "Frozen",
    "FrozenFormatError",
    "FrozenQuantile",
    "Half",
    "JudgeSpec",
    "Metric",
    "ObjectiveResult",
    "Outcome",
    "PercentileError",
    "Process",
    "Proof",
    "Quantile",
    "RequestClass",
    "SampleFormatError",
    "Slot",
    "SlotOrderError",
    "SpecError",
    "StartOffset",
    "TrailPoint",
    "Verdict",
    "VerdictFormatError",
    "compare_environments",
    "decode_slot",
    "encode_slot",
    "freeze",
    "judge",
    "measure_objective",
    "offset_sd",
]
