"""Real A/A recordings: two identical vLLM servers, two starts, sent in turn (tests/data/judge).

As in judge-designs.md 3, each start of 750 requests is cut into slots of 25.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tailguard_runtime.judge.freeze import freeze
from tailguard_runtime.judge.process import judge
from tailguard_runtime.judge.samples import Slot
from tailguard_runtime.judge.spec import JudgeSpec
from tailguard_runtime.judge.verdict import Outcome

MakeRecorded = Callable[..., list[Slot]]
START = pytest.mark.parametrize("start", [0, 1])
SWAP = pytest.mark.parametrize("swap", [False, True], ids=["a-is-canary", "b-is-canary"])


@START
@SWAP
def test_identical_servers_raise_no_alarm(start: int, swap: bool, make_recorded: MakeRecorded) -> None:
    slots = make_recorded(start, 25, swap=swap)
    verdict = judge(slots, JudgeSpec())
    assert verdict.requests == 750
    assert verdict.outcome is Outcome.CONTINUE
    assert max(point.alarm for point in verdict.trail) < 10


@START
@SWAP
def test_thirty_percent_injected_is_found_within_the_recording(
    start: int, swap: bool, make_recorded: MakeRecorded
) -> None:
    # Given the same recordings with one server's latencies times 1.3
    verdict = judge(make_recorded(start, 25, swap=swap, injected=1.3), JudgeSpec())
    # Then there is an alarm, and its interval holds what was injected
    assert verdict.outcome in (Outcome.ALARM, Outcome.GROSS_ALARM)
    typical = [e for e in verdict.estimates if e.statistic == "typical"]
    assert len(typical) == 3
    assert max(e.low for e in typical) > 1.08
    assert all(e.low / 1.06 <= 1.3 <= 1.06 * e.high for e in typical)


@START
def test_a_start_freezes_without_an_aa_alarm(start: int, make_recorded: MakeRecorded) -> None:
    frozen = freeze(make_recorded(start, 75))
    assert (frozen.requests, frozen.aa_alarm) == (750, False)
    assert all(abs(offset.mean) < 0.08 for offset in frozen.offsets)
