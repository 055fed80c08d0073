"""The operator is killed after each of its writes in turn; started again, it comes to the same end."""

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from harness.behaviour import REVISION_LABEL, ROLE_LABEL
from harness.dsl import BASE, FASTER, SLIGHTLY_SLOWER, Scenario

AT_ONCE = 6
PATIENCE_SECONDS = 120.0
ENGINES = (BASE, SLIGHTLY_SLOWER, FASTER)


@dataclass(frozen=True)
class End:
    """All of the end state that must not depend on when the operator died."""

    state: str
    route: str
    pools: tuple[tuple[str, str, int], ...]
    baselines: tuple[tuple[str, str], ...]
    in_force: str
    benchmarks: tuple[tuple[str, str], ...]
    remembered: tuple[tuple[str, str], ...]
    verdict: str
    counted: tuple[int, int]

    @classmethod
    def of(cls, s: Scenario) -> "End":
        """What there is, with revisions named by their flag."""
        flag = {s.revision_of(each): each for each in ENGINES}
        pools = [(each["metadata"]["labels"], each["spec"]["replicas"]) for each in s.owned("Deployment")]
        measured = s.api.find("Benchmark", s.namespace)
        baseline = s.baseline()
        return cls(
            state=s.rollout["state"],
            route=flag.get(s.route(), s.route()),
            pools=tuple(sorted((flag[row[REVISION_LABEL]], row[ROLE_LABEL], size) for row, size in pools)),
            baselines=tuple(
                sorted((flag[b["spec"]["revision"]], b["spec"]["calibration"]) for b in s.owned("Baseline"))
            ),
            in_force=flag[baseline["spec"]["revision"]] if baseline else "",
            benchmarks=tuple(sorted((b["spec"]["purpose"], b.get("status", {}).get("outcome", "")) for b in measured)),
            remembered=tuple((row["verdict"], row["reason"]) for row in s.status.get("remembered", [])),
            verdict=s.status["verdict"],
            counted=(s.status["benchmarks"], s.status["pairs"]),
        )


def _story(s: Scenario) -> End:
    """First revision and Baseline, a suspicion that is confirmed, a promotion, and the end of its window."""
    s.when_applied(BASE, keepPrevious="1s").then_baseline()
    s.when_applied(SLIGHTLY_SLOWER, keepPrevious="1s").then_state("Rejected", "Drift")
    s.when_applied(FASTER, keepPrevious="1s").then_stable(FASTER)
    s.then("previous and all arms are gone", lambda s: len(s.owned("Deployment")) == 1)
    s.then("all measurements are closed", lambda s: all("status" in b for b in s.api.find("Benchmark", s.namespace)))
    return End.of(s)


def _prepared(new_scenario: Callable[[], Scenario]) -> Scenario:
    s = new_scenario()
    s.deadline = PATIENCE_SECONDS
    return s.given_speeds()


def _lines(s: Scenario) -> list[dict[str, Any]]:
    return [json.loads(line) for line in s.operator.journal.read_text().splitlines()]


def _with_a_crash(s: Scenario, write: int) -> End:
    """The story with an operator that dies after this write, and one that is started in its place."""
    s.operator.start(die_after=write)
    ended = threading.Event()

    def restart() -> None:
        while not ended.wait(0.05):
            if not s.operator.alive:
                s.operator.start()
                return

    # The operator is killed by the kernel when its parent, not this thread, ends; so a short-lived thread may start it.
    watcher = threading.Thread(target=restart, daemon=True)
    watcher.start()
    try:
        return _story(s)
    finally:
        ended.set()
        watcher.join()


def test_dead_after_any_write_the_end_is_the_same(new_scenario: Callable[[], Scenario]) -> None:
    """Status is written first and everything else follows from it, so it may end anywhere."""
    # Given
    calm = _prepared(new_scenario)
    calm.operator.start(die_after=0)
    wanted = _story(calm)
    done = [line["done"] for line in _lines(calm) if "done" in line]
    calm.operator.stop()
    assert len(done) > 30, "the story is too short to prove anything"

    # When
    def crashed(write: int) -> tuple[int, End | BaseException, str]:
        s = _prepared(new_scenario)
        try:
            end: End | BaseException = _with_a_crash(s, write)
        except BaseException as error:
            end = error
        finally:
            s.stop()
        last = [line["done"] for line in _lines(s) if "done" in line][-1]
        return write, end, last

    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = list(pool.map(crashed, range(1, len(done) + 1)))

    # Then
    differing = [f"after write {write} ({last}): {end}" for write, end, last in ends if end != wanted]
    if differing:
        pytest.fail(os.linesep.join([f"wanted: {wanted}", *differing]), pytrace=False)
