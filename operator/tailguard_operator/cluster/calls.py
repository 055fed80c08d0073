"""Counts of API requests: for the whole process, and for one reconcile pass."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from prometheus_client import Counter

API_REQUESTS = Counter(
    "tailguard_api_requests_total",
    "Requests to the API server, by verb, kind and HTTP status (0: no answer).",
    ["verb", "kind", "status"],
)


@dataclass(slots=True)
class Calls:
    """Requests counted within a `counting` block."""

    total: int = 0


_current: ContextVar[Calls | None] = ContextVar("calls", default=None)


@contextmanager
def counting() -> Iterator[Calls]:
    """Count the requests of this task, and of the tasks that it starts, while the block runs."""
    calls = Calls()
    token = _current.set(calls)
    try:
        yield calls
    finally:
        _current.reset(token)


def count(verb: str, kind: str, status: int) -> None:
    """Note one finished request."""
    API_REQUESTS.labels(verb, kind, str(status)).inc()
    if calls := _current.get():
        calls.total += 1
