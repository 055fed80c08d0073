"""The verdict in words: what drifted by how much, and what is claimed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tailguard_runtime.judge.environment import FLAG as ENVIRONMENT_CHANGED
from tailguard_runtime.judge.interval import GREATEST_RATIO
from tailguard_runtime.judge.offset import STARTS_NEEDED
from tailguard_runtime.judge.spec import JudgeSpec, Proof
from tailguard_runtime.judge.verdict import ERRORS, Estimate, Outcome

ABOUT_THESE_PODS = "AboutThesePods"


@dataclass(frozen=True)
class Summary:
    """All that the sentences are made from; fields as in `Verdict`.

    Attributes:
        error_alarm: Whether the error process alarmed.
        environment_changed: Whether the twin left the frozen baseline.
    """

    spec: JudgeSpec
    outcome: Outcome
    requests: int
    slots: int
    void_slots: int
    estimates: tuple[Estimate, ...]
    error_alarm: bool
    environment_changed: bool

    def reason(self) -> str:
        """The reason in CamelCase."""
        if self.outcome is Outcome.GROSS_ALARM:
            return "ErrorRate" if self.error_alarm else "GrossLatencyDrift"
        if self.outcome is Outcome.ALARM:
            return "LatencyDrift"
        if self.outcome is Outcome.PROMOTE:
            return "NonInferior"
        without = self._without_data()
        if self.outcome is Outcome.BUDGET_SPENT:
            return "NoData" if without else "Inconclusive"
        return "NoData" if len(without) == len(self._latencies()) else "Running"

    def message(self) -> str:
        """One sentence for people."""
        if self.reason() == "ErrorRate":
            return self._errors()
        if self.reason() == "NoData":
            return self._no_data()
        if self.outcome is Outcome.PROMOTE:
            return f"Proven {self._after()}: {self.claim()}; least sure: {self._measured(self._weakest())}"
        if self.outcome is Outcome.BUDGET_SPENT:
            return f"Neither drift nor non-inferiority is proven {self._after()}: {self._measured(self._weakest())}"
        gross = f" and gross {self.spec.gross_ratio:.2f}" if self.outcome is Outcome.GROSS_ALARM else ""
        tolerance = f"tolerance {self.spec.tolerance_ratio:.2f}{gross}"
        drifted = f"{self._measured(self._slowest())}, {tolerance}, {self._after()}"
        return f"No verdict yet: {drifted}" if self.outcome is Outcome.CONTINUE else drifted

    def claim(self) -> str:
        """What PROMOTE proves, in words."""
        metrics = listed(str(metric) for metric in self.spec.metrics)
        classes = [group.name for group in self.spec.classes]
        within = f" in classes {listed(classes)}" if len(classes) > 1 else ""
        return f"{proof_in_words(self.spec.proof)} of the twin's, for {metrics}{within}"

    def flags(self) -> tuple[str, ...]:
        """Names of what a reader of the verdict must know."""
        about = (ABOUT_THESE_PODS,) if self.spec.offset_starts < STARTS_NEEDED else ()
        return about + ((ENVIRONMENT_CHANGED,) if self.environment_changed else ())

    def notes(self) -> tuple[str, ...]:
        """A sentence on the pods' own offset, then one for every other flag."""
        sd, starts = 100 * self.spec.offset_sd, self.spec.offset_starts
        known = f"identical pods are taken to differ by s = {sd:.1f} % from start to start"
        if starts < STARTS_NEEDED:
            offset = f"The verdict is about these two pods: {known}, from {starts} of {STARTS_NEEDED} A/A starts needed"
        else:
            offset = f"{known[0].upper()}{known[1:]}, from {starts} A/A starts"
        moved = "The environment has changed since the baseline was frozen: the twin is outside its tolerance"
        return (offset, moved) if self.environment_changed else (offset,)

    def _latencies(self) -> list[Estimate]:
        return [estimate for estimate in self.estimates if estimate.statistic != ERRORS]

    def _without_data(self) -> list[Estimate]:
        return [estimate for estimate in self._latencies() if estimate.canary_value is None]

    def _slowest(self) -> Estimate:
        """The statistic whose least credible ratio is the largest."""
        return max(self._latencies(), key=lambda e: (e.low, e.e_alarm, e.ratio or 0.0))

    def _weakest(self) -> Estimate:
        """The claim with the least evidence."""
        return min(self._latencies(), key=lambda e: e.e_promote)

    def _measured(self, estimate: Estimate) -> str:
        interval = f"{self.spec.interval_percent} % interval {interval_in_words(estimate.low, estimate.high)}"
        values = f"{seconds_in_words(estimate.canary_value)} against {seconds_in_words(estimate.twin_value)}"
        return f"{self._named(estimate)} is {_ratio_in_words(estimate.ratio)} ({interval}), {values}"

    def _named(self, estimate: Estimate) -> str:
        name = f"{estimate.metric} {estimate.statistic}"
        return f"{name} of class {estimate.request_class}" if len(self.spec.classes) > 1 else name

    def _errors(self) -> str:
        errors = next(estimate for estimate in self.estimates if estimate.statistic == ERRORS)
        canary, twin = 100 * (errors.canary_value or 0), 100 * (errors.twin_value or 0)
        shares = f"{canary:.1f} % of its requests, the twin {twin:.1f} %"
        return f"The canary failed {shares}, {self._after()}"

    def _no_data(self) -> str:
        names = listed(dict.fromkeys(self._named(e).replace(f" {e.statistic}", "") for e in self._without_data()))
        slots = f"{self.slots} slots, {self.void_slots} of them void"
        return f"No data for {names} in {slots}, {self._after()}: neither a pass nor a failure"

    def _after(self) -> str:
        return f"after {self.requests:,} requests"


def proof_in_words(proof: Proof) -> str:
    """Such as "typical and P90 latency within 8 %, P99 within 25 %"."""
    groups: list[tuple[list[str], int]] = []
    for name, percent in (("typical", proof.typical), ("P90", proof.p90), ("P99", proof.p99)):
        if groups and groups[-1][1] == percent:
            groups[-1][0].append(name)
        else:
            groups.append(([name], percent))
    parts = [f"{listed(names)} within {percent} %" for names, percent in groups]
    return ", ".join(parts).replace(" within", " latency within", 1)


def interval_in_words(low: float, high: float) -> str:
    """Such as "2.10 to 2.80", with open ends said so."""
    if low == 0 and high == math.inf:
        return "still open on both sides"
    if high == math.inf:
        return f"{low:.2f} or more"
    return f"up to {high:.2f}" if low == 0 else f"{low:.2f} to {high:.2f}"


def seconds_in_words(seconds: float | None) -> str:
    """Three digits with a unit; "unbounded" when too many requests failed."""
    if seconds is None:
        return "unknown"
    if math.isinf(seconds):
        return "unbounded"
    if seconds >= 9.995:
        return f"{seconds:.1f} s"
    scaled, unit = (1e3 * seconds, "ms") if seconds >= 1e-3 else (1e6 * seconds, "µs")
    return f"{scaled:.0f} {unit}" if scaled >= 99.95 else f"{scaled:.3g} {unit}"


def listed(names: Iterable[str]) -> str:
    """Such as "a, b and c"."""
    *head, last = names
    return f"{', '.join(head)} and {last}" if head else last


def _ratio_in_words(ratio: float | None) -> str:
    if ratio is None:
        return "unbounded on both arms"
    if ratio > GREATEST_RATIO:
        return "unbounded" if math.isinf(ratio) else f"more than {GREATEST_RATIO:.0f} times the twin's"
    return f"{ratio:.2f} times the twin's"
