"""What can go wrong between the operator and the API server.

- `ClusterError`
  - `ApiError`: the API server refused, or could not answer
    - `NotFound`: 404
    - `Conflict`: 409, planned from something that has changed since
      - `AlreadyExists`: 409 on a create, the name is taken
    - `Forbidden`: 401, 403
    - `Invalid`: 400, 422 and other refusals of the request itself
    - `Unavailable`: 408, 429, 5xx, no connection, no answer in time
  - `NotLeader`: this process may not write (any more)
"""

import json
from typing import Any


class ClusterError(Exception):
    """Any failure at the edge to the cluster."""


class NotLeader(ClusterError):  # noqa: N818 - named as the field names it
    """This process does not hold the Lease, or has not renewed it in time; nothing was written."""


class ApiError(ClusterError):
    """A request that the API server refused or could not serve. `status` is the HTTP status, 0 without an answer."""

    def __init__(self, request: str, status: int, message: str):
        self.request = request
        self.status = status
        self.message = message
        super().__init__(f"{request}: {status or 'no answer'}: {message}")


class NotFound(ApiError):  # noqa: N818
    """The object does not exist."""


class Conflict(ApiError):  # noqa: N818
    """The object is no longer what the write was planned from."""


class AlreadyExists(Conflict):
    """An object of that name exists."""


class Forbidden(ApiError):  # noqa: N818
    """The operator's account may not do this."""


class Invalid(ApiError):  # noqa: N818
    """The API server refuses the object itself."""


class Unavailable(ApiError):  # noqa: N818
    """The API server cannot answer now; the same request may work later."""


def refusal(request: str, status: int, body: bytes) -> ApiError:
    """The error for an answer with `status` 400 or more and its `body` (a `Status` object, if it is Kubernetes)."""
    answer = _status_object(body)
    message = str(answer.get("message") or body[:200].decode(errors="replace"))
    return _error_class(status, str(answer.get("reason", "")))(request, status, message)


def _error_class(status: int, reason: str) -> type[ApiError]:
    if status == 409:
        return AlreadyExists if reason == "AlreadyExists" else Conflict
    if status == 404:
        return NotFound
    if status in (401, 403):
        return Forbidden
    return Unavailable if status in (408, 429) or status >= 500 else Invalid


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
