"""`InferenceService`: what a team writes.

No field under the revision hash (`model`, `engine`), nor `steps`, `guard`, `strategy` or `traffic`, has a default
in the schema: those are filled when read, so that a new default never changes the hash of a running service.
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from tailguard_operator.api.base import Duration, Model, Name

NAME_LIMIT = 36
"""Longest service name: names of pools, benchmarks and jobs are derived from it and must fit in 63 characters."""

_Free = dict[str, Any]


class EngineType(StrEnum):
    """The model servers that Tailguard runs."""

    VLLM = "VLLM"
    TENSORRT_LLM = "TensorRTLLM"


class Metric(StrEnum):
    """What an objective bounds."""

    TTFT = "TTFT"
    TPOT = "TPOT"
    LATENCY = "Latency"
    ERROR_RATE = "ErrorRate"
    THROUGHPUT = "Throughput"
    AVAILABILITY = "Availability"


class ModelSource(Model):
    """The model to serve."""

    uri: Annotated[
        str,
        Field(
            min_length=1,
            max_length=1024,
            pattern=r"^(hf|pvc|file)://.+$",
            description="Where the model is: hf://ORG/NAME, pvc://CLAIM/PATH, or file:///PATH inside the engine's container.",
        ),
    ]
    revision: Annotated[
        str | None,
        Field(
            max_length=128,
            description="Branch, tag or commit of an hf:// model; pinned to a commit when rendered.",
        ),
    ] = None
    served_name: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=128,
            description="The model name that clients send; the service's name if not said.",
        ),
    ] = None


_Quantity = Annotated[
    str | int, Field(json_schema_extra={"x-kubernetes-int-or-string": True}, union_mode="left_to_right")
]


class Resources(Model):
    """Compute resources of the engine's container."""

    requests: Annotated[
        dict[str, _Quantity] | None, Field(max_length=16, description="Least amount, by resource name.")
    ] = None
    limits: Annotated[
        dict[str, _Quantity] | None, Field(max_length=16, description="Most allowed, by resource name.")
    ] = None


class Engine(Model):
    """The model server: every field here is part of the revision."""

    profile: Annotated[
        Name | None, Field(description="Engine profile of the installation; its default profile if not said.")
    ] = None
    type: Annotated[EngineType | None, Field(description="VLLM or TensorRTLLM; the profile's if not said.")] = None
    args: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=4096)]] | None,
        Field(
            max_length=128,
            description="Flags of the model server, checked against the flag table of its version; added to the profile's, later ones win.",
        ),
    ] = None
    kernels: Annotated[
        list[Name] | None,
        Field(
            max_length=32,
            description="Custom kernels by name.",
            json_schema_extra={"x-kubernetes-list-type": "set"},
        ),
    ] = None
    quantization: Annotated[
        str | None, Field(min_length=1, max_length=64, description="Weight quantization, such as fp8.")
    ] = None
    resources: Annotated[Resources | None, Field(description="Compute resources of the engine's container.")] = None
    template: Annotated[
        _Free | None,
        Field(
            description="Overlay of the pod template (strategic merge): node selectors, tolerations, volumes, annotations.",
            json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
        ),
    ] = None


class TokenRange(Model):
    """A range of token counts, both ends included."""

    min: Annotated[int | None, Field(ge=0, le=10_000_000, description="Least number of tokens.")] = None
    max: Annotated[int | None, Field(ge=1, le=10_000_000, description="Largest number of tokens.")] = None


class RequestSelector(Model):
    """Which requests belong to a class."""

    prompt_tokens: Annotated[TokenRange | None, Field(description="By the length of the prompt.")] = None


class Objective(Model):
    """A bound on one metric."""

    metric: Annotated[Metric, Field(description="TTFT, TPOT, Latency, ErrorRate, Throughput or Availability.")]
    percentile: Annotated[
        str | None,
        Field(
            max_length=4,
            pattern=r"^[5-9][0-9](\.[0-9])?$",
            description='Percentile of a latency metric as a string, "50" to "99.9".',
        ),
    ] = None
    max: Annotated[
        str | None,
        Field(
            max_length=32,
            pattern=r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|%)$",
            description="Upper bound: a duration for latency metrics (800ms), a percentage for ErrorRate (1%).",
        ),
    ] = None
    min: Annotated[
        str | None,
        Field(
            max_length=32,
            pattern=r"^[0-9]+(\.[0-9]+)?%?$",
            description="Lower bound: tokens per second for Throughput (1200), a percentage for Availability (99.9%).",
        ),
    ] = None


