"""The installation: engine profiles and images, as the chart mounts them in `installation.yaml`."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from tailguard_operator.api.base import Model, Name
from tailguard_operator.api.engine import EngineType, Resources

_Overlay = dict[str, Any]


class Profile(Model):
    """How one kind of engine is run here. A service names a profile; what it writes itself comes on top."""

    type: Annotated[EngineType, Field(description="The model server.")]
    version: Annotated[str, Field(max_length=64, description="Its version; flags are checked against its table.")] = ""
    image: Annotated[str, Field(min_length=1, max_length=512, description="Image of the engine.")]
    command: Annotated[tuple[str, ...], Field(description="Command in place of the adapter's, without flags.")] = ()
    env: Annotated[tuple[dict[str, Any], ...], Field(description="Environment of the engine's container.")] = ()
    args: Annotated[tuple[str, ...], Field(description="Flags; a service's flag of the same name replaces one.")] = ()
    resources: Annotated[Resources | None, Field(description="Resources; a service's replace them by name.")] = None
    template: Annotated[_Overlay, Field(default_factory=dict, description="Overlay of the pod template.")]
    python: Annotated[str, Field(min_length=1, description="Python interpreter in the engine's image.")] = "python3"
    model_bytes: Annotated[
        int | None, Field(ge=0, description="Size of the largest model that runs here; sizes the start-up probe.")
    ] = None


class Gate(Model):
    """How late the load generator may be before a slot is void; what is not said is the generator's own default.

    Both arms are sent to by one generator in a coin's order, so lateness is noise that favours neither. Where the
    generator has to share its core with the control plane, as on a small test cluster, it needs more room.
    """

    lateness_milliseconds: Annotated[int | None, Field(ge=1, description="P99 of send lateness.")] = None
    loop_lag_milliseconds: Annotated[int | None, Field(ge=1, description="P99 of the event loop's lag.")] = None
    rate_percent: Annotated[int | None, Field(ge=1, le=100, description="Achieved against scheduled rate.")] = None


class Installation(Model):
    """What the administrator set up: the profiles, and the image that holds Tailguard's own runtime."""

    profiles: Annotated[dict[Name, Profile], Field(min_length=1, description="Engine profiles by name.")]
    default_profile: Annotated[str, Field(description="Profile of a service that names none.")]
    runtime_image: Annotated[str, Field(min_length=1, description="Image of Tailguard's runtime.")]
    runtime_command: Annotated[tuple[str, ...], Field(min_length=1, description="How Python runs in it.")] = (
        "python3",
    )
    job_template: Annotated[
        _Overlay, Field(default_factory=dict, description="Overlay of the pod template of benchmark Jobs.")
    ]
    guard_template: Annotated[
        _Overlay,
        Field(
            default_factory=dict,
            description="Overlay of engine pods, below the profile's: what their init containers need.",
        ),
    ]
    gate: Annotated[Gate, Field(description="How late the load generator may be.")] = Gate()
    namespace: Annotated[Name, Field(description="Namespace of the operator.")]

    @model_validator(mode="after")
    def _default_is_there(self) -> Self:
        if self.default_profile not in self.profiles:
            raise ValueError(f"defaultProfile is {self.default_profile!r}; there are {', '.join(self.profiles)}")
        return self

    def profile(self, name: str | None) -> Profile:
        """The profile `name`, or the default one.

        Raises:
            KeyError: there is no such profile.
        """
        return self.profiles[name or self.default_profile]
