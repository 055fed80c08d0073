"""Strategic merge of a pod overlay by our own table of list keys (`listkeys`).

A mapping is merged field by field, a null removes the field, an item of a keyed list is merged into the item with the
same key or added (`$patch: delete` removes it), items of a set are added once, and anything else is replaced.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tailguard_operator.resources.listkeys import ONE_SOURCE, SETS, item_key, key_fields, keyed

_PATCH = "$patch"


class OverlayError(ValueError):
    """An overlay that can't be merged; the message names the field, its value and what is allowed."""

    def __init__(self, field: str, value: Any, allowed: str):
        self.field, self.value, self.allowed = field, value, allowed
        super().__init__(f"{field}: {str(value)[:80]!r} is not allowed; {allowed}")


def merge(base: Mapping[str, Any], overlay: Mapping[str, Any], field: str = "template") -> dict[str, Any]:
    """`base` with `overlay` merged over it; neither is changed, and no part of them is shared with the result.

    Args:
        base: an object, for example a pod template.
        overlay: the fields to change.
        field: path of the overlay, for error messages.

    Raises:
        OverlayError: an item without its key, a list where an object must be, an unknown `$` directive.
    """
    merged = {name: _copy(value) for name, value in base.items()}
    for name, value in overlay.items():
        if name.startswith("$"):
            raise OverlayError(f"{field}.{name}", value, "a null removes a field, `$patch: delete` an item of a list")
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge_value(name, base.get(name), value, f"{field}.{name}")
    return merged


def _merge_value(name: str, base: Any, overlay: Any, field: str) -> Any:
    if base is not None and _kind(base) != _kind(overlay):
        raise OverlayError(field, overlay, f"it has to be {_kind(base)}")
    if isinstance(overlay, Mapping):
        return merge(base or {}, overlay, field)
    if keyed(name) and isinstance(overlay, list):
        return _merge_keyed(name, base or [], overlay, field)
    if name in SETS and isinstance(overlay, list):
        return [_copy(item) for item in [*(base or []), *(item for item in overlay if item not in (base or []))]]
    return _copy(overlay)


def _merge_keyed(name: str, base: Sequence[Any], overlay: Sequence[Any], field: str) -> list[Any]:
    merged = {item_key(name, item): _copy(item) for item in base}
    for number, item in enumerate(overlay):
        where = f"{field}[{number}]"
        key = item_key(name, item)
        if key is None:
            wanted = " and ".join(key_fields(name, item if isinstance(item, Mapping) else {}))
            raise OverlayError(where, item, f"it has to be an object that says its {wanted}")
        if _deletes(item, where):
            merged.pop(key, None)
        else:
            merged[key] = merge(_kept(name, merged.get(key, {}), item), item, where)
    return list(merged.values())


def _deletes(item: Mapping[str, Any], field: str) -> bool:
    if _PATCH in item and item[_PATCH] != "delete":
        raise OverlayError(f"{field}.{_PATCH}", item[_PATCH], "only `delete` is known")
    return _PATCH in item


def _kept(name: str, base: Mapping[str, Any], overlay: Mapping[str, Any]) -> Mapping[str, Any]:
    """What stays of an item: of one with a single source, only the fields that the overlay names too."""
    return {k: v for k, v in base.items() if k in overlay} if name in ONE_SOURCE else base


def _copy(value: Any) -> Any:
    """A deep copy in which a null field, which means "not there", is left out."""
    if isinstance(value, Mapping):
        return {name: _copy(item) for name, item in value.items() if item is not None}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list) else "a single value"
