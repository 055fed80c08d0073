"""`decide` under everything that can happen, in any order: the invariants of the design hold after every write.

The machine plays users, kubelet, evidence, crashes and time at random; each pass may be cut off after any write.
"""

from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from plan_sim import FROZEN, Sim, measuring, stable

from tailguard_operator.plan import decide
from tailguard_operator.plan.world import Evidence, PoolKey, Role

OUTCOMES = ("Continue", "Alarm", "GrossAlarm", "Promote", "BudgetSpent")
HASHES = ("aaaa", "bbbb", "cccc")
KINDS = ("ready", "ready", "ready", "slow", "pull", "exit", "evicted", "full")


def evidence(outcome: str, slots: int) -> Evidence:
    """Evidence of so many slots; a frozen part exists once it would."""
    frozen = FROZEN if outcome == "Promote" or slots >= 10 else None
    return Evidence(outcome, "Test", f"outcome {outcome}", slots=slots, requests=100 * slots, frozen=frozen)


class Rollouts(RuleBasedStateMachine):
    """Random histories of one service."""

    def __init__(self) -> None:
        super().__init__()
        self.sim = Sim()
        self.kinds: dict[str, str] = {}
        self.sim.behaviour = self.behave

    def behave(self, key: PoolKey) -> str:
        """Stable pods stay well, so that what happens is about the change."""
        stable = self.sim.status.stable
        if stable and key.revision == stable.revision and key.role == Role.SERVING:
            return "ready"
        return self.kinds.get(f"{key.revision}/{key.role}", "ready")

    @initialize(chapter=st.sampled_from(["new", "stable", "benchmark", "confirm", "switch", "kept", "kept"]))
    def begin(self, chapter: str) -> None:
        if chapter == "new":
            return
        stable(self.sim)
        if chapter == "stable":
            return
        measuring(self.sim)
        if chapter == "confirm":
            self.sim.slots(evidence("Alarm", 12))
            self.sim.run(lambda s: any(b.spec["purpose"] == "Confirm" and b.jobs for b in s.benchmarks.values()))
        if chapter in ("switch", "kept"):
            self.sim.slots(evidence("Promote", 20))
            wanted = "Switch" if chapter == "switch" else "Kept"
            self.sim.run(lambda s: s.status.rollout.state == wanted)

    @rule(spec_hash=st.sampled_from(HASHES))
    def user_applies(self, spec_hash: str) -> None:
        self.sim.spec_is(spec_hash)

    @rule(replicas=st.integers(0, 3))
    def user_scales(self, replicas: int) -> None:
        self.sim.spec = self.sim.spec.model_copy(update={"replicas": replicas})

    @rule(broken=st.sampled_from([True, False, False]))
    def spec_is_invalid(self, broken: bool) -> None:
        self.sim.problems = ("spec.engine.args[0]: wrong",) if broken else ()

    @rule(name=st.sampled_from(["retry", "promote", "abort", "pin"]), token=st.integers(0, 3))
    def user_commands(self, name: str, token: int) -> None:
        self.sim.commands[name] = f"t{token}"

    @rule(spec_hash=st.sampled_from(HASHES), role=st.sampled_from([*Role]), kind=st.sampled_from(KINDS))
    def pods_behave(self, spec_hash: str, role: Role, kind: str) -> None:
        self.kinds[f"r{spec_hash}/{role}"] = kind

    @rule(room=st.integers(0, 6))
    def nodes_change(self, room: int) -> None:
        self.sim.room = room

    @precondition(lambda self: any(not b.finished for b in self.sim.benchmarks.values()))
    @rule(outcome=st.sampled_from(OUTCOMES), slots=st.integers(0, 30))
    def slots_arrive(self, outcome: str, slots: int) -> None:
        self.sim.slots(evidence(outcome, slots))

    @precondition(lambda self: any(b.jobs for b in self.sim.benchmarks.values()))
    @rule()
    def job_fails(self) -> None:
        name = next(n for n, b in self.sim.benchmarks.items() if b.jobs)
        view = self.sim.benchmarks[name]
        failed = tuple(replace(j, failed=True, active=False) for j in view.jobs)
        self.sim.benchmarks[name] = replace(view, jobs=failed)

    @rule(seconds=st.sampled_from([1, 5, 60, 700]))
    def operator_runs(self, seconds: int) -> None:
        self.sim.step(seconds)

    @rule(passes=st.integers(2, 6))
    def time_passes(self, passes: int) -> None:
        for _ in range(passes):
            self.sim.step()

    @rule(cut=st.integers(0, 6))
    def operator_dies_between_writes(self, cut: int) -> None:
        self.sim.apply(decide(self.sim.world(), self.sim.now), upto=cut)
        self.sim.kubelet()

    @invariant()
    def users_only_reach_what_is_proved_or_first(self) -> None:
        refused = {r.revision for r in self.sim.status.remembered or ()}
        stable = self.sim.status.stable
        service = self.sim.service
        if service and stable and service.revision in refused:
            assert service.revision == stable.revision, "a rejected hash gets no traffic"

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
        canaries = {k.revision for k in self._decided() if k.role == Role.SERVING} - users
        assert len(canaries) <= 1, canaries

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

    def _decided(self) -> list[PoolKey]:
        return [p.key for p in decide(self.sim.world(), self.sim.now).pools]

    def _copy(self) -> Sim:
        parts: dict[str, Any] = {
            name: dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value
            for name, value in vars(self.sim).items()
        }
        return Sim(**parts)


Rollouts.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRollouts = Rollouts.TestCase
