"""`InferenceService`: what a team writes.

No field under the revision hash (`model`, `engine`), nor `steps`, `guard`, `strategy` or `traffic`, has a default
in the schema: those are filled when read, so that a new default never changes the hash of a running service.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tailguard_operator.api.base import Model, Name
from tailguard_operator.api.engine import Engine, EngineType, ModelSource, Resources
from tailguard_operator.api.objectives import Metric, Objective, RequestSelector, ServiceLevel, TokenRange
from tailguard_operator.api.rollout import (
    BenchmarkSettings,
    Budget,
    Capacity,
    ErrorRates,
    GuardWindow,
    OnDrift,
    OnInconclusive,
    OnNoTraffic,
    OnRejected,
    Proof,
    Rollout,
    SlotSize,
    Step,
    StepVerdict,
    Strategy,
    WorkloadRef,
)
from tailguard_operator.api.rules import Matches

__all__ = [
    "NAME_LIMIT",
    "BenchmarkSettings",
    "Budget",
    "Capacity",
    "Engine",
    "EngineType",
    "ErrorRates",
    "GatewayRef",
    "GuardWindow",
    "InferenceService",
    "InferenceServiceSpec",
    "Metric",
    "ModelSource",
    "Objective",
    "OnDrift",
    "OnInconclusive",
    "OnNoTraffic",
    "OnRejected",
    "Preview",
    "Proof",
    "RequestSelector",
    "Resources",
    "Rollout",
    "ServiceLevel",
    "SlotSize",
    "Step",
    "StepVerdict",
    "Strategy",
    "TokenRange",
    "Traffic",
    "WorkloadRef",
]

NAME_LIMIT = 36
"""Longest service name: names of pools, benchmarks and jobs are derived from it and must fit in 63 characters."""

_HOSTNAME = Matches(
    r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    "hostnames must be DNS names of lower-case letters, without scheme, port or path; write them like chat.example.com",
)


class GatewayRef(Model):
    """A Gateway of the Gateway API."""

    name: Annotated[Name, Field(description="Name of the Gateway.")]
    namespace: Annotated[Name | None, Field(description="Namespace of the Gateway. The service's own if left out.")] = (
        None
    )
    section_name: Annotated[
        Name | None, Field(description="Name of the Gateway's listener. All listeners if left out.")
    ] = None


class Preview(StrEnum):
    """Whether the header canary exists outside live steps."""

    ENABLED = "Enabled"


class Traffic(Model):
    """How users reach the service; a plain Service if not said."""

    gateway: Annotated[
        GatewayRef | None,
        Field(
            description="The Gateway that routes users to the service. If left out, users reach a plain Service of the "
            "service's name, and a promotion is one switch of its selector."
        ),
    ] = None
    hostnames: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=253), _HOSTNAME]] | None,
        Field(
            max_length=16,
            description="Host names that the route answers to. Those of the listener if left out.",
            json_schema_extra={"x-kubernetes-list-type": "set"},
        ),
    ] = None
    preview: Annotated[
        Preview | None,
        Field(
            description="Enabled: requests with the header X-Env: canary reach the canary outside live steps too "
            "(never while a benchmark runs)."
        ),
    ] = None


class InferenceServiceSpec(Model):
    """The desired service. Only model.uri is required."""

    model: Annotated[ModelSource, Field(description="The model to serve. A change of it has to prove itself.")]
    engine: Annotated[
        Engine | None,
        Field(
            description="The model server, its flags and its pod. A change of it has to prove itself. The "
            "installation's default profile if left out."
        ),
    ] = None
    replicas: Annotated[
        int,
        Field(
            ge=0,
            le=1000,
            description="Number of pods that serve users. Autoscalers and kubectl scale write it through /scale.",
        ),
    ] = 1
    slos: Annotated[
        list[ServiceLevel] | None,
        Field(
            max_length=16,
            description="Objectives by class of requests. If left out, TTFT, TPOT and Latency of all requests are "
            "compared with the twin's, without a bound.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = None
    rollout: Annotated[
        Rollout, Field(description="How a change proves itself before users meet it, and what happens if it does not.")
    ] = Rollout()
    traffic: Annotated[
        Traffic | None, Field(description="How users reach the service. Through a plain Service if left out.")
    ] = None


class InferenceService(Model):
    """A large language model served under latency objectives, where every change has to prove its tail first."""

    spec: Annotated[InferenceServiceSpec, Field(description="The desired service. Only model.uri is required.")]
