"""kopf as watch, and nothing else: every event only names a service to look at.

kopf runs in a thread of its own with its own event loop, because at its end it cancels every task that it finds in its
loop, and it must not end a write of ours half way.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf
from kubernetes.aio.client.configuration import Configuration

from tailguard_operator.api.base import GROUP, VERSION
from tailguard_operator.cluster.kinds import BASELINE, BENCHMARK, DEPLOYMENT, INFERENCE_SERVICE, JOB, POD, SERVICE, Kind
from tailguard_operator.cluster.queue import Key
from tailguard_operator.resources.owner import SERVICE_LABEL

LOG = logging.getLogger(__name__)

CHILDREN = (DEPLOYMENT, POD, JOB, SERVICE, BENCHMARK, BASELINE)
"""Kinds whose events name the service in a label; watched by that label alone, so that no other object is held."""
_LOGIN_SECONDS = 1800


@dataclass(slots=True)
class Watch:
    """One run of kopf."""

    configuration: Configuration
    namespace: str | None
    on_service: Callable[[Key], None]
    """Called, in kopf's thread, for every event of an InferenceService."""
    on_child: Callable[[Key], None]
    """The same for every event of a child."""
    _stop: threading.Event = field(default_factory=threading.Event)

    async def run(self) -> None:
        """Watch until `stop` is called.

        Raises:
            Exception: whatever ended kopf.
        """
        await asyncio.to_thread(asyncio.run, self._operate())

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()

    async def _operate(self) -> None:
        scope: dict[str, Any] = {"namespaces": [self.namespace]} if self.namespace else {"clusterwide": True}
        try:
            await kopf.operator(
                registry=self._registry(), settings=settings(), standalone=True, stop_flag=self._stop, **scope
            )
        finally:
            # A thread of this loop waits for the flag; without it the loop would not end after a failure.
            self._stop.set()

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()

        @kopf.on.login(id="login", registry=registry)
        async def login(**_: Any) -> kopf.ConnectionInfo:
            return await connection(self.configuration)

        @kopf.on.event(GROUP, VERSION, INFERENCE_SERVICE.plural, id="inferenceservices", registry=registry)
        async def service_event(namespace: str | None, name: str | None, **_: Any) -> None:
            self.on_service(Key(namespace or "", name or ""))

        async def child_event(namespace: str | None, labels: Mapping[str, str], **_: Any) -> None:
            if owner := labels.get(SERVICE_LABEL):
                self.on_child(Key(namespace or "", owner))

        for kind in CHILDREN:
            group, version = _group_version(kind)
            kopf.on.event(group, version, kind.plural, id=kind.plural, registry=registry)(child_event)
        return registry


def settings() -> kopf.OperatorSettings:
    """Kopf's settings: no finalizers, no annotations, no Events, no peering, nothing that it would write."""
    chosen = kopf.OperatorSettings()
    chosen.persistence.finalizer = f"{GROUP}/kopf"
    chosen.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    chosen.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    chosen.posting.enabled = False
    chosen.posting.loggers = False
    chosen.scanning.disabled = True
    chosen.networking.connect_timeout = 10
    chosen.networking.request_timeout = 60
    chosen.networking.trust_env = False
    # Not streamed lists: an API server on an etcd older than 3.4.25 refuses them.
    chosen.watching.chunk_size = 500
    chosen.queueing.worker_limit = None
    chosen.process.ultimate_exiting_timeout = None
    for kind in CHILDREN:
        group, version = _group_version(kind)
        resource = f"{kind.plural}.{version}.{group}" if group else f"{version}/{kind.plural}"
        chosen.watching.label_selectors[resource] = SERVICE_LABEL
    return chosen


async def connection(configuration: Configuration) -> kopf.ConnectionInfo:
    """The client's login, for kopf; asked again before a token of the pod's account runs out."""
    logins: dict[str, Any] = dict(await configuration.auth_settings())
    header = str(logins.get("BearerToken", {}).get("value") or "")
    scheme, _, token = header.partition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        scheme=scheme.capitalize() if token else None,
        token=token or None,
        expiration=datetime.now(UTC) + timedelta(seconds=_LOGIN_SECONDS) if token else None,
    )


def _group_version(kind: Kind) -> tuple[str, str]:
    group, _, version = kind.api_version.rpartition("/")
    return group, version
