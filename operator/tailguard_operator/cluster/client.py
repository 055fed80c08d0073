"""The operator's whole use of the API server: a few verbs over plain dicts, on the official client's transport."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from tailguard_operator.cluster import calls
from tailguard_operator.cluster.errors import Unavailable, refusal
from tailguard_operator.cluster.kinds import Kind, Object, kind_of

MANAGER = "tailguard"
IN_FLIGHT = 32
_SECONDS = 30
_TIMEOUT = aiohttp.ClientTimeout(total=_SECONDS, connect=10)
_PAGE = 500
_APPLY = "application/apply-patch+yaml"
_JSON = "application/json"


class Cluster(Protocol):
    """What the operator may do to a cluster. Every write of the operator goes through one of the last five verbs.

    All raise `ApiError` (see `errors`). Objects handed in name their `apiVersion` and `kind`; a `resourceVersion` in
    their metadata makes a write fail with `Conflict` when the object has changed since.
    """

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        """One object."""
        ...

    async def list(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None = None, fields: str | None = None
    ) -> list[Object]:
        """All objects of a kind in `namespace` (None: in all) with these `labels`, by the field selector `fields`."""
        ...

    async def create(self, obj: Object) -> Object:
        """Create `obj`; never touches one that exists (`AlreadyExists`)."""
        ...

    async def apply(self, obj: Object) -> Object:
        """Server-side apply the fields of `obj`, taking them over from whoever set them."""
        ...

    async def apply_status(self, obj: Object) -> Object:
        """The same for the status subresource."""
        ...

    async def replace(self, obj: Object) -> Object:
        """Replace `obj` as a whole."""
        ...

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str, resource_version: str | None) -> None:
        """Delete one object, and in the background its dependents, if `uid` and `resource_version` still hold."""
        ...


async def load_configuration(kubeconfig: Path | None = None, context: str | None = None) -> Configuration:
    """Where the API server is and how to log in: `kubeconfig` when given, the pod's account, else the default file.

    Raises:
        ConfigException: there is none of them.
    """
    configuration = Configuration()
    if kubeconfig is None and context is None:
        try:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            return configuration
        except ConfigException:
            pass
    await load_kube_config(  # type: ignore[no-untyped-call]
        config_file=str(kubeconfig) if kubeconfig else None, context=context, client_configuration=configuration
    )
    return configuration


class ApiCluster:
    """`Cluster` on `kubernetes.aio`'s transport: its TLS, credentials and token refresh, but raw JSON both ways.

    Paths come from `kinds`, so there is no discovery; bodies are never turned into the client's models, which would
    make lists 15 times slower.
    """

    def __init__(self, configuration: Configuration, in_flight: int = IN_FLIGHT):
        configuration.connection_pool_maxsize = in_flight
        # Proxies are the kubeconfig's matter (proxy-url); variables of the environment would leak in.
        configuration.client_session_kwargs = {"trust_env": False}
        self._configuration = configuration
        self._transport = ApiClient(configuration).rest_client
        self._slots = asyncio.Semaphore(in_flight)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        """One object."""
        return await self._request("get", "GET", kind, kind.path(namespace, name))

    async def list(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None = None, fields: str | None = None
    ) -> list[Object]:
        """All pages of a list; items carry `apiVersion` and `kind`, which the API server leaves out."""
        query = {"limit": str(_PAGE)}
        if labels:
            query["labelSelector"] = ",".join(f"{name}={value}" for name, value in labels.items())
        if fields:
            query["fieldSelector"] = fields
        items: list[Object] = []
        while True:
            page = await self._request("list", "GET", kind, kind.path(namespace), query)
            head = {"apiVersion": kind.api_version, "kind": kind.name}
            items += [head | item for item in page.get("items") or []]
            query["continue"] = page.get("metadata", {}).get("continue") or ""
            if not query["continue"]:
                return items

    async def create(self, obj: Object) -> Object:
        """POST `obj`."""
        kind, query = kind_of(obj), {"fieldManager": MANAGER}
        path = kind.path(obj["metadata"].get("namespace"))
        return await self._request("create", "POST", kind, path, query, obj)

    async def apply(self, obj: Object) -> Object:
        """Server-side apply with force."""
        return await self._apply(obj, "apply", None)

    async def apply_status(self, obj: Object) -> Object:
        """Server-side apply with force to the status subresource."""
        return await self._apply(obj, "apply_status", "status")

    async def replace(self, obj: Object) -> Object:
        """PUT `obj`."""
        kind, meta = kind_of(obj), obj["metadata"]
        path = kind.path(meta.get("namespace"), meta["name"])
        return await self._request("replace", "PUT", kind, path, {"fieldManager": MANAGER}, obj)

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str, resource_version: str | None) -> None:
        """DELETE with preconditions."""
        preconditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        options = {"propagationPolicy": "Background", "preconditions": preconditions}
        await self._request("delete", "DELETE", kind, kind.path(namespace, name), None, options)

    async def _apply(self, obj: Object, verb: str, subresource: str | None) -> Object:
        kind, meta = kind_of(obj), obj["metadata"]
        path = kind.path(meta.get("namespace"), meta["name"], subresource)
        query = {"fieldManager": MANAGER, "force": "true"}
        return await self._request(verb, "PATCH", kind, path, query, obj, _APPLY)

    async def _request(
        self,
        verb: str,
        method: str,
        kind: Kind,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = _JSON,
    ) -> Object:
        what = f"{verb} {kind.name} {path}"
        url = f"{self._configuration.host}{path}?{urlencode(query or {})}"
        async with self._slots:
            status, answer = await self._send(method, url, body, content_type)
        calls.count(verb, kind.name, status)
        if status == 0:
            raise Unavailable(what, 0, answer.decode())
        if status >= 400:
            raise refusal(what, status, answer)
        found: Object = json.loads(answer)
        return found

    async def _send(self, method: str, url: str, body: Object | None, content_type: str) -> tuple[int, bytes]:
        headers = await self._headers(content_type)
        try:
            response = await self._transport.request(  # type: ignore[no-untyped-call]
                method, url, headers, body, _request_timeout=_TIMEOUT
            )
            return int(response.status), await response.read()
        except TimeoutError:
            return 0, f"no answer within {_SECONDS} s".encode()
        except (aiohttp.ClientError, OSError) as error:
            return 0, f"{type(error).__name__}: {error}".encode()

    async def _headers(self, content_type: str) -> dict[str, Any]:
        headers = {"Content-Type": content_type, "Accept": _JSON, "User-Agent": MANAGER}
        logins: dict[str, Any] = dict(await self._configuration.auth_settings())
        headers.update({login["key"]: login["value"] for login in logins.values()})
        return headers
