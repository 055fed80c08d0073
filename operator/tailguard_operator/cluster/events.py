"""Kubernetes Events on an InferenceService. An Event that cannot be written never stops anything."""

import logging
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tailguard_operator.api.base import timestamp
from tailguard_operator.cluster.client import Cluster
from tailguard_operator.cluster.errors import ApiError
from tailguard_operator.cluster.kinds import EVENT, INFERENCE_SERVICE, Object
from tailguard_operator.plan.decision import Event

LOG = logging.getLogger(__name__)

COMPONENT = "tailguard"
_LONGEST_MESSAGE = 1024


class Recorder:
    """Writes Events as `identity`."""

    def __init__(self, cluster: Cluster, identity: str):
        self._cluster = cluster
        self._identity = identity

    async def record(self, service: Object, event: Event) -> None:
        """Write `event` on `service`."""
        try:
            await self._cluster.create(self._object(service["metadata"], event))
        except ApiError as error:
            LOG.warning("Event %s was not written: %s", event.reason, error)

    def _object(self, meta: Mapping[str, Any], event: Event) -> Object:
        about = {
            "apiVersion": INFERENCE_SERVICE.api_version,
            "kind": INFERENCE_SERVICE.name,
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
        }
        now = datetime.now(UTC)
        return EVENT.partial(meta["namespace"], f"{meta['name']}.{uuid.uuid4().hex[:16]}") | {
            "involvedObject": about,
            "type": event.type,
            "reason": event.reason,
            "message": event.message[:_LONGEST_MESSAGE],
            "firstTimestamp": timestamp(now),
            "lastTimestamp": timestamp(now),
            "count": 1,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._identity[:128],
        }
