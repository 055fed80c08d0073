"""What a tag and a branch mean right now: image digest from the registry, commit and config from the model hub.

A source that does not answer in time, or not at all, pins nothing; that never rejects anything, as the pod's own
error will tell.
"""

import asyncio
import json
import logging
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from tailguard_operator.resources.revision import Pins

LOG = logging.getLogger(__name__)

WITHIN_SECONDS = 10.0
HUB = "https://huggingface.co"
_DOCKER_HUB = "docker.io"
_DOCKER_HUB_API = "registry-1.docker.io"
_MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$")
_COMMIT = re.compile(r"^[0-9a-f]{40}$")
_LONGEST_CONFIG = 1024 * 1024

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ImageName:
    """An image's name in its parts."""

    registry: str
    repository: str
    reference: str

    @classmethod
    def parse(cls, image: str) -> "ImageName":
        """The parts of `image`; without a registry it is Docker Hub's, without a tag it is `latest`."""
        first, slash, rest = image.partition("/")
        named = bool(slash) and ("." in first or ":" in first or first == "localhost")
        registry, path = (first, rest) if named else (_DOCKER_HUB, image)
        repository, _, tag = path.partition(":")
        if registry == _DOCKER_HUB and "/" not in repository:
            repository = f"library/{repository}"
        return cls(registry, repository, tag or "latest")

    @property
    def url(self) -> str:
        """Where the registry serves its manifest."""
        host = _DOCKER_HUB_API if self.registry == _DOCKER_HUB else self.registry
        return f"https://{host}/v2/{self.repository}/manifests/{self.reference}"


class Pinner:
    """Asks registry and hub, without credentials."""

    def __init__(self, http: httpx.AsyncClient, hub: str = HUB, within: float = WITHIN_SECONDS):
        self._http = http
        self._hub = hub.rstrip("/")
        self._within = within

    async def pins(self, image: str, model_uri: str, model_revision: str | None) -> Pins:
        """What `image` and the model stand for now; what did not answer in time is left empty."""
        digest, commit, config = await asyncio.gather(
            self._asked(self._image_digest(image), f"digest of {image}"),
            self._asked(self._model_commit(model_uri, model_revision), f"commit of {model_uri}"),
            self._asked(self._model_config(model_uri, model_revision), f"config of {model_uri}"),
        )
        return Pins(image_digest=digest or "", model_commit=commit or "", model_config=config)

    async def _asked(self, question: Awaitable[_T | None], what: str) -> _T | None:
        try:
            async with asyncio.timeout(self._within):
                return await question
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
            LOG.info("the %s is not pinned: %s", what, error or f"no answer within {self._within:g} s")
            return None

    async def _image_digest(self, image: str) -> str | None:
        if "@" in image:
            return None
        name = ImageName.parse(image)
        headers = {"Accept": _MANIFESTS}
        answer = await self._http.head(name.url, headers=headers, follow_redirects=True)
        if answer.status_code == 401:
            token = await self._anonymous_token(answer.headers.get("WWW-Authenticate", ""))
            headers["Authorization"] = f"Bearer {token}"
            answer = await self._http.head(name.url, headers=headers, follow_redirects=True)
        answer.raise_for_status()
        digest = answer.headers.get("Docker-Content-Digest", "")
        return digest if _DIGEST.match(digest) else None

    async def _anonymous_token(self, challenge: str) -> str:
        fields = dict(_CHALLENGE.findall(challenge))
        query = {name: fields[name] for name in ("service", "scope") if name in fields}
        realm = fields.get("realm", "")
        if not realm.startswith("https://"):
            raise ValueError(f"the registry sends to {realm!r} for a token; only https:// is asked")
        answer = await self._http.get(realm, params=query)
        answer.raise_for_status()
        found = answer.json()
        return str(found.get("token") or found.get("access_token") or "")

    async def _model_commit(self, uri: str, revision: str | None) -> str | None:
        name = _hub_name(uri)
        if name is None or _COMMIT.match(revision or ""):
            return revision if name else None
        answer = await self._http.get(f"{self._hub}/api/models/{name}/revision/{revision or 'main'}")
        answer.raise_for_status()
        commit = str(answer.json().get("sha", ""))
        return commit if _COMMIT.match(commit) else None

    async def _model_config(self, uri: str, revision: str | None) -> dict[str, Any] | None:
        name = _hub_name(uri)
        if name is None:
            return None
        url = f"{self._hub}/{name}/resolve/{revision or 'main'}/config.json"
        answer = await self._http.get(url, follow_redirects=True)
        answer.raise_for_status()
        if len(answer.content) > _LONGEST_CONFIG:
            return None
        config = json.loads(answer.content)
        return config if isinstance(config, dict) else None


def _hub_name(uri: str) -> str | None:
    return uri.removeprefix("hf://").strip("/") if uri.startswith("hf://") else None
