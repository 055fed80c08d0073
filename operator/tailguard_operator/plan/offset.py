"""s, the sd of the log offset between identical pods, learned from A/A starts (judge-designs.md D)."""

import math
import statistics
from collections.abc import Mapping
from typing import Any

from tailguard_operator.api.status import OffsetStatus

LEAST_SD = 0.04
"""Used, unless the estimate is larger, until four starts are known."""
ENOUGH_STARTS = 4
HISTORY = 32


def learned_offset(old: OffsetStatus | None, frozen: Mapping[str, Any]) -> OffsetStatus:
    """The offset after one more A/A start.

    Each history entry is `MEAN/VARIANCE`: the start's mean log ratio and the variance of that mean which the noise
    between slots alone explains.
    """
    entry = f"{frozen['startOffset']}/{frozen['startVariance']}"
    history = [*((old.history if old else None) or []), entry][-HISTORY:]
    return OffsetStatus(sd=f"{offset_sd(history):.4f}", starts=len(history), history=history)


def offset_sd(history: list[str]) -> float:
    """S = sqrt(max(0, variance of the starts' means - variance by slot noise)); at least .04 before four starts."""
    means = [float(entry.split("/")[0]) for entry in history]
    noise = statistics.fmean(float(entry.split("/")[1]) for entry in history)
    spread = statistics.fmean(m * m for m in means)
    estimate = math.sqrt(max(0.0, spread - noise))
    return estimate if len(history) >= ENOUGH_STARTS else max(LEAST_SD, estimate)
