"""The operator's pod is killed at three places of one promotion; users notice nothing and the end is the same."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from e2e.demo.traffic import counts, start_client
from e2e.tests.gates import MOVE_USERS, REMOVE_PREVIOUS, TELL_OF_THE_MOVE, Gate
from e2e.tests.scenario import DEEP, DEMO_LOAD, REVISION_LABEL, SHORT, START, TINY, Scenario, restarts, uids

pytestmark = pytest.mark.e2e

VERDICT_SECONDS = 2400.0
WINDOW = {"keepPrevious": "15s"}


def test_an_operator_killed_around_the_switch_comes_to_the_same_end(s: Scenario) -> None:
    # Given
    s.load = DEMO_LOAD
    with ExitStack() as gates:
        before_the_switch, before_the_status, before_the_removal = (
            gates.enter_context(Gate(s.kube, name, refusal))
            for name, refusal in (("move", MOVE_USERS), ("tell", TELL_OF_THE_MOVE), ("remove", REMOVE_PREVIOUS))
        )
        s.when_applied(DEEP, rollout=WINDOW).then_ready()
        s.then("the gates are closed", lambda _: before_the_switch.closed and before_the_status.closed)
        s.then("the last gate is closed", lambda _: before_the_removal.closed)
        start_client(s.kube, f"http://{_address(s)}", s.name)
        s.then_baseline()
        old = s.selected()
        s.when_applied(TINY, rollout=WINDOW).then_state("Switch", VERDICT_SECONDS)
        new = s.rollout["revision"]
        serving = uids(s.pods("serving", new))

        # When it dies after it has decided to move users
        s.then("the move is decided", lambda s: s.status["route"] == new)
        s.when_leader_dies()
        # Then users are where they were, until another one moves them
        assert (s.rollout["state"], s.selected()) == ("Switch", old)
        before_the_switch.open()
        s.then("users are moved", lambda s: s.selected() == new, 2 * SHORT)

        # When it dies between the Service and the status
        s.when_leader_dies()
        # Then users stay where they are, until another one tells of it
        assert (s.rollout["state"], s.selected()) == ("Switch", new)
        before_the_status.open()
        s.then("it is told", lambda s: s.rollout["state"] in ("Kept", "Stable"), 2 * SHORT)

        # When it dies before it removes the previous revision
        s.then_state("Stable").when_leader_dies()
        assert {d["metadata"]["labels"][REVISION_LABEL] for d in s.deployments()} == {old, new}
        before_the_removal.open()
        # Then another one does, and the end is that of a promotion without a crash
        s.then("the previous revision is gone", lambda s: s.roles() == ["serving"], START)
    assert _end(s) == {
        "state": "Stable",
        "verdict": "PROMOTE",
        "users on": new,
        "pools": {"serving": 1},
        "revisions": {new},
        "baselines": {(new, "Promoted")},
        "benchmarks": {"Baseline", "Canary"},
        "remembered": None,
        "previous": None,
    }
    assert uids(s.pods()) == serving and not any(map(restarts, s.pods()))
    seen = counts(s.kube)
    assert seen.sent > 100 and seen.failed == 0, seen.problems[:5]


def _end(s: Scenario) -> dict[str, Any]:
    """All of an end state that must not depend on when the operator died."""
    status = s.status
    return {
        "state": status["rollout"]["state"],
        "verdict": status.get("verdict"),
        "users on": s.selected(),
        "pools": s.sizes(),
        "revisions": {r["metadata"]["labels"][REVISION_LABEL] for r in s.owned("controllerrevisions")},
        "baselines": {(b["spec"]["revision"], b["spec"]["calibration"]) for b in s.owned("baselines")},
        "benchmarks": {b["spec"]["purpose"] for b in s.owned("benchmarks")},
        "remembered": status.get("remembered"),
        "previous": status.get("previous"),
    }


def _address(s: Scenario) -> str:
    found = s.kube.get("service", s.name) or {}
    return str(found["spec"]["clusterIP"])
