"""Settings of the guard, read once from the environment that the engine adapter renders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_STATE_DIR = "/tailguard/state"


@dataclass(frozen=True)
class Settings:
    """How one serving process guards itself; times in seconds."""

    state_dir: Path = Path(DEFAULT_STATE_DIR)
    """Directory shared by all API server processes of the pod (an emptyDir)."""
    port: int = 9901
    """Port of the probe listener; no Service names it."""
    serving_port: int = 8000
    """Port on which the engine answers users."""
    served_name: str = ""
    """Name that /v1/models must list; empty means the first one listed."""
    api_key: str = ""
    """Key of the engine, for the guard's own generations."""
    stall_seconds: float = 60.0
    """Running requests without any progress for this long mean a hung engine."""
    idle_seconds: float = 60.0
    """An idle engine proves itself by one generation after this long without a request."""
    ring_capacity: int = 8192
    """Request samples kept by each serving process."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read the TAILGUARD_* variables; what is absent keeps its default.

        Raises:
            ValueError: a number is malformed; the message names the variable and the value.
        """
        return cls(
            state_dir=Path(environment.get("TAILGUARD_STATE_DIR", DEFAULT_STATE_DIR)),
            port=int(_number(environment, "TAILGUARD_PORT", cls.port)),
            serving_port=int(_number(environment, "TAILGUARD_SERVING_PORT", cls.serving_port)),
            served_name=environment.get("TAILGUARD_SERVED_NAME", ""),
            api_key=environment.get("VLLM_API_KEY", ""),
            stall_seconds=_number(environment, "TAILGUARD_STALL_SECONDS", cls.stall_seconds),
            idle_seconds=_number(environment, "TAILGUARD_IDLE_SECONDS", cls.idle_seconds),
            ring_capacity=int(_number(environment, "TAILGUARD_RING_CAPACITY", cls.ring_capacity)),
        )


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name}={text!r} is not a number") from None
    if value <= 0:
        raise ValueError(f"{name}={text!r} must be greater than 0")
    return value
