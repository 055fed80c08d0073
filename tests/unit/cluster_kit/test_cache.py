"""The cache: a build is keyed by what it depends on, made once, and never used half made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from e2e.cluster.cache import KEEP_UNUSED_DAYS, MARKER, cached, fingerprint
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.lists(st.text(max_size=8), max_size=4)


@given(first=TEXTS, second=TEXTS)
def test_fingerprints_differ_when_any_part_differs(first: list[str], second: list[str]) -> None:
    # Given two lists of inputs, Then their keys agree only if the lists do: ["ab"] is not ["a", "b"].
    assert (fingerprint(first) == fingerprint(second)) == (first == second)


def test_a_file_counts_by_its_content(tmp_path: Path) -> None:
    # Given the same content under two names
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("same")
    two.write_text("same")
    # Then both have the same key, until one changes
    assert fingerprint([one]) == fingerprint([two])
    two.write_text("other")
    assert fingerprint([one]) != fingerprint([two])


def test_a_complete_entry_is_not_built_again(tmp_path: Path) -> None:
    # Given an entry that was built
    builds: list[Path] = []
    first = cached(tmp_path, "tool", "k1", "tool", builds.append)
    # When it is asked for again, and then with another key
    again = cached(tmp_path, "tool", "k1", "tool", builds.append)
    other = cached(tmp_path, "tool", "k2", "tool", builds.append)
    # Then only the new key is built
    assert first == again
    assert builds == [first, other]


def test_a_build_that_ended_half_way_is_thrown_away(tmp_path: Path) -> None:
    # Given a build that leaves a file and fails
    def fails(out: Path) -> None:
        (out / "half").touch()
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        cached(tmp_path, "tool", "k", "tool", fails)
    # When it is built again
    entry = cached(tmp_path, "tool", "k", "tool", lambda out: (out / "whole").touch())
    # Then nothing of the first try is left
    assert sorted(path.name for path in entry.iterdir()) == sorted([MARKER, "whole"])


def test_only_entries_unused_for_long_are_removed(tmp_path: Path) -> None:
    # Given three entries, one of them unused for longer than the limit
    old = cached(tmp_path, "tool", "old", "tool", lambda out: None)
    recent = cached(tmp_path, "tool", "recent", "tool", lambda out: None)
    before = (old / MARKER).stat().st_mtime - (KEEP_UNUSED_DAYS + 1) * 86400
    os.utime(old / MARKER, (before, before))
    # When another is made
    new = cached(tmp_path, "tool", "new", "tool", lambda out: None)
    # Then only the old one is gone
    assert not old.exists()
    assert recent.exists()
    assert new.exists()
