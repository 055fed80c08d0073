"""What a benchmark measured: one slot is the same requests sent to one arm, then to the other.

The stored form is Arrow IPC with zstd, one row a request, so that a slot can be read by any Arrow reader. pyarrow is
imported only when a slot is encoded or decoded: judging needs numpy alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Arm = Literal["canary", "twin"]

ARMS: tuple[Arm, Arm] = ("canary", "twin")
SCHEMA_VERSION = 1

_COLUMNS: Mapping[str, type[np.generic]] = {
    "prompt_tokens": np.int32,
    "output_tokens": np.int32,
    "intended_s": np.float64,
    "sent_s": np.float64,
    "ttft_s": np.float64,
    "tpot_s": np.float64,
    "e2e_s": np.float64,
    "status": np.int16,
}
_LATENCIES = ("ttft_s", "tpot_s", "e2e_s")
_VERSION_KEY = b"tailguard.schema"
_SLOT_KEY = b"tailguard.slot"


class SampleFormatError(ValueError):
    """Samples that can't be what a benchmark measured; the message names the field and what is allowed."""


@dataclass(frozen=True, eq=False)
class Half:
    """One arm's half of a slot: arrays of length M in request order; the same index is the same prompt in both arms.

    Attributes:
        prompt_tokens: Tokens of the prompt, which decide the request's class.
        output_tokens: Tokens that the server generated.
        intended_s: Seconds from the half's start on the absolute schedule.
        sent_s: Seconds from the half's start when the first byte was written.
        ttft_s: Time to the first token from the intended send, in seconds; +inf = failed or timed out.
        tpot_s: Time per output token after the first; nan = undefined (a single token), +inf = failed.
        e2e_s: Time to the last token from the intended send; +inf = failed or timed out.
        status: HTTP status, 0 = no answer.
        error: What went wrong, "" = nothing.

    Raises:
        SampleFormatError: Arrays of different lengths, a negative latency, or nan where a value must be.
    """

    prompt_tokens: npt.NDArray[np.int32]
    output_tokens: npt.NDArray[np.int32]
    intended_s: FloatArray
    sent_s: FloatArray
    ttft_s: FloatArray
    tpot_s: FloatArray
    e2e_s: FloatArray
    status: npt.NDArray[np.int16]
    error: tuple[str, ...]

    def __post_init__(self) -> None:
        for name, kind in _COLUMNS.items():
            column = np.array(getattr(self, name), dtype=kind)
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        object.__setattr__(self, "error", tuple(self.error))
        self._check()

    def _check(self) -> None:
        for column in fields(self):
            values = getattr(self, column.name)
            if len(values) != len(self) or (column.name != "error" and values.ndim != 1):
                raise SampleFormatError(f"{column.name} has shape {np.shape(values)}, wanted ({len(self)},) as e2e_s")
        for name in _LATENCIES:
            values = getattr(self, name)
            if bool(np.any(values < 0)):
                raise SampleFormatError(f"{name} holds {values.min()}, a latency is 0 or more; +inf marks a failure")
            if name != "tpot_s" and bool(np.any(np.isnan(values))):
                raise SampleFormatError(f"{name} holds nan; only tpot_s may be undefined, a failure is +inf")

    def __len__(self) -> int:
        return len(self.e2e_s)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Half):
            return NotImplemented
        same = (np.array_equal(getattr(self, n), getattr(other, n), equal_nan=True) for n in _COLUMNS)
        return self.error == other.error and all(same)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def failed(self) -> npt.NDArray[np.bool_]:
        """Which requests failed or timed out, shape (M,)."""
        return np.asarray(self.e2e_s == np.inf)


@dataclass(frozen=True)
class Slot:
    """One slot: the same requests to one arm, then to the other, in an order that a seeded coin chose.

    Attributes:
        number: Place in the benchmark, from 0, without gaps.
        first: The arm that was measured first.
        void: "" = valid, else a CamelCase reason and a sentence. A void slot is no evidence, but its requests count.
        started_at: Unix seconds, for display only.
        canary: The arm under test (in an A/A start: aa-a).
        twin: The arm that it is compared with (in an A/A start: aa-b).
        facts: Whatever else is known of it: seed, pods, lateness, hit rates, engine fingerprints.

    Raises:
        SampleFormatError: A negative number, an unknown arm, or a valid slot whose halves differ in length.
    """

    number: int
    first: Arm
    void: str
    started_at: float
    canary: Half
    twin: Half
    facts: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.number < 0:
            raise SampleFormatError(f"slot number is {self.number}, wanted 0 or more")
        if self.first not in ARMS:
            raise SampleFormatError(f"first is {self.first!r}, wanted one of {', '.join(ARMS)}")
        if not math.isfinite(self.started_at):
            raise SampleFormatError(f"started_at is {self.started_at}, wanted unix seconds")
        if not self.void and len(self.canary) != len(self.twin):
            raise SampleFormatError(
                f"slot {self.number} is valid but has {len(self.canary)} canary and {len(self.twin)} twin requests"
            )

    @property
    def requests(self) -> int:
        """Requests of both arms."""
        return len(self.canary) + len(self.twin)

    def half(self, arm: Arm) -> Half:
        """The samples of one arm."""
        return self.canary if arm == "canary" else self.twin

    def swapped(self) -> Slot:
        """The same slot with the arms' names exchanged, as an A/A start is judged in both directions."""
        first: Arm = "twin" if self.first == "canary" else "canary"
        return Slot(self.number, first, self.void, self.started_at, self.twin, self.canary, self.facts)


