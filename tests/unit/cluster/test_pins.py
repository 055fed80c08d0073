"""What a tag and a branch stand for, asked of sources that may be slow, strange or away."""

import asyncio
import json
from collections.abc import Callable

import httpx
import pytest

from tailguard_operator.cluster.pins import ImageName, Pinner
from tailguard_operator.resources.revision import Pins

DIGEST = f"sha256:{'a' * 64}"
COMMIT = "b" * 40
Handler = Callable[[httpx.Request], httpx.Response]


async def ask(handler: Handler, image: str, model: str = "file:///m", revision: str | None = None) -> Pins:
    async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as http:
        return await Pinner(http, hub="https://hub.test").pins(image, model, revision)


@pytest.mark.parametrize(
    ("image", "url"),
    [
        ("vllm", "https://registry-1.docker.io/v2/library/vllm/manifests/latest"),
        ("vllm/vllm-openai:v0.32.0", "https://registry-1.docker.io/v2/vllm/vllm-openai/manifests/v0.32.0"),
        ("registry.test:5000/a/b:1", "https://registry.test:5000/v2/a/b/manifests/1"),
        ("localhost/a", "https://localhost/v2/a/manifests/latest"),
    ],
)
def test_image_names(image: str, url: str) -> None:
    assert ImageName.parse(image).url == url


async def test_a_digest_is_asked_for_with_an_anonymous_token() -> None:
    # Given a registry that wants a token
    def registry(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/token":
            assert request.url.params["scope"] == "repository:a/b:pull"
            return httpx.Response(200, json={"token": "t"})
        if request.headers.get("Authorization") != "Bearer t":
            challenge = 'Bearer realm="https://auth.test/token",service="s",scope="repository:a/b:pull"'
            return httpx.Response(401, headers={"WWW-Authenticate": challenge})
        assert "oci.image.index" in request.headers["Accept"]
        return httpx.Response(200, headers={"Docker-Content-Digest": DIGEST})

    # Then the digest is known
    assert (await ask(registry, "registry.test/a/b:1")).image_digest == DIGEST


async def test_a_model_is_pinned_to_a_commit_and_its_config_is_read() -> None:
    # Given a hub
    def hub(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/models/Org/Model/revision/main":
            return httpx.Response(200, json={"sha": COMMIT})
        if request.url.path == "/Org/Model/resolve/main/config.json":
            return httpx.Response(200, text=json.dumps({"max_position_embeddings": 4096}))
        return httpx.Response(404)

    # When a model of it is rendered
    pins = await ask(hub, f"a@{DIGEST}", "hf://Org/Model")
    # Then it is pinned; an image that is named by digest needs no asking
    assert pins == Pins("", COMMIT, {"max_position_embeddings": 4096})


def away(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no route to host")


def broken(request: httpx.Request) -> httpx.Response:
    return httpx.Response(500)


def nonsense(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, text="<html>", headers={"Docker-Content-Digest": "latest"})


def sent_elsewhere(request: httpx.Request) -> httpx.Response:
    assert request.url.host != "metadata"
    return httpx.Response(401, headers={"WWW-Authenticate": 'Bearer realm="http://metadata/token"'})


@pytest.mark.parametrize("source", [away, broken, nonsense, sent_elsewhere])
async def test_a_source_that_does_not_answer_pins_nothing_and_rejects_nothing(source: Handler) -> None:
    assert await ask(source, "registry.test/a/b:1", "hf://Org/Model") == Pins()


async def test_nobody_waits_longer_than_the_limit() -> None:
    # Given a registry that never answers
    class Silent(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await asyncio.sleep(60)
            raise AssertionError

    async with httpx.AsyncClient(transport=Silent()) as http:
        # When it is asked
        async with asyncio.timeout(5):
            pins = await Pinner(http, within=0.05).pins("registry.test/a:1", "hf://Org/Model", None)
    # Then nothing is pinned
    assert pins == Pins()


async def test_a_commit_is_its_own_pin() -> None:
    assert (await ask(broken, f"a@{DIGEST}", "hf://Org/Model", COMMIT)).model_commit == COMMIT
