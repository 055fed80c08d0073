"""Rings, counts and orders in the shared directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_runtime.guard import ring as r
from tailguard_runtime.guard.connections import open_connections
from tailguard_runtime.guard.control import Control
from tailguard_runtime.guard.counts import Counts
from tailguard_runtime.guard.process import is_alive, process_name
from tailguard_runtime.guard.ring import Ring, Sample
from tailguard_runtime.guard.settings import Settings


def sample(seq: int = 0, path: str = "/v1/completions") -> Sample:
    return Sample(seq, 1.5, 0.25, 2.0, 200, r.FINISHED, 7, None, 3, path)


def test_ring_keeps_the_last_samples_and_counts_on(tmp_path: Path) -> None:
    # Given a ring of four places and ten samples
    ring = Ring.create(tmp_path / "ring-x", 4)
    for _ in range(10):
        ring.append(sample())
    # When another process reads it
    read = Ring.open(tmp_path / "ring-x")
    # Then it finds the last four under their own numbers, and can tell that older ones are gone
    assert read is not None
    assert [s.seq for s in read.samples()] == [7, 8, 9, 10]
    assert (read.oldest_seq, read.next_seq) == (7, 11)
    assert [s.seq for s in read.samples(after=8)] == [9, 10]


def test_ring_leaves_out_what_is_overwritten_while_read(tmp_path: Path) -> None:
    # Given a reader in the middle of a ring
    ring = Ring.create(tmp_path / "ring-x", 4)
    for _ in range(4):
        ring.append(sample())
    reading = ring.samples()
    assert next(reading).seq == 1
    # When the writer laps it
    for _ in range(3):
        ring.append(sample())
    # Then it gets only what is whole: a gap, never a wrong sample
    assert [s.seq for s in reading] == [4]


@given(
    ttft=st.none() | st.floats(0, 1e6),
    status=st.integers(0, 599),
    tokens=st.none() | st.integers(0, 2**40),
    path=st.text(max_size=100),
)
def test_ring_gives_back_what_it_was_given(
    tmp_path_factory: pytest.TempPathFactory, ttft: float | None, status: int, tokens: int | None, path: str
) -> None:
    ring = Ring.create(tmp_path_factory.mktemp("r") / "ring-x", 2)
    given_ = Sample(1, 0.5, ttft, 2.0, status, r.FAILED, 7, tokens, None, path)
    ring.append(given_)
    (read,) = ring.samples()
    assert (read.ttft, read.status, read.tokens) == (ttft, status, tokens)
    if path.isprintable() and len(path.encode()) <= 64:
        assert read == given_


def test_broken_ring_is_not_read(tmp_path: Path) -> None:
    for content in (b"", b"x" * 10, b"\0" * 4096):
        (tmp_path / "ring-x").write_bytes(content)
        assert Ring.open(tmp_path / "ring-x") is None
    assert Counts(tmp_path).totals()["started"] == 0


def test_counts_leave_out_dead_processes_but_keep_their_samples(tmp_path: Path) -> None:
    # Given a ring of this process and one of a process that is gone
    counts = Counts(tmp_path)
    own = process_name()
    assert own is not None
    for name in (own, "999999-1"):
        ring = Ring.create(tmp_path / f"ring-{name}", 4)
        ring.words[r.STARTED] += 2
        ring.append(sample())
    # Then
    assert counts.totals()["started"] == 2
    assert set(counts.alive()) == {own}
    assert set(counts.rings()) == {own, "999999-1"}
    assert [s.seq for s in counts.rings()["999999-1"].samples()] == [1]


def test_only_the_last_dead_rings_are_kept(tmp_path: Path) -> None:
    for age in range(9):
        path = tmp_path / f"ring-99999{age}-1"
        Ring.create(path, 2)
        os.utime(path, (age, age))
    counts = Counts(tmp_path)
    counts.create_own("1-1", 2)
    assert set(counts.rings()) == {"1-1", *(f"99999{age}-1" for age in (5, 6, 7, 8))}


def test_process_name_tells_a_reused_number(tmp_path: Path) -> None:
    name = process_name()
    assert name is not None
    assert is_alive(name)
    assert not is_alive(f"{os.getpid()}-1")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        child_name = process_name(child.pid)
        child.kill()
    assert child_name is not None
    assert not is_alive(child_name)


def test_orders_are_seen_by_another_process_and_survive_a_restart(tmp_path: Path) -> None:
    # Given two servers on one directory
    first, second = Control(tmp_path), Control(tmp_path)
    first.drain()
    assert (second.draining, second.refusing) == (True, False)
    first.drain(refuse=True)
    assert second.refusing
    # When one starts anew, then the drain still stands (a borrowed pod stays out of its Service)
    assert Control(tmp_path).draining
    second.end_drain()
    assert (first.draining, first.refusing) == (False, False)


def test_close_reaches_each_process_and_each_connection_once(tmp_path: Path) -> None:
    first, second = Control(tmp_path), Control(tmp_path)
    first.close({("10.0.0.1", 5000), ("10.0.0.2", 5001)})
    assert second.takes_leave(("10.0.0.1", 5000))
    assert not second.takes_leave(("10.0.0.1", 5000))
    assert not second.takes_leave(("10.0.0.3", 5000))
    assert not second.takes_leave(None)
    assert first.takes_leave(("10.0.0.2", 5001))
    # A server that starts later has none of those connections.
    assert not Control(tmp_path).takes_leave(("10.0.0.2", 5001))


def test_quiet_ends_by_itself_and_never_outlives_a_reboot(tmp_path: Path) -> None:
    now = [100_000.0]
    control = Control(tmp_path, clock=lambda: now[0])
    control.quiet(30)
    assert control.quiet_for == 30
    now[0] += 29
    assert control.quiet_for == 1
    now[0] += 2
    assert control.quiet_for == 0
    # When the clock of the machine starts again
    control.quiet(30)
    now[0] = 5.0
    assert control.quiet_for == 0


def test_open_connections_are_read_from_the_kernels_tables(tmp_path: Path) -> None:
    # Given tables with an established, a listening, a foreign and an IPv4-in-IPv6 entry
    head = "  sl  local_address rem_address   st\n"
    ipv4 = tmp_path / "tcp"
    ipv4.write_text(
        head
        + "   0: 0100007F:1F40 0200000A:C350 01\n"
        + "   1: 00000000:1F40 00000000:0000 0A\n"
        + "   2: 0100007F:1F41 0200000A:C351 01\n"
    )
    ipv6 = tmp_path / "tcp6"
    ipv6.write_text(
        head
        + "   0: 0000000000000000FFFF00000100007F:1F40 0000000000000000FFFF00000300000A:C352 01\n"
        + "   1: 00000000000000000000000001000000:1F40 00000000000000000000000001000000:C353 01\n"
    )
    # Then
    assert open_connections(8000, (ipv4, ipv6)) == {
        ("10.0.0.2", 50000),
        ("10.0.0.3", 50002),
        ("::1", 50003),
    }
    assert open_connections(8000, (ipv4, tmp_path / "missing")) == {("10.0.0.2", 50000)}


@pytest.mark.parametrize("value", ["x", "0", "-3"])
def test_malformed_setting_names_variable_and_value(value: str) -> None:
    with pytest.raises(ValueError, match=f"TAILGUARD_PORT='{value}'"):
        Settings.from_environment({"TAILGUARD_PORT": value})
