"""What the command reads from the cluster: plain objects through the user's kubeconfig."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from tailguard_operator.api import GROUP, VERSION
from tailguard_runtime.cli.record import Record

Object = dict[str, Any]
_AUTH = ["BearerToken"]
_SINGULAR = {"inferenceservices": "InferenceService", "benchmarks": "Benchmark", "baselines": "Baseline"}


class ClusterError(RuntimeError):
    """The cluster could not be read; the text says what and why."""


class NoDataError(ClusterError):
    """There is nothing to tell: no such object, or nothing was measured."""


class NotFoundError(NoDataError):
    """The object does not exist."""


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
        import yaml
        from kubernetes import client, config

        path = os.environ.get("KUBECONFIG") or None
        try:
            config.load_kube_config(path, context=context)  # type: ignore[no-untyped-call]
            contexts, active = config.list_kube_config_contexts(path)  # type: ignore[no-untyped-call]
        except (config.ConfigException, yaml.YAMLError, OSError, TypeError, AttributeError) as error:
            where = path or "~/.kube/config"
            raise ClusterError(
                f"the kubeconfig {where} can't be used: {error}; set KUBECONFIG to one that can, or name a --context"
            ) from error
        chosen = next((c for c in contexts if c["name"] == context), active)
        return cls(namespace or chosen["context"].get("namespace") or "default", client.ApiClient())

    def one(self, plural: str, name: str) -> Object:
        """The object `name` of one of the three kinds.

        Raises:
            ClusterError: it does not exist or may not be read.
        """
        return self._get(
            f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{plural}/{name}", f"{_SINGULAR[plural]} {name}"
        )

    def all(self, plural: str) -> list[Object]:
        """All objects of one of the three kinds, in the order of their names."""
        found = self._get(f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{plural}", plural)
        items: list[Object] = found["items"]
        return items

    def samples(self, benchmark: str) -> Record:
        """What the Jobs of a Benchmark have stored, checked against the digests that they listed.

        Raises:
            NoDataError: nothing is stored.
            SampleFormatError: it is not what was listed.
        """
        record = Record()
        while (stored := self._config_map(f"{benchmark}-{record.next_number}")) is not None:
            record.take(stored)
        if not record.slots:
            raise NoDataError(f"Benchmark {benchmark} in namespace {self.namespace} has no stored samples")
        return record

    def annotate(self, name: str, annotation: str, value: str) -> None:
        """Set one annotation of an InferenceService."""
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/inferenceservices/{name}"
        body = {"metadata": {"annotations": {annotation: value}}}
        self._call("PATCH", path, f"InferenceService {name}", body)

    def _config_map(self, name: str) -> Object | None:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/{name}"
        try:
            return self._get(path, f"ConfigMap {name}")
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
            server = self.client.configuration.host
            raise ClusterError(f"the cluster at {server} does not answer: {error}") from error
        if answer.status == HTTPStatus.NOT_FOUND:
            raise NotFoundError(f"there is no {what} in namespace {self.namespace}; see `tailguard get`, or say -n")
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise ClusterError(f"{what} in namespace {self.namespace}: {_told(answer.data)}")
        found: Object = json.loads(answer.data)
        return found


def _told(answer: bytes) -> str:
    """The API server's own sentence."""
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace")[:300]
