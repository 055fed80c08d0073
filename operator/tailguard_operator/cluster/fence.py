"""No write without the Lease."""

from collections.abc import Callable, Mapping

from tailguard_operator.cluster.client import Cluster
from tailguard_operator.cluster.kinds import Kind, Object


class FencedCluster:
    """A `Cluster` whose writes are refused, before anything is sent, once this process may not write."""

    def __init__(self, cluster: Cluster, check: Callable[[], None]):
        self._cluster = cluster
        self._check = check

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        """Reads are open to everybody."""
        return await self._cluster.get(kind, namespace, name)

    async def list(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None = None, fields: str | None = None
    ) -> list[Object]:
        """Reads are open to everybody."""
        return await self._cluster.list(kind, namespace, labels, fields)

    async def create(self, obj: Object) -> Object:
        """Create, as the leader."""
        self._check()
        return await self._cluster.create(obj)

    async def apply(self, obj: Object) -> Object:
        """Apply, as the leader."""
        self._check()
        return await self._cluster.apply(obj)

    async def apply_status(self, obj: Object) -> Object:
        """Apply to the status, as the leader."""
        self._check()
        return await self._cluster.apply_status(obj)

    async def replace(self, obj: Object) -> Object:
        """Replace, as the leader."""
        self._check()
        return await self._cluster.replace(obj)

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str, resource_version: str | None) -> None:
        """Delete, as the leader."""
        self._check()
        await self._cluster.delete(kind, namespace, name, uid, resource_version)