def encode_slot(slot: Slot, *, benchmark: str) -> bytes:
    """A slot as an Arrow IPC file with zstd, one row a request, the slot's own fields in the schema's metadata."""
    import pyarrow as pa

    columns = _arrow_columns(slot)
    about = {"benchmark": benchmark, "number": slot.number, "first": slot.first, "void": slot.void}
    about |= {"started_at": slot.started_at, "facts": dict(slot.facts)}
    metadata = {
        _VERSION_KEY: str(SCHEMA_VERSION).encode(),
        _SLOT_KEY: json.dumps(about, sort_keys=True).encode(),
    }
    table = pa.table(columns, metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _arrow_columns(slot: Slot) -> dict[str, pa.Array[Any]]:
    import pyarrow as pa

    halves = [slot.half(arm) for arm in ARMS]
    arms = [arm for arm, half in zip(ARMS, halves, strict=True) for _ in range(len(half))]
    columns: dict[str, pa.Array[Any]] = {"arm": pa.array(arms, pa.string())}
    for name in _COLUMNS:
        columns[name] = pa.array(np.concatenate([getattr(half, name) for half in halves]))
    columns["error"] = pa.array([text for half in halves for text in half.error], pa.string())
    return columns


def decode_slot(data: bytes) -> Slot:
    """The slot that :func:`encode_slot` wrote.

    Raises:
        SampleFormatError: Not an Arrow file, another schema version, a missing column or an impossible value.
    """
    table = _read_table(data)
    metadata = table.schema.metadata or {}
    version = metadata.get(_VERSION_KEY, b"").decode(errors="replace")
    if version != str(SCHEMA_VERSION):
        raise SampleFormatError(f"schema version is {version!r}, this judge reads {SCHEMA_VERSION}")
    try:
        about = json.loads(metadata[_SLOT_KEY])
        return Slot(
            number=int(about["number"]),
            first=about["first"],
            void=str(about["void"]),
            started_at=float(about["started_at"]),
            canary=_half(table, "canary"),
            twin=_half(table, "twin"),
            facts={str(key): str(value) for key, value in about["facts"].items()},
        )
    except SampleFormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise SampleFormatError(f"the slot's metadata can't be read: {problem!r}") from problem


def _read_table(data: bytes) -> pa.Table:
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise SampleFormatError(f"{len(data)} bytes are no Arrow IPC file: {problem}") from problem
    missing = [name for name in ("arm", *_COLUMNS, "error") if name not in table.column_names]
    if missing:
        raise SampleFormatError(f"column {', '.join(missing)} is missing; there are {', '.join(table.column_names)}")
    return table


def _half(table: pa.Table, arm: Arm) -> Half:
    arms = np.asarray(table.column("arm").to_pylist(), dtype=object)
    if not set(arms.tolist()) <= set(ARMS):
        raise SampleFormatError(f"arm holds {sorted(set(map(str, arms)))}, wanted {', '.join(ARMS)}")
    rows = np.flatnonzero(arms == arm)
    columns = {name: _column(table, name, kind)[rows] for name, kind in _COLUMNS.items()}
    texts = cast("Sequence[str | None]", table.column("error").to_pylist())
    return Half(**columns, error=tuple(texts[row] or "" for row in rows.tolist()))


def _column(table: pa.Table, name: str, kind: type[np.generic]) -> npt.NDArray[Any]:
    column = table.column(name)
    if column.null_count or str(column.type) != {"float64": "double"}.get(np.dtype(kind).name, np.dtype(kind).name):
        raise SampleFormatError(
            f"column {name} is {column.type} with {column.null_count} nulls, wanted {kind.__name__}"
        )
    return np.asarray(column.to_numpy())
