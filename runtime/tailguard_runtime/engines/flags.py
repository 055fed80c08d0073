"""The flag table of an engine version: names, kinds of value, choices and defaults.

The tables are cut from the engine's own argument parser by `scripts/cut_flag_table.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

LATEST = "0.32"


class Kind(StrEnum):
    """What a flag takes."""

    SWITCH = "switch"
    TEXT = "text"
    KEYWORD = "keyword"
    """One of the choices; case and `-` or `_` don't matter."""
    INTEGER = "integer"
    COUNT = "count"
    """An integer, also written as 32k (thousand) or 32K (1024)."""
    COUNT_OR_AUTO = "countOrAuto"
    NUMBER = "number"
    JSON = "json"
    JSON_OR_TEXT = "jsonOrText"


@dataclass(frozen=True)
class Flag:
    """One flag under all its names."""

    names: tuple[str, ...]
    kind: Kind
    many: bool = False
    """Takes one or more values."""
    choices: tuple[str, ...] = ()
    default: str | None = None
    """As the engine prints it; None where it is chosen at start (device, model)."""

    @property
    def name(self) -> str:
        """The long name that isn't a negation."""
        long = [name for name in self.names if name.startswith("--")]
        return long[0]

    @property
    def setting(self) -> str:
        """The name as a setting: `max_num_seqs`."""
        return self.name.removeprefix("--").replace("-", "_")


@dataclass(frozen=True)
class FlagTable:
    """All flags of one engine version."""

    engine: str
    version: str
    flags: tuple[Flag, ...]
    by_name: Mapping[str, Flag]

    def nearest(self, name: str) -> str | None:
        """The known name that looks most like this one, None when none does."""
        close = get_close_matches(name, list(self.by_name), n=1, cutoff=0.6)
        return close[0] if close else None

    def flag(self, setting: str) -> Flag:
        """The flag of a setting such as `max_num_seqs`.

        Raises:
            KeyError: this version doesn't know it.
        """
        return self.by_name["--" + setting.replace("_", "-")]


def flag_table(version: str) -> FlagTable | None:
    """The table of an engine version such as `0.32.0`, None when there is none."""
    release = ".".join(version.removeprefix("v").split(".")[:2])
    return _load(release) if release == LATEST else None


def latest_flag_table() -> FlagTable:
    """The newest table, for names only where a version has no table of its own."""
    return _load(LATEST)


@cache
def _load(release: str) -> FlagTable:
    path = files("tailguard_runtime.engines") / "tables" / f"vllm-{release}.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    flags = tuple(_flag(entry) for entry in content["flags"])
    by_name = {name: flag for flag in flags for name in flag.names}
    return FlagTable(content["engine"], content["version"], flags, by_name)


def _flag(entry: Mapping[str, Any]) -> Flag:
    return Flag(
        names=tuple(entry["names"]),
        kind=Kind(entry["kind"]),
        many=entry.get("many", False),
        choices=tuple(entry.get("choices", ())),
        default=entry.get("default"),
    )
