"""Structural OpenAPI schemas for Kubernetes, from the pydantic models.

Pydantic writes JSON Schema; the API server wants a stricter form: no references, titles or nulls, no
`additionalProperties: false`, and a default only where we ask for it.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

_Schema = dict[str, Any]

_DROPPED = ("title", "examples", "$defs", "default", "properties", "items", "additionalProperties")


def structural(model: type[BaseModel], *, defaults: bool) -> _Schema:
    """The structural schema of `model`.

    Args:
        model: the model of `spec` or `status`.
        defaults: whether the API server shall fill in the model's defaults. They belong in what users write, not in
            records: a default that comes later would change what an old record says.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _node(schema, schema.get("$defs", {}), defaults)


def _node(schema: Mapping[str, Any], definitions: Mapping[str, _Schema], defaults: bool) -> _Schema:
    schema = _merged(schema, definitions)
    node = {key: value for key, value in schema.items() if key not in _DROPPED}
    if "properties" in schema:
        node["properties"] = {name: _node(child, definitions, defaults) for name, child in schema["properties"].items()}
    if "items" in schema:
        node["items"] = _node(schema["items"], definitions, defaults)
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        node["additionalProperties"] = _node(values, definitions, defaults)
    elif values is True:
        node["x-kubernetes-preserve-unknown-fields"] = True
    if defaults and schema.get("default") is not None:
        node["default"] = _default(schema["default"])
    return node


def _merged(schema: Mapping[str, Any], definitions: Mapping[str, _Schema]) -> _Schema:
    """`schema` with its reference resolved and its null branch removed; what it says itself comes first."""
    schema = dict(schema)
    if "$ref" in schema:
        target = definitions[schema.pop("$ref").removeprefix("#/$defs/")]
        return _merged({**target, **schema}, definitions)
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("anyOf", None)
    if "anyOf" in schema:
        (branch,) = [b for b in schema.pop("anyOf") if b != {"type": "null"}]
        return _merged({**branch, **schema}, definitions)
    return schema


def _default(value: Any) -> Any:
    """An object's default is `{}`: the API server fills it from the defaults of its fields."""
    return {} if isinstance(value, Mapping) else value
