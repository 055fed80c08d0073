"""The benchmark's plan: one JSON file, written by whoever starts the Job and read once by it.

The JSON is the contract; the writer need not import this module. Names are camelCase, unknown fields are refused, and
nothing here has a default that would change what is measured except where the field says so.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from tailguard_runtime.judge import JudgeSpec


class PlanError(ValueError):
    """The plan can't be run; the text names the field, its value and what is allowed."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)


class BenchmarkRef(_Strict):
    """The Benchmark object that owns the samples."""

    name: str = Field(min_length=1, max_length=240, description="Also the prefix of every stored object's name.")
    namespace: str = Field(min_length=1)
    uid: str = Field(min_length=1, description="For the owner reference, so that the samples go when it goes.")
    service: str = Field(default="", description="Value of the label tailguard.dev/service; empty: no label.")


class ArmRef(_Strict):
    """One pod under test."""

    url: str = Field(pattern=r"^https?://[^/]+$", description="Origin of the serving port, no path.")
    probe: str | None = Field(
        default=None,
        pattern=r"^https?://[^/]+$",
        description="Origin of the guard's own port. Without it the engine's metrics tell whether it is drained.",
    )
    pod: str = Field(description="Pod name, kept in the samples.")
    revision: str = Field(description="Revision name, kept in the samples.")


class Arms(_Strict):
    """Both arms; in an A/A start `aa-a` plays canary and `aa-b` plays twin."""

    canary: ArmRef
    twin: ArmRef


class SlotShape(_Strict):
    """Size of one slot, an arm."""

    requests: int = Field(ge=1, le=2_000, description="Requests in each half; must equal the judge's slotRequests.")
    min_seconds: float = Field(
        ge=0, le=3_600, description="A half lasts at least this long: arrivals spread out, none are added."
    )


class DefaultWorkload(_Strict):
    """Lengths of real chat traffic scaled to the model's context, random prompts (see `workload`)."""

    kind: Literal["Default"]
    max_model_len: int = Field(ge=64, le=10_000_000, description="Tokens of prompt and output together.")
    hash: str = Field(default="", description="The operator's key of this workload; kept in the samples.")
    vocab_size: int | None = Field(
        default=None, ge=64, description="Without it, usable tokens are asked from /tokenize of both arms."
    )


class JsonlWorkload(_Strict):
    """A user's own requests, one JSON object a line."""

    kind: Literal["Jsonl"]
    path: Path = Field(description="Where the file is mounted.")
    max_model_len: int | None = Field(default=None, ge=64, description="If given, longer lines are refused.")
    hash: str = Field(default="", description="The operator's key of this workload; kept in the samples.")


Workload = Annotated[DefaultWorkload | JsonlWorkload, Field(discriminator="kind")]


class Warmup(_Strict):
    """When the arms count as warm."""

    min_rounds: int = Field(default=3, ge=1, le=100)
    max_seconds: float = Field(default=120, ge=0, le=3_600, description="Then the benchmark starts anyway.")


class Gate(_Strict):
    """How far the load may be off before a slot is void. The defaults hold for a generator that shares its cores.

    Both arms are sent to by the same generator in a coin's order, so its lateness is noise and never favours one.
    """

    lateness_milliseconds: int = Field(
        default=5, ge=1, description="P99 of send lateness; 1 % of the median time to first token if that is more."
    )
    loop_lag_milliseconds: int = Field(default=20, ge=1, description="P99 of how late the event loop wakes.")
    rate_percent: int = Field(default=1, ge=1, le=100, description="Achieved against scheduled rate, either way.")


class Plan(_Strict):
    """Everything one benchmark Job needs to know."""

    benchmark: BenchmarkRef
    engine: Literal["VLLM", "TensorRTLLM"]
    served_name: str = Field(min_length=1, description="`model` of every request.")
    arms: Arms
    start_slot: int = Field(default=0, ge=0, description="First number to try; taken numbers are skipped.")
    max_slots: int = Field(ge=1, le=10_000, description="Slots of this benchmark in all, void ones included.")
    valid_slots: int | None = Field(
        default=None,
        ge=1,
        description="End at so many valid slots, whatever the judge says (a freeze). Without it the judge ends it.",
    )
    seed: int = Field(ge=0, lt=2**63, description="With the slot number it fixes prompts, arrivals and the coin.")
    rate_per_second: float = Field(gt=0, le=10_000, description="Arrivals to the arm whose half runs.")
    slot: SlotShape
    timeout_seconds: float = Field(gt=0, le=3_600, description="From the intended send; later answers are failures.")
    workload: Workload
    warmup: Warmup = Warmup()
    gate: Gate = Gate()
    judge: Annotated[dict[str, Any], Field(description="JudgeSpec as JSON; the same that the operator judges by.")]

    @model_validator(mode="after")
    def _judge_agrees(self) -> "Plan":
        spec = self.judge_spec()
        if spec.slot_requests != self.slot.requests:
            raise ValueError(
                f"judge.slotRequests is {spec.slot_requests} and slot.requests is {self.slot.requests}: "
                "they must be equal"
            )
        return self

    def judge_spec(self) -> JudgeSpec:
        """Return the judge's parameters.

        Raises:
            ValueError: the JSON is no valid JudgeSpec.
        """
        return JudgeSpec.from_json(self.judge)


def load_plan(path: Path) -> Plan:
    """Read and check the plan.

    Raises:
        PlanError: unreadable, no JSON, or a field is wrong; every wrong field is named.
    """
    try:
        return Plan.model_validate(json.loads(path.read_text()))
    except OSError as error:
        raise PlanError(f"plan {path}: can't be read ({error.strerror}); mount it or pass --plan FILE") from error
    except json.JSONDecodeError as error:
        raise PlanError(f"plan {path}: line {error.lineno}: no JSON ({error.msg})") from error
    except ValidationError as error:
        raise PlanError(f"plan {path}: " + describe(error)) from error


def describe(error: ValidationError) -> str:
    """Return every wrong field with its value and what is allowed, in one line."""
    return "; ".join(_sentence(detail) for detail in error.errors())


def _sentence(detail: Any) -> str:
    field = ".".join(str(part) for part in detail["loc"]) or "the object"
    value = json.dumps(detail["input"], default=str)
    shown = value if len(value) <= 60 else value[:57] + "..."
    return f"{field}: {shown}: {detail['msg']}"
