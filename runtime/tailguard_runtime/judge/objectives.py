"""Hard bounds of a percentile: what was measured, and by how much the bound is passed (R-001, R-003, R-006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailguard_runtime.judge.pairs import pooled
from tailguard_runtime.judge.quantiles import Quantile, measure
from tailguard_runtime.judge.samples import Arm, Slot
from tailguard_runtime.judge.spec import Metric, RequestClass


@dataclass(frozen=True)
class ObjectiveResult:
    """One objective, measured.

    Attributes:
        metric: The metric.
        request_class: The class's name.
        percentile: Such as "99".
        limit: The bound in seconds.
        measured: The percentile with its 95 % order-statistic interval; value None = no data.
        overrun: (value - limit) / limit, 1.18 = 118 % above; negative within, +inf when unbounded, None without data.
    """

    metric: Metric
    request_class: str
    percentile: str
    limit: float
    measured: Quantile
    overrun: float | None

    @property
    def met(self) -> bool | None:
        """Whether the bound is kept; None = no data, which is neither a pass nor a failure."""
        return None if self.overrun is None else self.overrun <= 0


def measure_objective(
    slots: Sequence[Slot],
    *,
    arm: Arm,
    request_class: RequestClass,
    metric: Metric,
    percentile: str,
    limit: float,
) -> ObjectiveResult:
    """One arm's percentile of one class against its bound; void slots are left out, failures count as +inf.

    Args:
        slots: Of one benchmark.
        arm: The arm that the bound is for.
        request_class: Only its requests count.
        metric: The latency.
        percentile: Such as "99" or "99.9".
        limit: Seconds.

    Raises:
        PercentileError: `percentile` is no number between 0 and 100.
        ValueError: `limit` is not above 0.
    """
    if not limit > 0:
        raise ValueError(f"limit is {limit} s, wanted above 0")
    valid = [slot for slot in slots if not slot.void]
    measured = measure(pooled(valid, (arm,), metric, request_class), percentile)
    overrun = None if measured.value is None else (measured.value - limit) / limit
    return ObjectiveResult(metric, request_class.name, percentile, limit, measured, overrun)
