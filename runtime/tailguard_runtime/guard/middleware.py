"""The ASGI middleware that vLLM loads: `--middleware tailguard_runtime.guard.middleware.GuardMiddleware`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from tailguard_runtime.guard import ring as r
from tailguard_runtime.guard.asgi import App, Headers, Message, Receive, Scope, Send
from tailguard_runtime.guard.control import Control
from tailguard_runtime.guard.counts import Counts
from tailguard_runtime.guard.engine import Engine
from tailguard_runtime.guard.exchange import Exchange, peer_of, with_leave
from tailguard_runtime.guard.listener import Listener
from tailguard_runtime.guard.paths import PREFIX, Paths
from tailguard_runtime.guard.probes import Probes
from tailguard_runtime.guard.process import process_name
from tailguard_runtime.guard.settings import Settings

# Where users' requests go; probes, metrics, tokenizer and administration lie elsewhere.
_USER_PREFIXES = ("/v1/", "/v2/", "/inference/", "/cohere/", "/invocations")
_ADMINISTRATION = frozenset({"/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/inference/v1/abort_requests"})
_SHUTTING_DOWN = "this server is shutting down; send the request again"


class GuardMiddleware:
    """Counts users' requests, tells connections to close, and serves the probe port beside the app."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._guard: _Guard | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope: a request, a websocket or the lifespan of the server."""
        if scope["type"] == "http":
            await self._request(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def watch(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                self._start(scope)
            elif message["type"] in ("lifespan.shutdown.complete", "lifespan.shutdown.failed"):
                await self._stop()
            await send(message)

        await self._app(scope, receive, watch)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A server that runs without lifespan starts the guard with its first request.
        guard = self._guard or self._start(scope)
        path: str = scope["path"]
        if path == PREFIX or path.startswith(PREFIX + "/"):
            await _answer(send, 404, {"error": "not found"})
        elif scope["method"] != "POST" or not _is_user_path(path):
            await self._pass(guard, scope, receive, send)
        elif guard.control.refusing:
            guard.ring.words[r.REFUSED] += 1
            await _refuse(send)
        else:
            await self._count(guard, scope, receive, send)

    async def _pass(self, guard: _Guard, scope: Scope, receive: Receive, send: Send) -> None:
        async def leave(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = with_leave(message, guard.control, peer_of(scope))
            await send(message)

        await self._app(scope, receive, leave)

    async def _count(self, guard: _Guard, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(guard.ring, guard.control, scope, receive, send)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except BaseException as error:
            exchange.end(error)
            raise
        exchange.end()

    def _start(self, scope: Scope) -> _Guard:
        self._guard = _Guard(Settings.from_environment(os.environ), self._app, scope)
        self._guard.listener.start()
        return self._guard

    async def _stop(self) -> None:
        if self._guard is not None:
            await self._guard.listener.stop()


class _Guard:
    def __init__(self, settings: Settings, app: App, scope: Scope) -> None:
        self.control = Control(settings.state_dir)
        counts = Counts(settings.state_dir)
        self.ring = counts.create_own(process_name() or str(os.getpid()), settings.ring_capacity)
        engine = Engine(app, settings.served_name, settings.api_key, settings.serving_port, scope)
        probes = Probes(settings, engine, counts, self.control)
        paths = Paths(settings, engine, counts, self.control, probes)
        self.listener = Listener(settings.port, settings.state_dir / "owner.lock", paths.respond)


def _is_user_path(path: str) -> bool:
    return path.startswith(_USER_PREFIXES) and path not in _ADMINISTRATION


async def _refuse(send: Send) -> None:
    error = {"message": _SHUTTING_DOWN, "type": "Service Unavailable", "param": None, "code": 503}
    await _answer(send, 503, {"error": error}, ((b"retry-after", b"1"), (b"connection", b"close")))


async def _answer(send: Send, status: int, body: Mapping[str, object], headers: Headers = ()) -> None:
    encoded = json.dumps(body).encode()
    length = (b"content-length", str(len(encoded)).encode())
    kind = (b"content-type", b"application/json")
    await send({"type": "http.response.start", "status": status, "headers": [kind, length, *headers]})
    await send({"type": "http.response.body", "body": encoded})
