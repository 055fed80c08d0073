"""The installation as the chart mounts it."""

from typing import Any

import pytest

from tailguard_operator.api.base import InvalidObject
from tailguard_operator.resources.profile import Installation

LEAST: dict[str, Any] = {
    "namespace": "tailguard-system",
    "defaultProfile": "a",
    "runtimeImage": "runtime:1",
    "profiles": {"a": {"type": "VLLM", "image": "vllm:1"}},
}


def test_the_least_that_an_installation_says() -> None:
    installation = Installation.parse(LEAST, "installation")
    profile = installation.profile(None)
    assert (profile.image, profile.args, profile.template, profile.python) == ("vllm:1", (), {}, "python3")
    assert installation.runtime_command == ("python3",)


def test_a_service_that_names_no_profile_gets_the_default() -> None:
    profiles = {**LEAST["profiles"], "b": {"type": "VLLM", "image": "vllm:2"}}
    installation = Installation.parse({**LEAST, "profiles": profiles}, "installation")
    assert installation.profile(None).image == "vllm:1"
    assert installation.profile("b").image == "vllm:2"
    with pytest.raises(KeyError):
        installation.profile("c")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"defaultProfile": "b"}, "defaultProfile is 'b'; there are a"),
        ({"profiles": {}}, r"installation\.profiles"),
        ({"profiles": {"a": {"type": "Other", "image": "x"}}}, r"installation\.profiles\.a\.type: 'Other'"),
        ({"profiles": {"a": {"type": "VLLM"}}}, r"installation\.profiles\.a\.image"),
        ({"profiles": {"a": {"type": "VLLM", "image": "x", "arg": []}}}, r"installation\.profiles\.a\.arg"),
        ({"runtimeCommand": []}, r"installation\.runtimeCommand"),
        ({"runtimeImage": ""}, r"installation\.runtimeImage"),
    ],
)
def test_a_broken_installation_names_the_field(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidObject, match=said):
        Installation.parse({**LEAST, **change}, "installation")
