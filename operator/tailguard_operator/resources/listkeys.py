"""By which fields the items of a Kubernetes list are told apart; a list that is not here is one value as a whole.

The keys of the API's own strategic merge, with two differences: a pod's `tolerations` form a set, so that an overlay
adds to what the profile tolerates, and an item of `env` or `volumes` has one source, so that another source replaces
the first.
"""

from collections.abc import Mapping
from typing import Any

_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "resourceClaims": ("name",),
    "claims": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "ownerReferences": ("uid",),
}
_PORT_DEFAULTS = {"protocol": "TCP"}

SETS = frozenset({"tolerations"})
"""Lists of different items, told apart by all of their fields."""

ONE_SOURCE = frozenset({"env", "volumes"})
"""Keyed lists whose items hold their key and one source: fields that an overlay's item does not name are dropped."""

ItemKey = tuple[Any, ...]


def keyed(field: str) -> bool:
    """Whether items of the list `field` have a key."""
    return field in _KEYS or field == "ports"


def key_fields(field: str, item: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that make the key of `item` in the list `field`."""
    if field == "ports":
        return ("containerPort", "protocol") if "containerPort" in item else ("port", "protocol")
    return _KEYS[field]


def item_key(field: str, item: Any) -> ItemKey | None:
    """The key of `item` in the list `field`; None when it has none, or only a part of it."""
    if not isinstance(item, Mapping) or not keyed(field):
        return None
    key = tuple(item.get(name, _PORT_DEFAULTS.get(name)) for name in key_fields(field, item))
    return None if None in key else key
