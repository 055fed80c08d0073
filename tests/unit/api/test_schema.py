"""The structural schemas that the API server gets."""

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from pydantic import Field

from tailguard_operator.api.base import Model
from tailguard_operator.api.crds import INFERENCE_SERVICE, KINDS, Kind, definition
from tailguard_operator.api.schema import structural
from tailguard_operator.api.service import InferenceServiceSpec

Node = tuple[str, dict[str, Any]]


def nodes(schema: dict[str, Any], path: str) -> Iterator[Node]:
    """Every schema below `schema`, itself included, with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def openapi(kind: Kind) -> dict[str, Any]:
    (version,) = definition(kind)["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def all_nodes() -> list[Node]:
    return [node for kind in KINDS for node in nodes(openapi(kind), kind.name)]


def defaults_below(schema: dict[str, Any], path: str) -> list[str]:
    return [where for where, node in nodes(schema, path) if "default" in node]


class Inner(Model):
    """An inner object."""

    size: Annotated[int, Field(ge=1, description="Size.")] = 3


class Outer(Model):
    """An object with one of each."""

    inner: Annotated[Inner, Field(description="Said here.")] = Inner()
    maybe: Annotated[str | None, Field(max_length=5, description="May be absent.")] = None
    free: Annotated[dict[str, Any], Field(description="Anything.")]


def test_references_are_inlined_and_the_fields_own_description_wins() -> None:
    # When
    schema = structural(Outer, defaults=True)
    # Then
    assert schema["properties"]["inner"] == {
        "type": "object",
        "description": "Said here.",
        "properties": {"size": {"type": "integer", "minimum": 1, "description": "Size.", "default": 3}},
        "default": {},
    }


def test_an_optional_field_is_its_type_without_null_and_without_default() -> None:
    # When
    schema = structural(Outer, defaults=True)
    # Then
    assert schema["properties"]["maybe"] == {"type": "string", "maxLength": 5, "description": "May be absent."}
    assert schema["required"] == ["free"]


def test_a_free_form_object_keeps_unknown_fields() -> None:
    # When
    schema = structural(Outer, defaults=True)
    # Then
    assert schema["properties"]["free"]["x-kubernetes-preserve-unknown-fields"] is True
    assert "additionalProperties" not in schema["properties"]["free"]


def test_a_record_has_no_defaults() -> None:
    # When
    schema = structural(Outer, defaults=False)
    # Then
    assert defaults_below(schema, "record") == []


@pytest.mark.parametrize("word", ["$ref", "anyOf", "title", "$defs", "examples", "const", "pattern"])
def test_no_word_that_the_api_server_refuses_or_that_hides_what_is_allowed(word: str) -> None:
    """`pattern` is legal, but its message is "should match '^…$'"; a rule with a message takes its place."""
    # Given
    allowed_pattern = (".reason",)
    # Then
    found = [path for path, node in all_nodes() if word in node and not path.endswith(allowed_pattern)]
    assert found == []


def test_every_field_has_a_description() -> None:
    # Given fields, not the items of lists and the values of maps, which `kubectl explain` never shows
    fields = [(path, node) for path, node in all_nodes() if not path.endswith(("[]", "{}", ".metadata"))]
    # Then
    assert [path for path, node in fields if len(node.get("description", "")) < len("When.")] == []
    assert len(fields) > 150


def test_every_list_string_and_map_has_a_limit() -> None:
    """Without limits the API server's estimate of what a rule costs grows beyond its budget."""
    # Given
    limits = {"array": "maxItems", "string": "maxLength"}
    own = [(path, node) for path, node in all_nodes() if not path.endswith((".apiVersion", ".kind"))]
    # Then
    unlimited = [p for p, n in own if n.get("type") in limits and limits[n["type"]] not in n and "enum" not in n]
    maps = [path for path, node in own if "additionalProperties" in node and "maxProperties" not in node]
    assert unlimited + maps == []


def test_every_list_says_how_it_is_merged() -> None:
    # Then
    missing = [p for p, n in all_nodes() if n.get("type") == "array" and "x-kubernetes-list-type" not in n]
    assert missing == []


def test_defaults_are_only_where_no_revision_and_no_gateway_depends_on_them() -> None:
    """A default under the revision hash would, once changed, change the hash of every running service."""
    # Given
    spec = openapi(INFERENCE_SERVICE)["properties"]["spec"]["properties"]
    rollout = spec["rollout"]["properties"]
    # When
    parts = {
        **{f"spec.{name}": spec[name] for name in ("model", "engine", "traffic", "slos")},
        **{f"spec.rollout.{name}": rollout[name] for name in ("steps", "guard", "strategy")},
    }
    # Then
    assert [found for path, part in parts.items() for found in defaults_below(part, path)] == []
    assert rollout["tolerance"]["default"] == 8


def test_status_has_no_defaults() -> None:
    # Then
    assert defaults_below(openapi(INFERENCE_SERVICE)["properties"]["status"], "status") == []


def filled(schema: dict[str, Any], value: Any) -> Any:
    """`value` as the API server fills it: from the top down, an object's own default before those of its fields."""
    if not isinstance(value, dict):
        return value
    known = schema.get("properties", {})
    absent = {name: child["default"] for name, child in known.items() if "default" in child and name not in value}
    return {name: filled(known.get(name, {}), child) for name, child in {**value, **absent}.items()}


def test_the_models_fill_in_the_same_defaults_as_the_api_server() -> None:
    # Given
    three_lines = {"model": {"uri": "hf://Qwen/Qwen3-8B"}}
    # When
    by_server = filled(structural(InferenceServiceSpec, defaults=True), three_lines)
    by_model = InferenceServiceSpec.parse(three_lines, "spec").to_object()
    # Then
    assert by_server == by_model


def test_only_model_uri_is_required() -> None:
    # When
    spec = openapi(INFERENCE_SERVICE)["properties"]["spec"]
    # Then
    assert spec["required"] == ["model"]
    assert spec["properties"]["model"]["required"] == ["uri"]


def test_no_number_is_a_float() -> None:
    # Then
    assert [path for path, node in all_nodes() if node.get("type") == "number"] == []
