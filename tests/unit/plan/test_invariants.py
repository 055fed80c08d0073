"""`decide` under everything that can happen, in any order: the invariants of the design hold after every write.

The machine plays users, kubelet, evidence, crashes, clocks and clumsy hands at random; a pass may be cut off after any
write. Every history begins in one chapter of a rollout, so that the deep states are reached for certain, and ends in a
healthy cluster, where the service has to come to rest and to promote one more change.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from plan_sim import (
    FREEZING,
    FROZEN,
    PROMOTE,
    SPENT,
    Sim,
    confirming,
    held,
    kept,
    measuring,
    ready,
    rejected,
    serving,
    stable,
)

from tailguard_operator.plan import decide
from tailguard_operator.plan.world import Evidence, PoolKey, Role, Workload

OUTCOMES = ("Continue", "Alarm", "GrossAlarm", "Promote", "BudgetSpent")
HASHES = ("aaaa", "bbbb", "cccc")
KINDS = ("ready", "ready", "ready", "ready", "slow", "pull", "exit", "evicted", "full", "refused", "moved")
WORKLOADS = (Workload("w1"), Workload("w1"), Workload("w2", "wl", "{}"), Workload("", "wl", None, "no such ConfigMap"))
REST = {"Stable", "Rejected", "Aborted", "Held"}
WAITS = {"Starting", "Benchmark", "Confirm", "Switch", "Kept"}


def evidence(outcome: str, slots: int) -> Evidence:
    """Evidence of so many slots; a frozen part exists once it would."""
    frozen = FROZEN if outcome == "Promote" or slots >= 10 else None
    return Evidence(outcome, "Test", f"outcome {outcome}", slots=slots, requests=100 * slots, frozen=frozen)


def suspected_twice(sim: Sim) -> None:
    """A change that was cleared of a suspicion once and alarms again."""
    measuring(sim)
    assert sim.status.rollout is not None
    cleared = sim.status.rollout.model_copy(update={"confirmed": True})
    sim.status = sim.status.model_copy(update={"rollout": cleared})
    sim.slots(evidence("Alarm", 12))
    sim.step()


def extended(sim: Sim) -> None:
    """A change whose budget was spent and granted once more."""
    measuring(sim)
    sim.slots(SPENT)
    sim.step()


def back(sim: Sim) -> None:
    """A promotion that the user took back in its window."""
    kept(measuring(sim)).spec_is("aaaa").step()


def switching(sim: Sim) -> None:
    """A proved change that waits for its pods."""
    measuring(sim)
    sim.slots(PROMOTE)
    sim.step()


def alone(sim: Sim) -> None:
    """A change while stable has been dead for the deadline."""
    sim.behaviour = lambda key: {"raaaa": "exit"}.get(key.revision, "slow")
    sim.spec_is("bbbb").run(lambda s: s.state == "Switch", seconds=60)


def aborted(sim: Sim) -> None:
    """A change that was ended by hand."""
    measuring(sim).command("abort").step()


CHAPTERS: dict[str, tuple[str, Callable[[Sim], object]]] = {
    "BaselineFrozen": ("event", lambda sim: None),
    "Benchmark": ("state", measuring),
    "Confirm": ("state", lambda sim: confirming(measuring(sim))),
    "SuspectedTwice": ("reason", suspected_twice),
    "BudgetExtended": ("event", extended),
    "Switch": ("state", switching),
    "Kept": ("state", lambda sim: kept(measuring(sim))),
    "BackToPrevious": ("event", back),
    "Held": ("state", held),
    "Rejected": ("state", lambda sim: rejected(measuring(sim))),
    "Aborted": ("state", aborted),
    "NoStableToCompare": ("event", alone),
}


class Rollouts(RuleBasedStateMachine):
    """Random histories of one service that begin in `chapter`."""

    chapter = ""
    reached: ClassVar[Counter[tuple[str, str]]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.sim = Sim()
        self.kinds: dict[str, str] = {}
        self.earned: set[str] = set()
        """Revisions that may have users: the first, the proved, the overridden, those without a comparison."""

    @initialize()
    def begin(self) -> None:
        if not self.chapter:
            serving(self.sim)
        else:
            CHAPTERS[self.chapter][1](stable(self.sim))
            self.earned |= {"rbbbb"} if self.sim.status.verdict == "PROMOTE" else set()
        self.sim.behaviour = self.behave

    def behave(self, key: PoolKey) -> str:
        return self.kinds.get(f"{key.revision}/{key.role}", "ready")

    @rule(spec_hash=st.sampled_from(HASHES))
    def user_applies(self, spec_hash: str) -> None:
        self.sim.spec_is(spec_hash)

    @rule(replicas=st.sampled_from([0, 1, 1, 2, 3]))
    def user_scales(self, replicas: int) -> None:
        self.sim.spec_is(self.sim.spec_hash, replicas=replicas)

    @rule(broken=st.sampled_from([True, False, False]), edited=st.booleans())
    def spec_is_invalid_or_blocked(self, broken: bool, edited: bool) -> None:
        self.sim.problems = ("spec.engine.args[0]: wrong",) if broken else ()
        self.sim.generation += edited

    @rule(name=st.sampled_from(["retry", "promote", "abort", "pin", "refresh"]), token=st.integers(0, 3))
    def user_commands(self, name: str, token: int) -> None:
        self.sim.command(name, f"t{token}")

    @rule(spec_hash=st.sampled_from(HASHES), role=st.sampled_from([*Role]), kind=st.sampled_from(KINDS))
    def pods_behave(self, spec_hash: str, role: Role, kind: str) -> None:
        self.kinds[f"r{spec_hash}/{role}"] = kind
        self.sim.kubelet()

    @precondition(lambda self: self.sim.pods)
    @rule(data=st.data(), how=st.sampled_from(["deleted", "Evicted"]))
    def a_pod_is_lost(self, data: st.DataObject, how: str) -> None:
        self.sim.lose(data.draw(st.sampled_from(sorted(self.sim.pods))), how)

    @rule(lingering=st.booleans())
    def pods_hang_or_end(self, lingering: bool) -> None:
        self.sim.gone()
        self.sim.lingering = lingering

    @rule(room=st.integers(0, 6))
    def nodes_change(self, room: int) -> None:
        self.sim.room = room

    @rule(what=st.sampled_from(["baselines", "benchmarks", "service"]))
    def somebody_deletes(self, what: str) -> None:
        if what == "service":
            self.sim.service = None
        else:
            getattr(self.sim, what).clear()

    @rule(workload=st.sampled_from(WORKLOADS), environment=st.sampled_from(["6", "6", "7"]))
    def surroundings_change(self, workload: Workload, environment: str) -> None:
        self.sim.workload = workload
        self.sim.environment = {"kernel": environment}

    @precondition(lambda self: any(not b.finished for b in self.sim.benchmarks.values()))
    @rule(outcome=st.sampled_from(OUTCOMES), slots=st.integers(0, 30))
    def slots_arrive(self, outcome: str, slots: int) -> None:
        self.give(evidence(outcome, slots))

    @precondition(lambda self: any(b.jobs and not b.finished for b in self.sim.benchmarks.values()))
    @rule()
    def job_fails(self) -> None:
        self.sim.fail_job()

    @rule(seconds=st.sampled_from([-3600, -60, 1, 5, 60, 700]))
    def operator_runs(self, seconds: int) -> None:
        self.sim.step(seconds)

    @rule(passes=st.integers(2, 6))
    def time_passes(self, passes: int) -> None:
        for _ in range(passes):
            self.sim.step()

    @rule(cut=st.integers(0, 8), leader=st.booleans())
    def operator_dies_between_writes(self, cut: int, leader: bool) -> None:
        self.sim.apply(decide(self.sim.world(), self.sim.now), upto=cut)
        self.sim.kubelet()
        self.sim.lease_transitions += leader

    def give(self, found: Evidence) -> None:
        """Slots for the running Benchmark; a proof earns its canary the right to have users."""
        name = next(n for n, b in reversed(self.sim.benchmarks.items()) if not b.finished)
        if found.outcome == "Promote":
            self.earned.add(self.sim.benchmarks[name].spec["arms"]["canary"]["revision"])
        self.sim.slots(found)

    @invariant()
    def users_reach_only_what_has_earned_it(self) -> None:
        """First, proved, promoted by hand, or started where nothing served."""
        rollout = self.sim.status.rollout
        self.earned |= set(self.sim.routed[:1])
        if rollout and rollout.revision and (rollout.verdict == "Overridden" or rollout.reason == "NoStableToCompare"):
            self.earned.add(rollout.revision)
        assert set(self.sim.routed) <= self.earned

    @invariant()
    def a_refused_revision_gets_no_traffic(self) -> None:
        refused = {r.revision for r in self.sim.status.remembered or ()}
        stable_, service = self.sim.status.stable, self.sim.service
        if service and stable_ and service.revision in refused:
            assert service.revision == stable_.revision

    @invariant()
    def users_are_moved_to_ready_pods_only(self) -> None:
        """Only where nothing at all is Ready, or the Service was deleted, is there nothing better to choose."""
        counts = self.sim.ready_when_routed
        assert all(count or forced for count, forced in zip(counts, self.sim.forced, strict=True))

    @invariant()
    def the_revision_that_users_reach_keeps_its_pods(self) -> None:
        service = self.sim.service
        if service and service.revision:
            keys = [k for k in self.sim.pools if k.role == Role.SERVING and k.revision == service.revision]
            assert keys, "the last good revision is never removed before another is promoted"

    @invariant()
    def at_most_one_canary(self) -> None:
        status = self.sim.status
        users = {r.revision for r in (status.stable, status.previous) if r} | {status.route}
        if self.sim.service:
            users.add(self.sim.service.revision)
        canaries = {k.revision for k in self._decided() if k.role == Role.SERVING} - users
        assert len(canaries) <= 1, canaries

    @invariant()
    def a_rollout_is_about_one_change(self) -> None:
        rollout = self.sim.status.rollout
        view = self.sim.revisions.get(rollout.revision or "") if rollout else None
        assert view is None or view.spec_hash == rollout.spec_hash

    @invariant()
    def nothing_waits_without_a_next_look(self) -> None:
        decision = decide(self.sim.world(), self.sim.now)
        rollout = decision.status.rollout
        if rollout and rollout.state in WAITS:
            assert decision.requeue_after is not None and decision.requeue_after > 0

    @invariant()
    def status_can_be_written(self) -> None:
        status = self.sim.status
        assert type(status).model_validate(status.to_object()) == status

    @invariant()
    def planning_what_was_just_planned_changes_nothing(self) -> None:
        """Once nothing moves any more, one more look wants nothing new."""
        copy = self._copy()
        for _ in range(40):
            before = (copy.status, dict(copy.pools), copy.service, set(copy.benchmarks), set(copy.baselines))
            copy.step(0)
            after = (copy.status, dict(copy.pools), copy.service, set(copy.benchmarks), set(copy.baselines))
            if before == after:
                return
        raise AssertionError(f"never settles: {copy.events[-6:]}, {copy.status.rollout}")

    @invariant()
    def what_was_reached_is_counted(self) -> None:
        rollout = self.sim.status.rollout
        if rollout:
            self.reached.update([("state", rollout.state.value), ("reason", rollout.reason or "")])
        self.reached.update(("event", reason) for reason in set(self.sim.events))

    def teardown(self) -> None:
        """In a healthy cluster every history comes to rest, and the service can promote one more change."""
        if self.sim.status.rollout is None:
            return
        self._heal()
        self._rest()
        if self.sim.state == "Held":
            self.sim.command("abort", "last")
            self._rest()
        self.sim.spec_is("ffff")
        self._until(
            lambda s: s.state == "Stable" and s.status.stable is not None and s.status.stable.spec_hash == s.hash()
        )
        assert self.sim.service is not None and self.sim.service.revision == self.sim.status.stable.revision

    def _heal(self) -> None:
        self.kinds.clear()
        self.sim.behaviour = ready
        self.sim.gone()
        self.sim.room, self.sim.problems, self.sim.workload = 10, (), Workload("w1")
        self.sim.spec_is(self.sim.spec_hash, replicas=1)

    def _rest(self) -> None:
        def at_rest(sim: Sim) -> bool:
            freezing = sim.status.freeze is not None and not sim.status.freeze.failed
            return sim.state in REST and not freezing and sim.hash() == sim.status.rollout.spec_hash

        self._until(at_rest)

    def _until(self, done: Callable[[Sim], bool]) -> None:
        for _ in range(300):
            if done(self.sim):
                return
            for name, view in self.sim.benchmarks.items():
                if view.jobs and not view.finished:
                    shown = FREEZING if view.spec["purpose"] == "Baseline" else PROMOTE
                    self.sim.benchmarks[name] = replace(view, evidence=replace(shown, first_at=self.sim.now))
            wait = self.sim.step(1).requeue_after
            self.sim.now += timedelta(seconds=wait or 0)
        raise AssertionError(f"no rest: {self.sim.status.rollout}, {self.sim.status.freeze}, {self.sim.events[-8:]}")

    def _decided(self) -> list[PoolKey]:
        return [p.key for p in decide(self.sim.world(), self.sim.now).pools]

    def _copy(self) -> Sim:
        parts: dict[str, Any] = {
            name: dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value
            for name, value in vars(self.sim).items()
        }
        return Sim(**parts)


@pytest.mark.parametrize("chapter", ["", *CHAPTERS])
def test_the_invariants_hold_from_every_chapter_on(chapter: str) -> None:
    # Given histories that begin in this chapter
    machine = type(f"From{chapter}", (Rollouts,), {"chapter": chapter, "reached": Counter()})
    # When anything happens in any order
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=[*HealthCheck]),
    )
    # Then every invariant held after every write, and the chapter was really reached
    if chapter:
        assert machine.reached[(CHAPTERS[chapter][0], chapter)] > 0, machine.reached
