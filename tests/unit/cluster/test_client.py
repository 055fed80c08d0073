"""What is sent to the API server, and what becomes of its answers."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client.configuration import Configuration

from tailguard_operator.cluster import calls
from tailguard_operator.cluster.client import ApiCluster
from tailguard_operator.cluster.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unavailable,
)
from tailguard_operator.cluster.kinds import DEPLOYMENT, INFERENCE_SERVICE, NODE, POD


@dataclass
class Server:
    """Answers as told and keeps what it was asked."""

    cluster: ApiCluster
    answers: list[tuple[int, Any]] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str], str, Any]] = field(default_factory=list)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async def handle(request: web.Request) -> web.Response:
        body = await request.text()
        kind = request.headers.get("Content-Type", "")
        asked = (request.method, request.path, dict(request.query), kind, json.loads(body) if body else None)
        found.asked.append(asked)
        status, answer = found.answers.pop(0)
        return web.json_response(answer, status=status)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    http = TestServer(application)
    await http.start_server()
    cluster = ApiCluster(Configuration(host=str(http.make_url("")).rstrip("/")))
    found = Server(cluster)
    yield found
    await cluster.close()
    await http.close()


def body(**metadata: str) -> dict[str, Any]:
    return DEPLOYMENT.partial("default", "d", **metadata) | {"spec": {"replicas": 1}}


async def test_a_list_is_read_page_by_page_and_its_items_know_their_kind(server: Server) -> None:
    # Given a list in two pages
    pages = [{"metadata": {"continue": "next"}, "items": [{"metadata": {"name": "a"}}]}]
    pages += [{"metadata": {}, "items": [{"metadata": {"name": "b"}}]}]
    server.answers = [(200, page) for page in pages]
    # When it is read, and its requests are counted
    with calls.counting() as counted:
        pods = await server.cluster.list(POD, "default", {"a/b": "c"}, "status.phase!=Failed")
    # Then both pages are there
    assert [(p["metadata"]["name"], p["kind"]) for p in pods] == [("a", "Pod"), ("b", "Pod")]
    assert [query.get("continue") for _, _, query, _, _ in server.asked] == [None, "next"]
    assert server.asked[0][2]["labelSelector"] == "a/b=c"
    assert counted.total == 2


async def test_apply_is_server_side_with_one_manager_and_force(server: Server) -> None:
    # When an object and its status are applied
    server.answers = [(200, {}), (200, {})]
    await server.cluster.apply(body(resourceVersion="7"))
    await server.cluster.apply_status(INFERENCE_SERVICE.partial("default", "chat") | {"status": {}})
    # Then both are server-side applies that carry the version they were planned from
    method, path, query, kind, sent = server.asked[0]
    assert (method, path) == ("PATCH", "/apis/apps/v1/namespaces/default/deployments/d")
    assert query == {"fieldManager": "tailguard", "force": "true"}
    assert kind == "application/apply-patch+yaml"
    assert sent["metadata"]["resourceVersion"] == "7"
    assert server.asked[1][1] == "/apis/tailguard.dev/v1alpha1/namespaces/default/inferenceservices/chat/status"


async def test_a_delete_carries_its_preconditions(server: Server) -> None:
    # When an object is deleted
    server.answers = [(200, {})]
    await server.cluster.delete(DEPLOYMENT, "default", "d", "u1", "7")
    # Then only this one may go, in this version, and its dependents with it
    assert server.asked[0][4] == {
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u1", "resourceVersion": "7"},
    }


async def test_create_and_replace_and_cluster_wide_kinds(server: Server) -> None:
    server.answers = [(201, {}), (200, {}), (200, {})]
    await server.cluster.create(body())
    await server.cluster.replace(body())
    await server.cluster.get(NODE, None, "n/1")
    assert [(m, p) for m, p, *_ in server.asked] == [
        ("POST", "/apis/apps/v1/namespaces/default/deployments"),
        ("PUT", "/apis/apps/v1/namespaces/default/deployments/d"),
        ("GET", "/api/v1/nodes/n/1"),
    ]


@pytest.mark.parametrize(
    ("status", "reason", "error"),
    [
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (401, "Unauthorized", Forbidden),
        (403, "Forbidden", Forbidden),
        (400, "BadRequest", Invalid),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (503, "", Unavailable),
    ],
)
async def test_refusals_have_their_own_errors(server: Server, status: int, reason: str, error: type[ApiError]) -> None:
    # Given a refusal
    server.answers = [(status, {"kind": "Status", "reason": reason, "message": "because"})]
    # When something is asked for
    with pytest.raises(ApiError) as caught:
        await server.cluster.get(DEPLOYMENT, "default", "d")
    # Then the error names the request and the server's words
    assert type(caught.value) is error
    assert "get Deployment" in str(caught.value) and "because" in str(caught.value)


async def test_a_server_out_of_reach_is_unavailable() -> None:
    # Given an address where nobody listens
    cluster = ApiCluster(Configuration(host="http://127.0.0.1:1"))
    # Then that is no answer, and says so
    with pytest.raises(Unavailable, match="no answer"):
        await cluster.get(DEPLOYMENT, "default", "d")
    await cluster.close()
