"""How a change of an `InferenceService` proves itself, and what happens when it does not."""

from enum import StrEnum
from itertools import pairwise
from typing import Annotated

from pydantic import Field

from tailguard_operator.api.base import Duration, Model
from tailguard_operator.api.rules import Rule


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

    typical: Annotated[
        _Percent, Field(description="Typical latency (the middle of all requests) is within this, percent.")
    ] = 8
    p90: Annotated[_Percent, Field(description="P90 latency is within this, percent.")] = 8
    p99: Annotated[
        _Percent,
        Field(description="P99 latency is within this, percent. A tight proof of a tail costs many requests."),
    ] = 25


class ErrorRates(Model):
    """Upper bounds of wrong verdicts at the boundary, for one pair of pods, in percent."""

    rollback: Annotated[
        _ErrorPercent, Field(description="At most so many of 100 changes exactly at tolerance raise an alarm, percent.")
    ] = 5
    promote: Annotated[
        _ErrorPercent,
        Field(description="At most so many of 100 changes exactly at the limit of proof are promoted, percent."),
    ] = 5


class Step(Model):
    """One live step."""

    weight: Annotated[
        int, Field(ge=1, le=50, description="Share of the users' traffic for the canary, percent. 100 is promotion.")
    ]
    min_duration: Annotated[
        Duration | None, Field(description="Least time of the step, such as 2m or 1h30m. 2m if left out.")
    ] = None
    min_requests: Annotated[
        int | None,
        Field(ge=1, le=1_000_000, description="Least number of requests to each arm. 200 if left out."),
    ] = None
    verdict: Annotated[
        StepVerdict | None,
        Field(
            description="Guard passes when time and requests have gone by without an alarm; Required waits for a live "
            "PROMOTE. Guard if left out."
        ),
    ] = None
    pause: Annotated[
        bool | None,
        Field(description="True waits at the end of the step for the annotation tailguard.dev/promote."),
    ] = None


class WorkloadRef(Model):
    """A ConfigMap with a workload in the service's namespace."""

    name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=253,
            description="Name of a ConfigMap in the service's namespace; its key workload.jsonl holds one request a "
            "line.",
        ),
    ]


class SlotSize(Model):
    """Size of one slot of the benchmark."""

    requests: Annotated[int, Field(ge=10, le=2000, description="Requests to each arm in one slot.")] = 50
    min_seconds: Annotated[
        int, Field(ge=1, le=600, description="Least length of one arm's half of a slot, seconds.")
    ] = 10


class Budget(Model):
    """What a rollout's benchmarks may cost, together."""

    requests: Annotated[int, Field(ge=100, le=10_000_000, description="Most requests, to both arms together.")] = 12000
    minutes: Annotated[int, Field(ge=1, le=10_080, description="Most minutes of measuring.")] = 60


class BenchmarkSettings(Model):
    """How a change is measured before users meet it."""

    workload_ref: Annotated[
        WorkloadRef | None,
        Field(
            description="Your own requests. If left out, prompts with the length distribution of a public chat trace, "
            "scaled to the model's context."
        ),
    ] = None
    rate_per_second: Annotated[
        int, Field(ge=1, le=10_000, description="Requests a second to the arm whose turn it is.")
    ] = 5
    slot: Annotated[
        SlotSize, Field(description="Size of one slot: the same requests to one arm, then to the other.")
    ] = SlotSize()
    budget: Annotated[Budget, Field(description="What the benchmarks of one rollout may cost, together.")] = Budget()


class GuardWindow(Model):
    """The time after promotion in which previous pods stay as twin and instant way back."""

    window: Annotated[
        Duration | None, Field(description="How long the window is, such as 1h or 30m. 1h if left out.")
    ] = None
    share: Annotated[
        int | None,
        Field(
            ge=1,
            le=50,
            description="Share of the traffic that stays on the previous pods, percent. 20 if left out.",
        ),
    ] = None


class Rollout(Model):
    """How a change proves itself."""

    rules = (
        Rule(
            cel="!has(self.steps) || (self.steps.map(s, s.weight).isSorted() && "
            "self.steps.all(s, self.steps.exists_one(t, t.weight == s.weight)))",
            holds=lambda r: all(a.weight < b.weight for a, b in pairwise(r.steps or ())),
            message="steps must be in ascending order of weight, each weight once; "
            "sort them, for example [{weight: 1}, {weight: 10}, {weight: 25}]",
            field=".steps",
        ),
    )

    strategy: Annotated[
        Strategy | None,
        Field(
            description="How users meet the new revision: Canary (a growing share), Shadow (copies of requests, needs "
            "traffic.gateway) or BlueGreen (all at once). Canary if left out."
        ),
    ] = None
    tolerance: Annotated[
        _Percent,
        Field(
            description="How much worse a change may be, percent: ROLLBACK is evidence that typical, P90 or P99 "
            "latency is worse by more than this."
        ),
    ] = 8
    proof: Annotated[
        Proof, Field(description="What PROMOTE has to prove, with its price in requests (tailguard explain shows it).")
    ] = Proof()
    error_rates: Annotated[
        ErrorRates, Field(description="Upper bounds of wrong verdicts, that hold at every look, percent.")
    ] = ErrorRates()
    on_drift: Annotated[
        OnDrift,
        Field(
            description="What an alarm does: Rollback sends users back, Pin freezes the weights and keeps the canary "
            "for inspection. A gross alarm always sends users back."
        ),
    ] = OnDrift.ROLLBACK
    on_inconclusive: Annotated[
        OnInconclusive,
        Field(
            description="What happens when the budget is spent twice without a verdict: Hold waits for you, Abort "
            "removes the canary and remembers the change."
        ),
    ] = OnInconclusive.HOLD
    on_no_traffic: Annotated[
        OnNoTraffic,
        Field(
            description="What a live step without a request does: Hold asks you, Wait goes on waiting, Synthetic sends "
            "requests of its own."
        ),
    ] = OnNoTraffic.HOLD
    on_rejected: Annotated[
        OnRejected,
        Field(
            description="What GitOps tools see after a rejection, while the old revision serves: Healthy, or Stalled, "
            "which fails the sync."
        ),
    ] = OnRejected.HEALTHY
    live_limit: Annotated[
        _Percent,
        Field(
            description="Over a live step, P95 of the canary against the twin may be worse by this, percent. Beyond it "
            "the rollout holds; it never rolls back."
        ),
    ] = 5
    steps: Annotated[
        list[Step] | None,
        Field(
            min_length=1,
            max_length=16,
            description="Shares of live traffic that the canary gets, one after another, in ascending order; need "
            "traffic.gateway. If left out, with a gateway: 1, 10 and 25 percent.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    benchmark: Annotated[
        BenchmarkSettings, Field(description="The measurement against the twin, before users meet the change.")
    ] = BenchmarkSettings()
    capacity: Annotated[
        Capacity,
        Field(
            description="Where canary and twin run: Extra pods, or Borrow, where a stable replica becomes the twin "
            "when only one more pod fits."
        ),
    ] = Capacity.EXTRA
    guard: Annotated[
        GuardWindow | None,
        Field(
            description="The time after promotion in which the previous pods keep a share of the traffic as twin and "
            "instant way back; needs traffic.gateway."
        ),
    ] = None
    keep_previous: Annotated[
        Duration,
        Field(description="Without a gateway: how long the previous pods stay as a way back, such as 10m or 1h30m."),
    ] = "10m"
