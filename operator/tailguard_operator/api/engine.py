"""Model and model server of an `InferenceService`: every field here is part of the revision, so none has a default."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from tailguard_operator.api.base import Model, Name
from tailguard_operator.api.rules import VALIDATIONS, Matches

MODEL_URI_PATTERN = (
    r"^(hf://[A-Za-z0-9][-A-Za-z0-9_.]*(/[A-Za-z0-9][-A-Za-z0-9_.]*)?"
    r"|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[^/\s]+)*/?"
    r"|file://(/[^/\s]+)+/?)$"
)
"""`hf://ORG/NAME`, `pvc://CLAIM/PATH` or `file:///PATH`."""

_QUANTITY_RULE = {
    "rule": "type(self) == int ? self >= 0 : isQuantity(self)",
    "message": "must be a Kubernetes quantity; write it like 2, 500m or 16Gi",
}


class EngineType(StrEnum):
    """The model servers that Tailguard runs."""

    VLLM = "VLLM"
    TENSORRT_LLM = "TensorRTLLM"


class ModelSource(Model):
    """The model to serve."""

    uri: Annotated[
        str,
        Field(
            max_length=1024,
            description="Where the model is. hf://ORG/NAME is fetched from the Hugging Face hub, pvc://CLAIM/PATH is "
            "read from a PersistentVolumeClaim of the service's namespace, and file:///PATH is a path inside the "
            "engine's container, supplied by its image or profile. The only required field.",
        ),
        Matches(
            MODEL_URI_PATTERN,
            "model.uri must be hf://ORG/NAME, pvc://CLAIM/PATH or file:///PATH; "
            "write where the model is, for example hf://Qwen/Qwen3-8B",
        ),
    ]
    revision: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=128,
            description="Branch, tag or commit of an hf:// model. It is pinned to a commit when the revision is "
            "rendered, so a branch that moves later changes nothing that runs.",
        ),
    ] = None
    served_name: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=128,
            description="The model name that clients send in their requests. The service's name if left out.",
        ),
    ] = None


_Quantity = Annotated[
    str | int,
    Field(
        union_mode="left_to_right",
        json_schema_extra={"x-kubernetes-int-or-string": True, VALIDATIONS: [_QUANTITY_RULE]},
    ),
]


class Resources(Model):
    """Compute resources of the engine's container."""

    requests: Annotated[
        dict[str, _Quantity] | None,
        Field(max_length=12, description="Least amount of each resource, such as cpu, memory or nvidia.com/gpu."),
    ] = None
    limits: Annotated[
        dict[str, _Quantity] | None,
        Field(max_length=12, description="Most that the container may use of each resource."),
    ] = None


class Engine(Model):
    """The model server: every field here is part of the revision."""

    profile: Annotated[
        Name | None,
        Field(
            description="Engine profile of the installation (image, command, environment and flags to start from). "
            "The installation's default profile if left out."
        ),
    ] = None
    type: Annotated[
        EngineType | None,
        Field(description="The model server: VLLM or TensorRTLLM. The profile's type if left out; must agree with it."),
    ] = None
    args: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=4096)]] | None,
        Field(
            max_length=128,
            description="Flags of the model server, such as --max-num-seqs=64. They are checked against the flag "
            "table of its version and added to the profile's; of a flag said twice the last one counts.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    kernels: Annotated[
        list[Name] | None,
        Field(
            max_length=32,
            description="Custom kernels that the engine loads, by name.",
            json_schema_extra={"x-kubernetes-list-type": "set"},
        ),
    ] = None
    quantization: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=64,
            description="Weight quantization, such as fp8. As the model has it if left out.",
        ),
    ] = None
    resources: Annotated[
        Resources | None,
        Field(description="Compute resources of the engine's container, over those of the profile."),
    ] = None
    template: Annotated[
        dict[str, Any] | None,
        Field(
            description="Overlay of the pod template (metadata and spec), merged by Kubernetes' strategic merge over "
            "the profile's: node selectors, tolerations, volumes, annotations.",
            json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
        ),
    ] = None
