"""The stored form of a slot."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailguard_runtime.judge.samples import Half, SampleFormatError, Slot, decode_slot, encode_slot

MakeSlot = Callable[..., Slot]
seconds = st.one_of(st.floats(0, 1e6), st.just(math.inf))


@st.composite
def halves(draw: st.DrawFn, count: int) -> Half:
    def column(elements: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(elements, min_size=count, max_size=count))

    return Half(
        prompt_tokens=np.array(column(st.integers(0, 2**31 - 1)), dtype=np.int32),
        output_tokens=np.array(column(st.integers(0, 2**31 - 1)), dtype=np.int32),
        intended_s=np.array(column(st.floats(0, 1e4))),
        sent_s=np.array(column(st.floats(0, 1e4))),
        ttft_s=np.array(column(seconds)),
        tpot_s=np.array(column(st.one_of(seconds, st.just(math.nan)))),
        e2e_s=np.array(column(seconds)),
        status=np.array(column(st.integers(0, 599)), dtype=np.int16),
        error=tuple(column(st.text(max_size=20))),
    )


@st.composite
def slots(draw: st.DrawFn) -> Slot:
    void = draw(st.sampled_from(["", "SendersLate: the P99 lateness was 3 ms."]))
    count = draw(st.integers(0, 6))
    other = draw(st.integers(0, 6)) if void else count
    return Slot(
        number=draw(st.integers(0, 10**6)),
        first=draw(st.sampled_from(["canary", "twin"])),
        void=void,
        started_at=draw(st.floats(0, 2e9)),
        canary=draw(halves(count)),
        twin=draw(halves(other)),
        facts=draw(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3)),
    )


@settings(max_examples=60)
@given(slots())
def test_a_stored_slot_comes_back_as_it_was(slot: Slot) -> None:
    assert decode_slot(encode_slot(slot, benchmark="chat-1a2b3c4d-b1")) == slot


def test_the_same_slot_gives_the_same_bytes(make_slot: MakeSlot) -> None:
    slot = make_slot(3, [1.0, math.inf], [1.0, 2.0])
    assert encode_slot(slot, benchmark="b") == encode_slot(slot, benchmark="b")


def test_a_slot_of_400_requests_fits_a_config_map(make_slot: MakeSlot) -> None:
    # Given the largest slot of a live step, with latencies that don't compress
    rng = np.random.default_rng(0)
    data = encode_slot(make_slot(0, rng.random(400), rng.random(400)), benchmark="b")
    # Then it is far below the 900 KiB of a ConfigMap
    assert len(data) < 90_000


def test_any_arrow_reader_can_read_it(make_slot: MakeSlot) -> None:
    # Given a stored slot
    data = encode_slot(make_slot(7, [1.0, math.inf], [3.0, 4.0]), benchmark="chat-b1")
    # When it is read without this package
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    # Then a request is a row, and the slot's own fields lie in the metadata
    assert table.column("arm").to_pylist() == ["canary", "canary", "twin", "twin"]
    assert table.column("e2e_s").to_pylist() == [1.0, math.inf, 3.0, 4.0]
    about = json.loads(table.schema.metadata[b"tailguard.slot"])
    assert (about["benchmark"], about["number"]) == ("chat-b1", 7)
    assert table.schema.metadata[b"tailguard.schema"] == b"1"


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(SampleFormatError, match="no Arrow IPC file"):
        decode_slot(data)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_file_is_refused(share: float, make_slot: MakeSlot) -> None:
    data = encode_slot(make_slot(0, [1.0] * 50, [1.0] * 50), benchmark="b")
    with pytest.raises(SampleFormatError):
        decode_slot(data[: int(share * len(data))])


def rewritten(slot: Slot, change: Callable[[pa.Table], pa.Table]) -> bytes:
    table = change(pa.ipc.open_file(pa.BufferReader(encode_slot(slot, benchmark="b"))).read_all())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def with_metadata(**changed: str) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        new = {f"tailguard.{key}".encode(): value.encode() for key, value in changed.items()}
        return table.replace_schema_metadata({**(table.schema.metadata or {}), **new})

    return change


def with_column(name: str, values: pa.Array) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.column_names.index(name), name, values)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (with_metadata(schema="2"), "schema version is '2', this judge reads 1"),
        (lambda table: table.replace_schema_metadata({}), "schema version is ''"),
        (with_metadata(slot="{}"), "metadata can't be read"),
        (with_metadata(slot="not json"), "metadata can't be read"),
        (lambda table: table.drop_columns(["ttft_s"]), "column ttft_s is missing"),
        (with_column("status", pa.array(["200"] * 4)), "column status is string"),
        (with_column("e2e_s", pa.array([1.0, None, 1.0, 1.0])), "column e2e_s is double with 1 nulls"),
        (with_column("e2e_s", pa.array([1.0, -1.0, 1.0, 1.0])), "e2e_s holds -1.0"),
        (with_column("e2e_s", pa.array([1.0, math.nan, 1.0, 1.0])), "e2e_s holds nan"),
        (with_column("arm", pa.array(["canary", "canary", "twin", "other"])), "arm holds"),
        (with_column("arm", pa.array(["canary", "canary", "canary", "twin"])), "3 canary and 1 twin"),
    ],
)
def test_a_changed_file_is_refused_with_what_is_wrong(
    change: Callable[[pa.Table], pa.Table], complaint: str, make_slot: MakeSlot
) -> None:
    data = rewritten(make_slot(0, [1.0, 2.0], [1.0, 2.0]), change)
    with pytest.raises(SampleFormatError, match=complaint):
        decode_slot(data)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"ttft_s": np.array([1.0])}, "ttft_s has shape"),
        ({"error": ("",)}, "error has shape"),
        ({"tpot_s": np.array([0.1, -0.1])}, "tpot_s holds -0.1"),
        ({"ttft_s": np.array([0.1, math.nan])}, "ttft_s holds nan"),
    ],
)
def test_impossible_samples_are_refused(changed: dict[str, Any], complaint: str, make_slot: MakeSlot) -> None:
    good = make_slot(0, [1.0, 2.0], [1.0, 2.0]).canary
    columns = {name: getattr(good, name) for name in good.__dataclass_fields__}
    with pytest.raises(SampleFormatError, match=complaint):
        Half(**(columns | changed))


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"number": -1}, "slot number is -1"),
        ({"first": "stable"}, "first is 'stable'"),
        ({"started_at": math.nan}, "started_at is nan"),
    ],
)
def test_an_impossible_slot_is_refused(changed: dict[str, Any], complaint: str, make_slot: MakeSlot) -> None:
    good = make_slot(0, [1.0], [1.0])
    fields = {name: getattr(good, name) for name in good.__dataclass_fields__}
    with pytest.raises(SampleFormatError, match=complaint):
        Slot(**(fields | changed))


def test_samples_cant_be_changed_afterwards(make_slot: MakeSlot) -> None:
    # Given a half and the array that it was made from
    source = np.array([1.0, 2.0])
    half = make_slot(0, source, [1.0, 2.0]).canary
    # When the source changes
    source[0] = 9
    # Then the half doesn't, and it can't be written to
    assert half.e2e_s[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        half.e2e_s[0] = 9


def test_judging_does_not_load_pyarrow() -> None:
    # Given a fresh interpreter
    code = "import sys, tailguard_runtime.judge; print([m for m in ('pyarrow', 'scipy.stats') if m in sys.modules])"
    # When the judge is imported, as in every process that only judges
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    # Then neither of the two heavy libraries is there
    assert done.stdout.strip() == "[]"
