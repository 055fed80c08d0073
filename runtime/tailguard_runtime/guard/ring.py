"""One memory-mapped file for each serving process: its counts and its last request samples.

Any process of the pod can read the files of all, so whichever owns the probe port answers for the pod.
A record's sequence number is written last, and cleared first when its place is used again: a reader that
finds another number than it expects knows that the record is gone.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OUTCOMES = ("finished", "failed", "disconnected")
FINISHED, FAILED, DISCONNECTED = range(3)

# Words of the header; each is eight bytes.
MAGIC, CAPACITY, NEXT_SEQ = 0, 1, 2
STARTED, RUNNING, WAITING, FINISHED_COUNT, FAILED_COUNT, DISCONNECTED_COUNT = 8, 9, 10, 11, 12, 13
CLIENT_ERRORS, REFUSED, CHUNKS, TOKENS = 14, 15, 16, 17
LAST_ACTIVITY = 24

_MAGIC = 0x5447_5249_4E47_0001
_HEADER_BYTES = 512
_RECORD = struct.Struct("<QdddHBBIqq64s")
_RECORD_BYTES = 128
_PATH_BYTES = 64


@dataclass(frozen=True)
class Sample:
    """One request as the serving process saw it; times in seconds."""

    seq: int
    start: float
    """Unix time at which the request reached the middleware."""
    ttft: float | None
    """From start to the first byte of body; None when there was none."""
    e2e: float
    status: int
    """HTTP status, 0 when no answer began."""
    outcome: int
    """Index into OUTCOMES."""
    chunks: int
    """Server-sent events, without [DONE]."""
    tokens: int | None
    """usage.completion_tokens, None when the answer held no usage."""
    prompt_tokens: int | None
    path: str


class Ring:
    """The file of one process; `words` and `times` are its header as integers and floats."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self.words = view[:_HEADER_BYTES].cast("Q")
        self.times = view[:_HEADER_BYTES].cast("d")

    @classmethod
    def create(cls, path: Path, capacity: int) -> Ring:
        """Make an empty ring file; one that is there under this name is replaced."""
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            size = _HEADER_BYTES + capacity * _RECORD_BYTES
            os.ftruncate(descriptor, size)
            ring = cls(memoryview(mmap.mmap(descriptor, size)))
        finally:
            os.close(descriptor)
        ring.words[CAPACITY] = capacity
        ring.words[NEXT_SEQ] = 1
        ring.times[LAST_ACTIVITY] = time.monotonic()
        ring.words[MAGIC] = _MAGIC
        return ring

    @classmethod
    def open(cls, path: Path) -> Ring | None:
        """Open a ring for reading; None when it isn't complete or was made by another version."""
        try:
            with path.open("rb") as file:
                view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError):
            return None
        ring = cls(view) if len(view) >= _HEADER_BYTES else None
        return ring if ring is not None and ring.words[MAGIC] == _MAGIC else None

    @property
    def next_seq(self) -> int:
        """Number that the next sample will have; the first is 1."""
        return self.words[NEXT_SEQ]

    @property
    def oldest_seq(self) -> int:
        """Smallest number that is still kept."""
        return max(1, self.next_seq - self.words[CAPACITY])

    def append(self, sample: Sample) -> None:
        """Store a sample under the next number; its own `seq` is ignored."""
        seq = self.words[NEXT_SEQ]
        offset = self._offset(seq)
        body = _RECORD.pack(
            0,
            sample.start,
            math.nan if sample.ttft is None else sample.ttft,
            sample.e2e,
            sample.status,
            sample.outcome,
            0,
            sample.chunks,
            -1 if sample.tokens is None else sample.tokens,
            -1 if sample.prompt_tokens is None else sample.prompt_tokens,
            sample.path.encode("utf-8", "replace")[:_PATH_BYTES],
        )
        self._view[offset : offset + _RECORD.size] = body
        self._view[offset : offset + 8] = seq.to_bytes(8, "little")
        self.words[NEXT_SEQ] = seq + 1

    def samples(self, after: int = 0) -> Iterator[Sample]:
        """Samples with a number greater than `after`, oldest first; those overwritten are left out."""
        for seq in range(max(after + 1, self.oldest_seq), self.next_seq):
            sample = self._read(seq)
            if sample is not None:
                yield sample

    def _offset(self, seq: int) -> int:
        return _HEADER_BYTES + (seq % self.words[CAPACITY]) * _RECORD_BYTES

    def _read(self, seq: int) -> Sample | None:
        offset = self._offset(seq)
        record = bytes(self._view[offset : offset + _RECORD.size])
        still = int.from_bytes(self._view[offset : offset + 8], "little")
        found, start, ttft, e2e, status, outcome, _, chunks, tokens, prompt, path = _RECORD.unpack(record)
        if found != seq or still != seq:
            return None
        return Sample(
            seq=seq,
            start=start,
            ttft=None if math.isnan(ttft) else ttft,
            e2e=e2e,
            status=status,
            outcome=outcome,
            chunks=chunks,
            tokens=None if tokens < 0 else tokens,
            prompt_tokens=None if prompt < 0 else prompt,
            path=path.rstrip(b"\0").decode("utf-8", "replace"),
        )
