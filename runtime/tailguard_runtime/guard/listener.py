"""The probe port: a small HTTP/1.1 server in the serving process's own event loop.

Of several serving processes only one may own the port; the others wait for its lock and take over when it
dies. An event loop that is stuck doesn't answer here either, and that is what the probe is to notice.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from tailguard_runtime.guard.patience import within

_RETRY_SECONDS = 1.0
_REQUEST_SECONDS = 5.0
_LARGEST_HEAD = 16 * 1024
_LARGEST_BODY = 64 * 1024


@dataclass(frozen=True)
class Reply:
    """What a path answers."""

    status: int
    body: bytes
    content_type: str = "application/json"
    allow: str = ""


Handler = Callable[[Mapping[str, str]], Awaitable[Reply]]
Respond = Callable[[str, str, Mapping[str, str]], Awaitable[Reply]]


class Listener:
    """Serves `respond(method, path, query)` on a port for as long as this process owns the lock."""

    def __init__(self, port: int, lock: Path, respond: Respond) -> None:
        self._port = port
        self._lock = lock
        self._respond = respond
        self._descriptor: int | None = None
        self._server: asyncio.Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def owns_port(self) -> bool:
        """Whether this process is the one that answers."""
        return self._server is not None

    def start(self) -> None:
        """Begin to try for the port; returns at once."""
        self._task = asyncio.get_running_loop().create_task(self._own())

    async def stop(self) -> None:
        """Close the port and let another process have it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    async def _own(self) -> None:
        warned = False
        while True:
            try:
                if self._take_lock():
                    self._server = await asyncio.start_server(self._serve, "0.0.0.0", self._port, limit=_LARGEST_HEAD)
                    return
            except OSError as error:
                if not warned:
                    print(f"tailguard: port {self._port} can't be opened: {error}", file=sys.stderr, flush=True)
                warned = True
            await asyncio.sleep(_RETRY_SECONDS)

    def _take_lock(self) -> bool:
        if self._descriptor is None:
            self._descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await within(_REQUEST_SECONDS, _read_request(reader))
            if request is not None:
                reply = await self._respond(*request)
                writer.write(_head(reply) + reply.body)
                await within(_REQUEST_SECONDS, writer.drain())
        except (ConnectionError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Whoever sends no proper request gets no answer.
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *headers = head.split("\r\n")
    method, target, _ = line.split(" ", 2)
    for header in headers:
        name, _, value = header.partition(":")
        if name.lower() == "content-length":
            # An unread body would make the kernel reset the connection before the answer is read.
            await reader.readexactly(min(int(value), _LARGEST_BODY))
    url = urlsplit(target)
    return method, url.path, dict(parse_qsl(url.query, keep_blank_values=True))


def _head(reply: Reply) -> bytes:
    lines = [
        f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}",
        f"Content-Type: {reply.content_type}",
        f"Content-Length: {len(reply.body)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    if reply.allow:
        lines.append(f"Allow: {reply.allow}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
