"""Whether a live object still is what was asked for.

Only what we ask for is compared: the API server adds defaults, and other managers own other fields. Server-side apply
writes just our fields too, so a difference found here is one that applying again can mend.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tailguard_operator.resources import quantity
from tailguard_operator.resources.listkeys import SETS, item_key, keyed

_QUANTITY_MAPS = frozenset({"requests", "limits"})
_QUANTITIES = frozenset({"sizeLimit", "divisor"})
_MAPS = frozenset(
    {"annotations", "labels", "matchLabels", "nodeSelector", "requests", "limits", "data", "binaryData", "selector"}
)
"""Fields of free names: the API server leaves them out when they are empty, but keeps an object such as emptyDir."""

_ATOMIC = frozenset({"selector", "nodeSelector"})
"""Maps with one owner: applying replaces them as a whole, and a name too many selects other pods."""


def differs(desired: Any, live: Any) -> bool:
    """Whether some field of `desired` is not in `live` with the same value.

    What only `live` has is ignored, except in a selector. Items of keyed lists are compared by key, quantities by
    amount, and an empty value ("", 0, false, an empty list or map) equals a field that is not there, as the API server
    leaves such fields out.
    """
    return _differs("", "", desired, live)


def _differs(parent: str, field: str, desired: Any, live: Any) -> bool:
    if live is None:
        return not _omitted(field, desired)
    if isinstance(desired, Mapping):
        if not isinstance(live, Mapping):
            return True
        if field in _ATOMIC and desired.keys() != live.keys():
            return True
        return any(_differs(field, name, value, live.get(name)) for name, value in desired.items())
    if isinstance(desired, list):
        return not isinstance(live, list) or _lists_differ(field, desired, live)
    if parent in _QUANTITY_MAPS or field in _QUANTITIES:
        return isinstance(live, Mapping | list) or not quantity.same(desired, live)
    return type(desired) is not type(live) or bool(desired != live)


def _omitted(field: str, desired: Any) -> bool:
    """Whether the API server leaves `desired` out of what it stores."""
    return desired is None or (field in _MAPS and desired == {}) or desired in ("", 0, [])


def _lists_differ(field: str, desired: Sequence[Any], live: Sequence[Any]) -> bool:
    if keyed(field) and all(item_key(field, item) is not None for item in desired):
        found = {item_key(field, item): item for item in live}
        return any(_differs(field, "", item, found.get(item_key(field, item))) for item in desired)
    if field in SETS:
        return any(all(_differs(field, "", item, other) for other in live) for item in desired)
    if len(desired) != len(live):
        return True
    return any(_differs(field, "", item, other) for item, other in zip(desired, live, strict=True))
