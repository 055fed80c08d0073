"""Listeners on the pods' probe port that count what the operator asks of them."""

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROBE_PORT = 9901
CLOSE_PATH = "/tailguard/close"


class ClosePorts:
    """One listener a pod address; `closed` counts `POST /tailguard/close` by address, for addresses now gone too."""

    def __init__(self) -> None:
        self.closed: Counter[str] = Counter()
        self._servers: dict[str, ThreadingHTTPServer] = {}

    def open(self, ip: str) -> None:
        """Listen on the address, once."""
        if ip in self._servers:
            return
        server = ThreadingHTTPServer((ip, PROBE_PORT), self._handler(ip))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
        self._servers[ip] = server

    def forget(self, ip: str) -> None:
        """Stop listening on the address."""
        if server := self._servers.pop(ip, None):
            server.shutdown()
            server.server_close()

    def close(self) -> None:
        """Stop listening everywhere."""
        for ip in [*self._servers]:
            self.forget(ip)

    def _handler(self, ip: str) -> type[BaseHTTPRequestHandler]:
        closed = self.closed

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                known = self.path == CLOSE_PATH
                if known:
                    closed[ip] += 1
                self.send_response(200 if known else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        return Handler
