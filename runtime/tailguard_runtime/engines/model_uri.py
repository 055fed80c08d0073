"""The model's address: `hf://ORGANISATION/NAME`, `pvc://CLAIM/PATH` or `file:///PATH`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

_REPOSITORY = re.compile(r"^(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*$", re.ASCII)
_CLAIM = re.compile(r"^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$")
_REVISION = re.compile(r"^[\w][\w./-]*$", re.ASCII)
_COMMIT = re.compile(r"^[0-9a-f]{40}$")
_FORMS = "hf://ORGANISATION/NAME, pvc://CLAIM/PATH or file:///PATH (a path inside the engine's container)"


class ModelUriError(ValueError):
    """The address can't be used; the message names field, value, what is allowed and what to do."""

    def __init__(self, field: str, value: str, reason: str, allowed: str, action: str) -> None:
        super().__init__(f"{field}: {value!r} {reason}; allowed: {allowed}. {action}")
        self.field = field
        self.value = value
        self.reason = reason
        self.allowed = allowed
        self.action = action


@dataclass(frozen=True)
class ModelSource:
    """Where the weights come from."""

    scheme: str
    """`file`, `pvc` or `hf`."""
    uri: str
    path: str = ""
    """file: absolute path in the engine's container; pvc: path inside the claim, empty for its root."""
    claim: str = ""
    repository: str = ""
    revision: str = ""
    """Branch, tag or commit of the repository; empty = its default branch."""

    @property
    def pinned(self) -> bool:
        """Whether the address always means the same bytes as far as its source can promise that."""
        return self.scheme != "hf" or _COMMIT.match(self.revision) is not None


def parse_model_uri(uri: str, revision: str = "", *, field: str = "spec.model.uri") -> ModelSource:
    """Read a model's address.

    Args:
        uri: the address as the user wrote it.
        revision: branch, tag or commit; only for `hf://`.
        field: path of the field, for the message.

    Raises:
        ModelUriError: it is empty or malformed, has an unknown scheme or leaves its root.
    """
    if not uri.strip():
        raise ModelUriError(field, uri, "is empty", _FORMS, "Name the model to serve.")
    scheme, separator, rest = uri.partition("://")
    reader = _READERS.get(scheme)
    if not separator or reader is None:
        reason = f"has the unknown scheme {scheme!r}" if separator else "has no scheme"
        raise ModelUriError(field, uri, reason, _FORMS, _suggestion(uri, separator))
    if any(character.isspace() or character in "?#%\\" for character in rest):
        raise ModelUriError(field, uri, "holds a space or one of ? # % \\", _FORMS, "Write the plain path.")
    source = reader(uri, rest, field)
    return _with_revision(source, revision, field.rpartition(".")[0] + ".revision")


def _hub(uri: str, rest: str, field: str) -> ModelSource:
    if not _REPOSITORY.match(rest) or ".." in rest:
        allowed = "hf://ORGANISATION/NAME of letters, digits, '.', '_' and '-'"
        raise ModelUriError(field, uri, "names no repository", allowed, "Example: hf://Qwen/Qwen3-8B.")
    return ModelSource("hf", uri, repository=rest)


def _claim(uri: str, rest: str, field: str) -> ModelSource:
    claim, _, path = rest.partition("/")
    if not _CLAIM.match(claim):
        allowed = "pvc://CLAIM/PATH, CLAIM being a PersistentVolumeClaim of the same namespace"
        raise ModelUriError(field, uri, "names no claim", allowed, "Example: pvc://models/qwen3-8b.")
    return ModelSource("pvc", uri, path=_inside(uri, path, field), claim=claim)


def _file(uri: str, rest: str, field: str) -> ModelSource:
    if not rest.startswith("/") or not rest.strip("/"):
        allowed = "file:///PATH, an absolute path inside the engine's container"
        raise ModelUriError(field, uri, "names no absolute path", allowed, "Example: file:///models/qwen3-8b.")
    return ModelSource("file", uri, path="/" + _inside(uri, rest, field))


def _inside(uri: str, path: str, field: str) -> str:
    parts = PurePosixPath(path.strip("/")).parts
    if ".." in parts:
        raise ModelUriError(field, uri, "holds '..'", "a path without '..'", "Write the path without detours.")
    return "/".join(parts)


_READERS: Mapping[str, Callable[[str, str, str], ModelSource]] = {"hf": _hub, "pvc": _claim, "file": _file}


def _with_revision(source: ModelSource, revision: str, field: str) -> ModelSource:
    if not revision:
        return source
    if source.scheme != "hf":
        raise ModelUriError(
            field,
            revision,
            f"has no meaning for {source.scheme}://",
            "a revision with hf:// only",
            "Remove it.",
        )
    if not _REVISION.match(revision) or ".." in revision:
        raise ModelUriError(
            field,
            revision,
            "is not a revision",
            "a branch, a tag or a commit of 40 hex digits",
            "Correct it.",
        )
    return ModelSource("hf", source.uri, repository=source.repository, revision=revision)


def _suggestion(uri: str, separator: str) -> str:
    if separator:
        return "Use one of these."
    if uri.startswith("/"):
        return f"Did you mean file://{uri}?"
    return f"Did you mean hf://{uri}?" if _REPOSITORY.match(uri) and "/" in uri else "Use one of these."
