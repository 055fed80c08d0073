"""A small REST client of the API server for tests: plain dicts, errors with the server's own words."""

import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

Object = dict[str, Any]

_CORE = ("Namespace", "Node", "Pod", "Service", "ConfigMap", "ServiceAccount", "Event")
_GROUPS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "ControllerRevision": "apps/v1",
    "Job": "batch/v1",
    "Lease": "coordination.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
    "InferenceService": "tailguard.dev/v1alpha1",
    "Baseline": "tailguard.dev/v1alpha1",
    "Benchmark": "tailguard.dev/v1alpha1",
}
_GLOBAL = ("Namespace", "Node", "CustomResourceDefinition")
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


class ApiError(RuntimeError):
    """The server refused: its status code, reason and message."""

    def __init__(self, response: httpx.Response):
        body = response.json() if "json" in response.headers.get("content-type", "") else {}
        self.code = response.status_code
        self.reason = str(body.get("reason", ""))
        self.message = str(body.get("message", response.text))
        super().__init__(f"{response.request.method} {response.request.url.path}: {self.code} {self.message}")


@dataclass(frozen=True)
class Credentials:
    """Where the API server is and a client certificate for it."""

    url: str
    authority: Path
    certificate: Path
    key: Path

    def tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(str(self.certificate), str(self.key))
        return context


def api_version(kind: str) -> str:
    """The group and version of a kind that the tests use."""
    return "v1" if kind in _CORE else _GROUPS[kind]


def plural(kind: str) -> str:
    """The resource name of a kind."""
    return kind.lower() + "s"


class Api:
    """Blocking calls; safe to share between threads."""

    def __init__(self, credentials: Credentials):
        self._http = httpx.Client(base_url=credentials.url, verify=credentials.tls(), timeout=20, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def raw(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request; the caller judges the status."""
        return self._http.request(method, path, **options)

    def get(self, kind: str, namespace: str, name: str, subresource: str = "") -> Object | None:
        """The object, or None when there is none."""
        response = self.raw("GET", self._path(kind, namespace, name, subresource))
        return None if response.status_code == 404 else self._body(response)

    def find(self, kind: str, namespace: str = "", selector: str = "") -> list[Object]:
        """All objects of a kind in a namespace (everywhere, if not said) with these labels."""
        response = self.raw("GET", self._path(kind, namespace), params={"labelSelector": selector})
        items: list[Object] = self._body(response)["items"]
        return items

    def create(self, kind: str, namespace: str, body: Object, name: str = "", subresource: str = "") -> Object:
        """Create an object, or post to a subresource such as `binding`."""
        whole = {"apiVersion": api_version(kind), "kind": kind} | body
        return self._body(self.raw("POST", self._path(kind, namespace, name, subresource), json=whole))

    def patch(
        self, kind: str, namespace: str, name: str, body: Object, subresource: str = "", how: str = MERGE
    ) -> Object:
        """Change an object or its subresource by a merge patch."""
        path = self._path(kind, namespace, name, subresource)
        return self._body(self.raw("PATCH", path, json=body, headers={"Content-Type": how}))

    def delete(self, kind: str, namespace: str, name: str, grace: int | None = None, uid: str = "") -> None:
        """Delete an object; one that is gone, or another of the same name, is left alone."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid:
            options["preconditions"] = {"uid": uid}
        response = self.raw("DELETE", self._path(kind, namespace, name), json=options)
        if response.status_code not in (404, 409):
            self._body(response)

    def changes(self, kind: str, namespace: str, since: str) -> list[Object]:
        """Every state that objects of a kind have had after the resource version `since`, oldest first."""
        query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": "1"}
        response = self.raw("GET", self._path(kind, namespace), params=query)
        if response.is_error:
            raise ApiError(response)
        events = [json.loads(line) for line in response.text.splitlines() if line]
        return [event["object"] for event in events if event["type"] in ("ADDED", "MODIFIED", "DELETED")]

    def _path(self, kind: str, namespace: str, name: str = "", subresource: str = "") -> str:
        version = api_version(kind)
        parts = ["api" if version == "v1" else "apis", version]
        if namespace and kind not in _GLOBAL:
            parts += ["namespaces", namespace]
        return "/" + "/".join(part for part in (*parts, plural(kind), name, subresource) if part)

    def _body(self, response: httpx.Response) -> Object:
        if response.is_error:
            raise ApiError(response)
        body: Object = response.json()
        return body
