"""What the command reads from the cluster: plain objects through the user's kubeconfig."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from tailguard_operator.api import GROUP, VERSION

SLOT_KEY = "slot.arrow"
MANIFEST_KEY = "manifest.json"

Object = dict[str, Any]
_AUTH = ["BearerToken"]


class ClusterError(RuntimeError):
    """The cluster could not be read; the text says what and why."""


@dataclass(frozen=True)
class Reader:
    """Reads objects of one namespace."""

    namespace: str
    client: Any

    @classmethod
    def connect(cls, context: str | None, namespace: str | None) -> Reader:
        """A reader of the kubeconfig's context; its namespace is used where none is said.

        Raises:
            ClusterError: there is no usable kubeconfig or context.
        """
        from kubernetes import client, config

        try:
            config.load_kube_config(context=context)  # type: ignore[no-untyped-call]
            contexts, active = config.list_kube_config_contexts()  # type: ignore[no-untyped-call]
        except config.ConfigException as error:
            raise ClusterError(f"no usable kubeconfig: {error}; set KUBECONFIG, or name a --context") from error
        chosen = next((c for c in contexts if c["name"] == context), active)
        return cls(namespace or chosen["context"].get("namespace") or "default", client.ApiClient())

    def one(self, plural: str, name: str) -> Object:
        """The object `name` of one of the three kinds.

        Raises:
            ClusterError: it does not exist or may not be read.
        """
        return self._get(f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{plural}/{name}", f"{plural} {name}")

    def all(self, plural: str) -> list[Object]:
        """All objects of one of the three kinds, in the order of their names."""
        found = self._get(f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{plural}", plural)
        items: list[Object] = found["items"]
        return items

    def samples(self, benchmark: str) -> list[bytes]:
        """The stored slots of a Benchmark in order; a manifest between them is passed over.

        Raises:
            ClusterError: nothing is stored, or what is stored may not be read.
        """
        slots: list[bytes] = []
        number = 0
        while (stored := self._config_map(f"{benchmark}-{number}")) is not None:
            if SLOT_KEY in (stored.get("binaryData") or {}):
                slots.append(base64.b64decode(stored["binaryData"][SLOT_KEY]))
            number += 1
        if not slots:
            raise ClusterError(f"Benchmark {self.namespace}/{benchmark} has no stored samples (yet)")
        return slots

    def annotate(self, name: str, annotation: str, value: str) -> None:
        """Set one annotation of an InferenceService."""
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/inferenceservices/{name}"
        body = {"metadata": {"annotations": {annotation: value}}}
        self._call("PATCH", path, f"inferenceservices {name}", body)

    def _config_map(self, name: str) -> Object | None:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/{name}"
        try:
            return self._get(path, f"configmaps {name}")
        except NotFoundError:
            return None

    def _get(self, path: str, what: str) -> Object:
        return self._call("GET", path, what, None)

    def _call(self, method: str, path: str, what: str, body: Object | None) -> Object:
        from urllib3.exceptions import HTTPError

        headers = {"Accept": "application/json", "Content-Type": "application/merge-patch+json"}
        try:
            call = self.client.param_serialize(method, path, header_params=headers, body=body, auth_settings=_AUTH)
            answer = self.client.call_api(*call)
            answer.read()
        except HTTPError as error:
            raise ClusterError(f"the cluster does not answer: {error}") from error
        if answer.status == HTTPStatus.NOT_FOUND:
            raise NotFoundError(f"{what} does not exist in namespace {self.namespace}")
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise ClusterError(f"{what} in namespace {self.namespace}: {_told(answer.data)}")
        found: Object = json.loads(answer.data)
        return found


class NotFoundError(ClusterError):
    """The object does not exist."""


def _told(answer: bytes) -> str:
    """The API server's own sentence."""
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace")[:300]
