"""The Deployment of one pool, from stored data alone: an upgraded operator builds the same pods."""

from collections.abc import Mapping, Sequence
from typing import Any

from tailguard_operator.api.base import GROUP
from tailguard_operator.plan.arms import DEADLINE_MARGIN_SECONDS
from tailguard_operator.plan.decision import Pool
from tailguard_operator.plan.world import PoolKey
from tailguard_operator.resources.overlay import merge
from tailguard_operator.resources.owner import REVISION_LABEL, ROLE_LABEL, SERVICE_LABEL, SLOT_LABEL, Owner

MOVER_ANNOTATION = f"{GROUP}/mover"
"""`leaseTransitions` of the leader that moved users here; an older leader's delete or scale-down then fails."""
AVOID_ANNOTATION = f"{GROUP}/avoid-nodes"
"""The nodes that the pool's pods were told to avoid when it was made."""
_AVOIDANCE_WEIGHT = 100


def pool_name(service: str, key: PoolKey) -> str:
    """Name of the Deployment of `key`: SERVICE-REVISION-ROLE-SLOT, at most 63 characters for a valid service."""
    return f"{service}-{key.revision}-{key.role}-{key.slot}"


def pool_labels(service: str, key: PoolKey) -> dict[str, str]:
    """The labels that select exactly the pods of `key`."""
    return {
        SERVICE_LABEL: service,
        REVISION_LABEL: key.revision,
        ROLE_LABEL: key.role.value,
        SLOT_LABEL: str(key.slot),
    }


def deployment(
    owner: Owner, data: Mapping[str, Any], pool: Pool, live: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The Deployment of `pool`.

    Args:
        owner: the service.
        data: what `revision.render` stored for the pool's revision.
        pool: size, place and mover.
        live: the Deployment as it is, if it is there. It keeps the nodes to avoid that it was made with, since other
            ones would replace its pods.
    """
    labels = pool_labels(owner.name, pool.key)
    avoided = _avoided(pool, live)
    metadata = owner.metadata(pool_name(owner.name, pool.key), labels)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**metadata, "annotations": _annotations(pool, avoided)},
        "spec": {
            "replicas": pool.replicas,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "progressDeadlineSeconds": data["startupSeconds"] + DEADLINE_MARGIN_SECONDS,
            "revisionHistoryLimit": 0,
            "template": _placed(merge(data["template"], {"metadata": {"labels": labels}}), avoided),
        },
    }


def _avoided(pool: Pool, live: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The nodes that the pool's pods avoid; for a Deployment that exists, those that it was made with."""
    if live is None:
        return tuple(sorted(pool.avoid_nodes))
    noted = (live["metadata"].get("annotations") or {}).get(AVOID_ANNOTATION, "")
    return tuple(noted.split(",")) if noted else ()


def _annotations(pool: Pool, avoided: Sequence[str]) -> dict[str, str]:
    mover = {MOVER_ANNOTATION: str(pool.moved_by)} if pool.moved_by is not None else {}
    return mover | ({AVOID_ANNOTATION: ",".join(avoided)} if avoided else {})


def _placed(template: Mapping[str, Any], avoided: Sequence[str]) -> dict[str, Any]:
    if not avoided:
        return dict(template)
    spec = template["spec"]
    return {**template, "spec": {**spec, "affinity": _avoiding(spec.get("affinity") or {}, avoided)}}


def _avoiding(affinity: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """`affinity` with a preference for other nodes than `nodes`, beside the preferences that it has."""
    names = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    preference = {"weight": _AVOIDANCE_WEIGHT, "preference": {"matchFields": names}}
    field = "preferredDuringSchedulingIgnoredDuringExecution"
    node = affinity.get("nodeAffinity") or {}
    return merge(affinity, {"nodeAffinity": {field: [*(node.get(field) or ()), preference]}})
