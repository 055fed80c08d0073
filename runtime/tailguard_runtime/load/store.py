"""Where finished slots go: immutable ConfigMaps `BENCHMARK-NUMBER`, or files of the same names.

The Job's account may create ConfigMaps and nothing else, so nothing is ever read back. Which number comes next after a
restart is learned by creates that the API server only pretends to do (`dryRun`).
"""

import asyncio
import base64
import hashlib
import json
import os
import shutil
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from tailguard_runtime.load.plan import BenchmarkRef

SLOT_KEY = "slot.arrow"
MANIFEST_KEY = "manifest.json"
MOST_BYTES = 900 * 1024
_ATTEMPTS = 6
_FIRST_PAUSE_S = 0.5
_PATIENCE = aiohttp.ClientTimeout(total=20)
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class StoreError(RuntimeError):
    """Samples can't be stored; the text names the object, the reason and what to do."""


class NumberTakenError(Exception):
    """An object of this number exists and is not ours."""


class Store(Protocol):
    """Takes slots by number, once each."""

    async def is_free(self, number: int) -> bool:
        """Return whether nothing is stored under `number`."""

    async def put(self, number: int, key: str, content: bytes) -> None:
        """Store `content` for good.

        Raises:
            NumberTakenError: somebody else has stored under this number.
            StoreError: too large, refused, or no answer after several attempts.
        """


async def next_free(store: Store, start: int) -> int:
    """Return the first free number from `start` on."""
    number = start
    while not await store.is_free(number):
        number += 1
    return number


def object_name(benchmark: str, number: int) -> str:
    """Return the name of the object that holds slot `number`."""
    return f"{benchmark}-{number}"


def manifest(digests: Mapping[str, str], proposal: Mapping[str, Any]) -> bytes:
    """Return the last object's content: SHA-256 by object name, and what the judge in the Job proposes."""
    return json.dumps({"sha256": dict(digests), "proposal": dict(proposal)}, indent=1).encode()


def digest(content: bytes) -> str:
    """Return the SHA-256 of stored content."""
    return hashlib.sha256(content).hexdigest()


class FileStore:
    """Files `BENCHMARK-NUMBER/KEY` in a folder, for runs without a cluster."""

    def __init__(self, folder: Path, benchmark: str) -> None:
        """Use `folder`, which is made when missing."""
        self._folder, self._benchmark = folder, benchmark

    async def is_free(self, number: int) -> bool:
        """Return whether there is no such folder."""
        return not self._path(number).exists()

    async def put(self, number: int, key: str, content: bytes) -> None:
        """Write the file under a temporary name, then rename its folder, so that no half-written slot is seen."""
        _check_size(object_name(self._benchmark, number), content)
        target = self._path(number)
        unfinished = target.with_name(f".{target.name}.{os.getpid()}")
        unfinished.mkdir(parents=True, exist_ok=True)
        (unfinished / key).write_bytes(content)
        try:
            unfinished.rename(target)
        except OSError as error:
            shutil.rmtree(unfinished)
            if target.exists():
                raise NumberTakenError(target.name) from error
            raise StoreError(f"{target}: can't be written: {error.strerror}") from error

    def _path(self, number: int) -> Path:
        return self._folder / object_name(self._benchmark, number)


class ConfigMapStore:
    """ConfigMaps owned by the Benchmark, created over the API server's REST interface."""

    def __init__(
        self, session: aiohttp.ClientSession, api: str, benchmark: BenchmarkRef, token: Path, tls: ssl.SSLContext | bool
    ) -> None:
        """Say where the API server is (`https://HOST:PORT`) and where the token lies; it is read at every call."""
        self._session, self._benchmark, self._token, self._tls = session, benchmark, token, tls
        self._url = f"{api}/api/v1/namespaces/{benchmark.namespace}/configmaps"

    @classmethod
    def in_cluster(cls, session: aiohttp.ClientSession, benchmark: BenchmarkRef) -> "ConfigMapStore":
        """Use what Kubernetes gives every pod.

        Raises:
            StoreError: not in a pod, or without a service account.
        """
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host or not (_ACCOUNT / "token").exists():
            raise StoreError("no service account here: run as a pod with its token mounted, or pass --out DIR")
        bracketed = f"[{host}]" if ":" in host else host
        tls = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
        return cls(session, f"https://{bracketed}:{port}", benchmark, _ACCOUNT / "token", tls)

    async def is_free(self, number: int) -> bool:
        """Ask by a create that is only checked, never done."""
        try:
            await self._create(number, {}, dry_run=True)
        except NumberTakenError:
            return False
        return True

    async def put(self, number: int, key: str, content: bytes) -> None:
        """Create the ConfigMap; an attempt without an answer that turns out to have worked counts as done."""
        _check_size(object_name(self._benchmark.name, number), content)
        if key == MANIFEST_KEY:
            await self._create(number, {"data": {key: content.decode()}})
        else:
            await self._create(number, {"binaryData": {key: base64.b64encode(content).decode()}})

    async def _create(self, number: int, content: dict[str, Any], *, dry_run: bool = False) -> None:
        body = self._object(number) | content
        pause, unanswered, problem = _FIRST_PAUSE_S, False, ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(pause)
                pause *= 2
            try:
                status, problem = await self._post(body, dry_run)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                unanswered, problem = True, f"{type(error).__name__}: {error}"
                continue
            if status == 201 or (status == 409 and unanswered and not dry_run):
                return
            if status == 409:
                raise NumberTakenError(object_name(self._benchmark.name, number))
            if not _passes(status):
                break
            unanswered = unanswered or status >= 500
        raise StoreError(f"ConfigMap {object_name(self._benchmark.name, number)} can't be created: {problem}")

    async def _post(self, body: Mapping[str, Any], dry_run: bool) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {self._token.read_text().strip()}"}
        query = {"dryRun": "All"} if dry_run else {}
        async with self._session.post(
            self._url, json=body, params=query, headers=headers, ssl=self._tls, timeout=_PATIENCE
        ) as response:
            text = await response.text()
        return response.status, f"HTTP {response.status}: {_message(text)}"

    def _object(self, number: int) -> dict[str, Any]:
        benchmark = self._benchmark
        labels = {"app.kubernetes.io/managed-by": "tailguard", "tailguard.dev/benchmark": benchmark.name}
        if benchmark.service:
            labels["tailguard.dev/service"] = benchmark.service
        owner = {"apiVersion": "tailguard.dev/v1alpha1", "kind": "Benchmark", "name": benchmark.name}
        metadata = {
            "name": object_name(benchmark.name, number),
            "namespace": benchmark.namespace,
            "labels": labels,
            "ownerReferences": [owner | {"uid": benchmark.uid}],
        }
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True}


def _passes(status: int) -> bool:
    """Say whether trying again may help: an overloaded or starting server, or a policy that is not there yet."""
    return status in (401, 403, 408, 429) or status >= 500


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200]


def _check_size(name: str, content: bytes) -> None:
    if len(content) > MOST_BYTES:
        raise StoreError(
            f"{name}: {len(content)} bytes: at most {MOST_BYTES} fit into one object; set a smaller slot.requests"
        )
