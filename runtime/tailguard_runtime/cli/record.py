"""The record of a Benchmark: its ConfigMaps in order, read as the operator reads them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailguard_runtime.judge import Slot

SLOT_KEY = "slot.arrow"
MANIFEST_KEY = "manifest.json"


@dataclass
class Record:
    """Stored slots by number. A number may also hold the manifest of a Job that has ended; a later Job goes on."""

    slots: dict[int, bytes] = field(default_factory=dict)
    next_number: int = 0
    _digests: dict[str, str] = field(default_factory=dict)

    def take(self, stored: Mapping[str, Any]) -> None:
        """The ConfigMap of the next number.

        Raises:
            SampleFormatError: it is neither slot nor manifest, or a manifest lists other digests.
        """
        from tailguard_runtime.judge import SampleFormatError

        name = stored["metadata"]["name"]
        try:
            if MANIFEST_KEY in (stored.get("data") or {}):
                self._check(name, json.loads(stored["data"][MANIFEST_KEY])["sha256"])
            else:
                data = base64.b64decode(stored["binaryData"][SLOT_KEY], validate=True)
                self.slots[self.next_number] = data
                self._digests[name] = hashlib.sha256(data).hexdigest()
        except (KeyError, TypeError, AttributeError, ValueError, binascii.Error) as problem:
            raise SampleFormatError(f"ConfigMap {name} can't be read: {problem}") from problem
        self.next_number += 1

    def decoded(self) -> list[Slot]:
        """The slots, numbered by their place: numbers that a manifest took leave no gap.

        Raises:
            SampleFormatError: a slot can't be read, or says that it is another one.
        """
        from tailguard_runtime.judge import SampleFormatError, decode_slot

        decoded: list[Slot] = []
        for number, data in self.slots.items():
            slot = decode_slot(data)
            if slot.number != number:
                raise SampleFormatError(f"slot {number} says that it is number {slot.number}")
            decoded.append(replace(slot, number=len(decoded)))
        return decoded

    def _check(self, name: str, listed: Mapping[str, str]) -> None:
        wrong = [slot for slot, digest in listed.items() if self._digests.get(slot) != digest]
        if wrong:
            raise ValueError(f"the samples in {', '.join(wrong)} are not those that were stored (another SHA-256)")