class ServiceLevel(Model):
    """The objectives of one class of requests."""

    name: Annotated[Name, Field(description="Name of the class.")]
    when: Annotated[RequestSelector | None, Field(description="Which requests belong to it; all if not said.")] = None
    objectives: Annotated[
        list[Objective],
        Field(
            min_length=1,
            max_length=16,
            description="The bounds.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ]


class Strategy(StrEnum):
    """How live users meet a new revision."""

    CANARY = "Canary"
    SHADOW = "Shadow"
    BLUE_GREEN = "BlueGreen"


class OnDrift(StrEnum):
    """What an alarm on live traffic does."""

    ROLLBACK = "Rollback"
    PIN = "Pin"


class OnInconclusive(StrEnum):
    """What a spent budget does."""

    HOLD = "Hold"
    ABORT = "Abort"


class OnNoTraffic(StrEnum):
    """What a live step without traffic does."""

    HOLD = "Hold"
    WAIT = "Wait"
    SYNTHETIC = "Synthetic"


class OnRejected(StrEnum):
    """How a rejected change looks to GitOps tools."""

    HEALTHY = "Healthy"
    STALLED = "Stalled"


class Capacity(StrEnum):
    """Where the twin's room comes from."""

    EXTRA = "Extra"
    BORROW = "Borrow"


class StepVerdict(StrEnum):
    """What a live step waits for."""

    GUARD = "Guard"
    REQUIRED = "Required"


_Percent = Annotated[int, Field(ge=1, le=100)]
_ErrorPercent = Annotated[int, Field(ge=1, le=50)]


class Proof(Model):
    """What PROMOTE has to prove: each statistic within so many percent of the twin's."""

    typical: Annotated[_Percent, Field(description="Typical latency within this, percent.")] = 8
    p90: Annotated[_Percent, Field(description="P90 within this, percent.")] = 8
    p99: Annotated[_Percent, Field(description="P99 within this, percent.")] = 25


class ErrorRates(Model):
    """Upper bounds of wrong verdicts at the boundary, for one pair of pods, in percent."""

    rollback: Annotated[_ErrorPercent, Field(description="Wrong alarms, percent.")] = 5
    promote: Annotated[_ErrorPercent, Field(description="Wrong promotions, percent.")] = 5


class Step(Model):
    """One live step."""

    weight: Annotated[int, Field(ge=1, le=50, description="Share of the traffic for the canary, percent.")]
    min_duration: Annotated[Duration | None, Field(description="Least time of the step; 2m if not said.")] = None
    min_requests: Annotated[
        int | None, Field(ge=1, le=1_000_000, description="Least requests an arm; 200 if not said.")
    ] = None
    verdict: Annotated[
        StepVerdict | None, Field(description="Guard passes without alarm; Required waits for proof.")
    ] = None
    pause: Annotated[bool | None, Field(description="True waits for `tailguard promote`.")] = None


class WorkloadRef(Model):
    """A ConfigMap with a workload in the service's namespace."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=253, description="Name of the ConfigMap; its key workload.jsonl is used."),
    ]


class SlotSize(Model):
    """Size of one slot of the benchmark."""

    requests: Annotated[int, Field(ge=10, le=2000, description="Requests an arm and slot.")] = 50
    min_seconds: Annotated[int, Field(ge=1, le=600, description="Least seconds of each half.")] = 10


class Budget(Model):
    """What a rollout's benchmarks may cost, together."""

    requests: Annotated[int, Field(ge=100, le=10_000_000, description="Requests to both arms.")] = 12000
    minutes: Annotated[int, Field(ge=1, le=10_080, description="Minutes of measuring.")] = 60


class BenchmarkSettings(Model):
    """How a change is measured before users meet it."""

    workload_ref: Annotated[
        WorkloadRef | None, Field(description="Your own requests; a public chat trace's lengths if not said.")
    ] = None
    rate_per_second: Annotated[int, Field(ge=1, le=10_000, description="Requests a second to one arm.")] = 5
    slot: Annotated[SlotSize, Field(description="Size of one slot.")] = SlotSize()
    budget: Annotated[Budget, Field(description="Largest cost.")] = Budget()


class GuardWindow(Model):
    """The time after promotion in which previous pods stay as twin and instant way back."""

    window: Annotated[Duration | None, Field(description="How long; 1h if not said.")] = None
    share: Annotated[
        int | None,
        Field(ge=1, le=50, description="Share of the traffic that stays, percent; 20 if not said."),
    ] = None


class Rollout(Model):
    """How a change proves itself."""

    strategy: Annotated[Strategy | None, Field(description="Canary, Shadow or BlueGreen; Canary if not said.")] = None
    tolerance: Annotated[
        _Percent,
        Field(description="ROLLBACK: evidence that typical, P90 or P99 latency is worse by more than this, percent."),
    ] = 8
    proof: Annotated[Proof, Field(description="PROMOTE: proof that each is within this.")] = Proof()
    error_rates: Annotated[ErrorRates, Field(description="Upper bounds of wrong verdicts, percent.")] = ErrorRates()
    on_drift: Annotated[OnDrift, Field(description="Rollback, or Pin: freeze weights and keep the canary.")] = (
        OnDrift.ROLLBACK
    )
    on_inconclusive: Annotated[OnInconclusive, Field(description="After a spent budget: Hold or Abort.")] = (
        OnInconclusive.HOLD
    )
    on_no_traffic: Annotated[OnNoTraffic, Field(description="Live step without traffic: Hold, Wait or Synthetic.")] = (
        OnNoTraffic.HOLD
    )
    on_rejected: Annotated[
        OnRejected, Field(description="What GitOps tools see after a rejection: Healthy or Stalled.")
    ] = OnRejected.HEALTHY
    live_limit: Annotated[
        _Percent, Field(description="P95 of live traffic against the twin, percent; holds, never rolls back.")
    ] = 5
    steps: Annotated[
        list[Step] | None,
        Field(
            max_length=16,
            description="Live steps; need traffic.gateway.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    benchmark: Annotated[BenchmarkSettings, Field(description="The measurement before users.")] = BenchmarkSettings()
    capacity: Annotated[Capacity, Field(description="Extra pods, or Borrow: a stable replica becomes the twin.")] = (
        Capacity.EXTRA
    )
    guard: Annotated[GuardWindow | None, Field(description="The guard window; needs traffic.gateway.")] = None
    keep_previous: Annotated[
        Duration, Field(description="Without a gateway: how long previous pods stay as a way back.")
    ] = "10m"


class GatewayRef(Model):
    """A Gateway of the Gateway API."""

    name: Annotated[Name, Field(description="Name of the Gateway.")]
    namespace: Annotated[Name | None, Field(description="Its namespace; the service's if not said.")] = None
    section_name: Annotated[Name | None, Field(description="Name of its listener.")] = None


class Preview(StrEnum):
    """Whether the header canary exists outside live steps."""

    ENABLED = "Enabled"


class Traffic(Model):
    """How users reach the service; a plain Service if not said."""

    gateway: Annotated[GatewayRef | None, Field(description="The Gateway that routes to the service.")] = None
    hostnames: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=253)]] | None,
        Field(
            max_length=16,
            description="Host names of the route.",
            json_schema_extra={"x-kubernetes-list-type": "set"},
        ),
    ] = None
    preview: Annotated[
        Preview | None, Field(description="Enabled: the header X-Env: canary also works outside live steps.")
    ] = None


class InferenceServiceSpec(Model):
    """The desired service. Only model.uri is required."""

    model: Annotated[ModelSource, Field(description="The model to serve.")]
    engine: Annotated[Engine | None, Field(description="The model server and its flags.")] = None
    replicas: Annotated[int, Field(ge=0, le=1000, description="Serving pods; also written through /scale.")] = 1
    slos: Annotated[
        list[ServiceLevel] | None,
        Field(
            max_length=16,
            description="Objectives by class of request; without it TTFT, TPOT and Latency over one class are judged.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = None
    rollout: Annotated[Rollout, Field(description="How a change proves itself.")] = Rollout()
    traffic: Annotated[Traffic | None, Field(description="How users reach the service.")] = None


class InferenceService(Model):
    """An LLM service under service-level objectives."""

    spec: Annotated[InferenceServiceSpec, Field(description="The desired service.")]
