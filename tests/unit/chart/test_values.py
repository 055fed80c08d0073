"""The chart's values fit what the operator reads."""

import json
from pathlib import Path
from typing import Any

import yaml

from tailguard_operator.resources.profile import Installation, Profile

CHART = Path(__file__).parents[3] / "charts" / "tailguard"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())


def test_the_default_profiles_are_an_installation() -> None:
    # When
    installation = Installation.parse(
        {
            "profiles": VALUES["engines"],
            "defaultProfile": VALUES["defaultProfile"],
            "runtimeImage": "tailguard/tailguard:0.1.0",
            "runtimeCommand": VALUES["command"],
            "jobTemplate": VALUES["runtime"]["jobTemplate"],
            "guardTemplate": VALUES["runtime"]["guardTemplate"],
            "namespace": "tailguard-system",
        },
        "installation",
    )
    # Then
    assert sorted(installation.profiles) == ["trtllm", "vllm-cpu", "vllm-cuda"]
    assert installation.profile(None).image == "vllm/vllm-openai:v0.32.0"


def test_a_profile_in_the_values_has_exactly_the_operators_fields() -> None:
    # When
    profile = SCHEMA["properties"]["engines"]["additionalProperties"]
    # Then
    fields = {info.alias for info in Profile.model_fields.values()}
    assert set(profile["properties"]) == fields
    required = {info.alias for info in Profile.model_fields.values() if info.is_required()}
    assert set(profile["required"]) == required
    assert profile["additionalProperties"] is False


def test_every_value_is_in_the_schema_and_in_the_readme() -> None:
    # Given
    readme = (CHART / "README.md").read_text()
    # Then
    assert set(VALUES) - set(SCHEMA["properties"]) == set()
    assert [name for name in VALUES if f"`{name}" not in readme and not name.endswith("Override")] == []
