"""The ASGI types, and a call to an ASGI app from within its own process.

A call goes to the app behind the middleware, so it is never counted, needs no socket and reaches this
process even when several share the serving port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True)
class Answer:
    """What the app answered; status 0 means that no answer began."""

    status: int
    body: bytes


async def call(
    app: App,
    method: str,
    path: str,
    *,
    body: bytes = b"",
    headers: Headers = (),
    lifespan: MutableMapping[str, Any] | None = None,
) -> Answer:
    """Send one request to the app and wait for the whole answer.

    Args:
        app: the app behind the middleware.
        method: HTTP method.
        path: path without a query.
        body: request body.
        headers: request headers, names in lower case.
        lifespan: scope of the lifespan, which holds what frameworks expect (`app`, `state`).

    Raises:
        Exception: whatever the app raised.
    """
    exchange = _Exchange(body)
    scope = _scope(method, path, headers, lifespan or {})
    try:
        await app(scope, exchange.receive, exchange.send)
    finally:
        exchange.over.set()
    return Answer(exchange.status, bytes(exchange.body))


class _Exchange:
    def __init__(self, request: bytes) -> None:
        self._request: bytes | None = request
        self.over = asyncio.Event()
        self.status = 0
        self.body = bytearray()

    async def receive(self) -> Message:
        if self._request is not None:
            request, self._request = self._request, None
            return {"type": "http.request", "body": request, "more_body": False}
        await self.over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.body += message.get("body", b"")
            if not message.get("more_body", False):
                self.over.set()


def _scope(method: str, path: str, headers: Headers, lifespan: MutableMapping[str, Any]) -> Scope:
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
        "extensions": {},
    }
    for key in ("app", "state"):
        if key in lifespan:
            scope[key] = lifespan[key]
    return scope
