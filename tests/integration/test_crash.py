"""The operator is killed after every single write, and comes to the same end as one that lives.

A life ends with the first write that no life before has ended with, so every write of a story is once the last one
before a crash, and what the next life knows is what the API server knows.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from harness.api import Object
from harness.behaviour import REVISION_LABEL, ROLE_LABEL
from harness.dsl import BASE, FASTER, SLIGHTLY_SLOWER, Scenario

PATIENCE_SECONDS = 150.0
ENGINES = (BASE, SLIGHTLY_SLOWER, FASTER)
QUIET_SECONDS = 3.0
BY_CHANCE = ("Event", "delete Job")
"""Events are lost in a crash; a Job is deleted only if it has not ended by itself before the verdict is read."""


@dataclass(frozen=True)
class End:
    """All of an end state that must not depend on when the operator died; revisions are named by their flag."""

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
        """What there is now."""
        flag = {s.revision_of(each): each for each in ENGINES}
        pools = [(each["metadata"]["labels"], each["spec"]["replicas"]) for each in s.owned("Deployment")]
        frozen = [each["spec"] for each in s.owned("Baseline")]
        measured = _measured(s)
        baseline = s.baseline()
        return cls(
            state=s.rollout["state"],
            route=flag.get(s.route(), s.route()),
            pools=tuple(sorted((flag[row[REVISION_LABEL]], row[ROLE_LABEL], size) for row, size in pools)),
            baselines=tuple(sorted((flag[b["revision"]], b["calibration"]) for b in frozen)),
            in_force=flag[baseline["spec"]["revision"]] if baseline else "",
            benchmarks=tuple(sorted((b["spec"]["purpose"], _outcome(b)) for b in measured)),
            remembered=tuple((row["verdict"], row["reason"]) for row in s.status.get("remembered", [])),
            verdict=s.status.get("verdict", ""),
            counted=(s.status["benchmarks"], s.status["pairs"]),
        )


def _measured(s: Scenario) -> list[Object]:
    return s.api.find("Benchmark", s.namespace)


def _outcome(benchmark: Object) -> str:
    """What a comparison came to; that of an A/A pair is chance."""
    return "" if benchmark["spec"]["purpose"] == "Baseline" else str(benchmark.get("status", {}).get("outcome", ""))


def _first(s: Scenario) -> None:
    """The first revision, and its Baseline."""
    s.when_applied(BASE).then_baseline()


def _rejected(s: Scenario) -> None:
    """A suspicion that a fresh pair confirms."""
    s.when_applied(SLIGHTLY_SLOWER).then_state("Rejected", "Drift")


def _promoted(s: Scenario) -> None:
    """A promotion to the end of its window."""
    s.when_applied(FASTER, keepPrevious="1s").then_stable(FASTER)


def _back(s: Scenario) -> None:
    """A promotion, and the way back to the previous revision."""
    s.when_applied(FASTER).then_state("Kept").when_applied(BASE).then_stable(BASE)


def _settled(s: Scenario) -> End:
    """The end state, once all is done that is left to do."""
    s.then("only users' pods are left", lambda s: len(s.owned("Deployment")) == 1)
    s.then("measurements are closed", lambda s: all("outcome" in b["status"] for b in _measured(s)))
    s.then("nothing is written any more", lambda s: time.time() - s.operator.journal.stat().st_mtime > QUIET_SECONDS)
    return End.of(s)


@contextmanager
def _mortal(s: Scenario) -> Iterator[None]:
    """While it lasts, every operator dies with the first write that none has died with, and another is started."""
    over = threading.Event()

    def lives() -> None:
        while not over.wait(0.02):
            if not s.operator.alive:
                s.operator.start(mortal=True)

    s.operator.kill()
    keeper = threading.Thread(target=lives, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()


def _writes(s: Scenario) -> list[str]:
    """What was written while the journal was kept, such as `create Job`."""
    lines = [json.loads(line) for line in s.operator.journal.read_text().splitlines()]
    kinds = [" ".join(line["done"].split()[:2]) for line in lines if "done" in line]
    return [kind for kind in kinds if not kind.endswith(BY_CHANCE)]


@pytest.mark.parametrize("story", [_first, _rejected, _promoted, _back], ids=lambda story: story.__name__[1:])
def test_an_operator_that_dies_with_every_write_comes_to_the_same_end(
    new_scenario: Callable[[], Scenario], story: Callable[[Scenario], None]
) -> None:
    # Given
    calm, mortal = new_scenario(), new_scenario()
    for s in (calm, mortal):
        s.deadline = PATIENCE_SECONDS
        s.given_speeds()

    # When
    def lived() -> End:
        if story is not _first:
            _first(calm.given_operator())
            calm.operator.kill()
        calm.operator.start(mortal=False)
        story(calm)
        return _settled(calm)

    def died() -> End:
        if story is not _first:
            _first(mortal.given_operator())
        with _mortal(mortal):
            story(mortal)
            return _settled(mortal)

    with ThreadPoolExecutor(2) as pool:
        wanted, found = pool.submit(lived), pool.submit(died)

    # Then
    assert found.result() == wanted.result()
    assert set(_writes(calm)) <= set(_writes(mortal))
    assert len(_writes(mortal)) >= 10
