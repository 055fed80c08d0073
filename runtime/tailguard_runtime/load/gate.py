"""When a slot can't be evidence: the load was not what the schedule says, or the arms were not asked the same.

A void slot is stored with its reason and counts against the budget; it never enters a verdict. Failures of an arm that
is there void nothing: they are the evidence. An arm that is gone voids the slot: whether it died or was disrupted only
the kubelet can tell, and a dead canary is the operator's to see.
"""

from dataclasses import dataclass

import numpy as np

from tailguard_runtime.judge import Half
from tailguard_runtime.load.arms import Counters
from tailguard_runtime.load.plan import Gate
from tailguard_runtime.load.schedule import rate

LATENESS_SHARE = 0.01  # of the median time to first token
HIT_RATE = 0.01  # of the prompt tokens looked up: above it a benchmark of vLLM is known to be distorted


@dataclass(frozen=True)
class Look:
    """An arm's counters before and after its half, and the event loop's P99 lag during it, seconds."""

    before: Counters
    after: Counters
    lag_s: float = 0.0

    @property
    def hit_rate(self) -> float | None:
        """Share of the half's prompt tokens that the prefix cache answered; None if not known."""
        if None in (self.before.cache_queries, self.before.cache_hits, self.after.cache_queries, self.after.cache_hits):
            return None
        queries = (self.after.cache_queries or 0) - (self.before.cache_queries or 0)
        hits = (self.after.cache_hits or 0) - (self.before.cache_hits or 0)
        return hits / queries if queries > 0 else 0.0

    @property
    def lost(self) -> bool:
        """Whether the arm's server could not be asked at one end of the half, or is another process since."""
        unreachable = Counters() in (self.before, self.after)
        return unreachable or self.before.processes != self.after.processes

    @property
    def started(self) -> int | None:
        """Requests that reached the server during the half; None if not known or the server was started again."""
        if self.before.started is None or self.after.started is None or self.before.processes != self.after.processes:
            return None
        return self.after.started - self.before.started


def lateness_p99(*halves: Half) -> float:
    """Return the nearest-rank P99 of send lateness over all requests of the halves, seconds."""
    late = np.concatenate([half.sent_s - half.intended_s for half in halves])
    return float(np.quantile(late, 0.99, method="inverted_cdf"))


def lateness_limit(gate: Gate, *halves: Half) -> float:
    """Return the most that P99 of send lateness may be, seconds."""
    ttft = np.concatenate([half.ttft_s for half in halves])
    answered = ttft[np.isfinite(ttft)]
    share = LATENESS_SHARE * float(np.median(answered)) if answered.size else 0.0
    return max(gate.lateness_milliseconds / 1e3, share)


def void_reason(gate: Gate, canary: Half, twin: Half, looks: tuple[Look, Look]) -> str:
    """Return why the slot is void, a CamelCase reason and a sentence, or "" if it is valid. `looks`: canary, twin."""
    reasons = (
        _lost(looks),
        _late(gate, canary, twin),
        _lagging(gate, looks),
        _off_rate(gate, "canary", canary),
        _off_rate(gate, "twin", twin),
        _other_traffic(canary, looks),
        _unequal_hits(looks),
        _unequal_lengths(canary, twin),
    )
    return next((reason for reason in reasons if reason), "")


def _late(gate: Gate, canary: Half, twin: Half) -> str:
    late, limit = lateness_p99(canary, twin), lateness_limit(gate, canary, twin)
    if late <= limit:
        return ""
    return f"GeneratorLate: P99 of send lateness is {late * 1e3:.2f} ms, the limit is {limit * 1e3:.2f} ms"


def _lagging(gate: Gate, looks: tuple[Look, Look]) -> str:
    lag, limit = max(look.lag_s for look in looks) * 1e3, gate.loop_lag_milliseconds
    return f"GeneratorLagging: P99 of event loop lag is {lag:.1f} ms, the limit is {limit} ms" if lag > limit else ""


def _off_rate(gate: Gate, name: str, half: Half) -> str:
    asked, achieved = rate(half.intended_s), rate(half.sent_s)
    off = abs(achieved / asked - 1) > gate.rate_percent / 100
    return f"RateMissed: {name} got {achieved:.3f} requests/s, scheduled were {asked:.3f}" if off else ""


def _lost(looks: tuple[Look, Look]) -> str:
    lost = [name for name, look in zip(("canary", "twin"), looks, strict=True) if look.lost]
    return f"ArmLost: the server of {' and '.join(lost)} was gone or started anew during its half" if lost else ""


def _other_traffic(half: Half, looks: tuple[Look, Look]) -> str:
    asked = half.status.size
    for name, look in zip(("canary", "twin"), looks, strict=True):
        if look.started is not None and look.started > asked:
            return f"OtherTraffic: {name} started {look.started} requests during its half, {asked} were sent"
    return ""


def _unequal_hits(looks: tuple[Look, Look]) -> str:
    canary, twin = (look.hit_rate for look in looks)
    if canary is None or twin is None or abs(canary - twin) <= HIT_RATE:
        return ""
    return (
        f"UnequalCacheHits: the prefix cache answered {canary:.1%} of the prompt tokens of canary, {twin:.1%} of twin"
    )


def _unequal_lengths(canary: Half, twin: Half) -> str:
    whole = np.isfinite(canary.e2e_s) & np.isfinite(twin.e2e_s)
    differ = int(np.count_nonzero(canary.output_tokens[whole] != twin.output_tokens[whole]))
    if not differ:
        return ""
    return f"UnequalLengths: {differ} of {int(whole.sum())} pairs have different numbers of output tokens"
