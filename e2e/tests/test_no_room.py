"""Too little room on the node is told with the number that is needed, and users keep what they have."""

from __future__ import annotations

import pytest
from e2e.tests.room import sized
from e2e.tests.scenario import Scenario, uids

pytestmark = pytest.mark.e2e


def test_no_room_for_canary_and_twin_is_held_with_the_number_needed(s: Scenario) -> None:
    """rollout.md 5: with room for one pod only, the Baseline comes from it and says so."""
    # Given
    large = sized(s.kube, pods=2)
    s.when_applied(engine=large).then_ready().then_baseline()
    baseline = s.kube.get("baseline", s.status["baseline"]["name"]) or {}
    assert baseline["spec"]["calibration"] == "Missing"
    users, stable = uids(s.pods()), s.selected()
    # When
    s.when_applied(engine=large | {"args": ["--max-num-seqs=3"]})
    # Then
    s.then_state("Held").then_condition("RolloutComplete", "False", "InsufficientCapacity").then_ready()
    message = s.condition("RolloutComplete")["message"]
    for part in ("2 more engine pods are needed", "room for 1", "memory (needed", "`tailguard promote`"):
        assert part in message + _held_event(s), message
    assert uids(s.pods()) == users and s.selected() == stable


def _held_event(s: Scenario) -> str:
    return next(str(e["message"]) for e in s.events() if e["reason"] == "Held")
