"""Benchmark and Confirm: what the evidence and the health of the arms lead to.

At the same slot a gross alarm comes before an alarm, and an alarm before PROMOTE.
"""

from collections.abc import Callable
from datetime import timedelta

from tailguard_operator.api.base import moment
from tailguard_operator.api.baseline import Calibration
from tailguard_operator.api.service import OnInconclusive
from tailguard_operator.api.status import State
from tailguard_operator.plan.arms import Arm, ArmState, deadline_seconds, measured_arm, starting_arm
from tailguard_operator.plan.decision import BaselineOrder
from tailguard_operator.plan.jobs import JOB_LIMIT, job_of, over, why_over
from tailguard_operator.plan.orders import baseline_key, benchmark_name, order_baseline, slots_left
from tailguard_operator.plan.refuse import abort, account, account_pods, close_pair, hold, measured_seconds, reject
from tailguard_operator.plan.slo import broken_by_canary_alone, describe, observe_objectives
from tailguard_operator.plan.starting import settings_of, stable_is_down, without_comparison, workload_gone
from tailguard_operator.plan.turn import Turn, next_pair, pair_of
from tailguard_operator.plan.world import BenchmarkView, Role

DISRUPTION_LIMIT = 3
ROLLBACK, PROMOTE, INCONCLUSIVE = "ROLLBACK", "PROMOTE", "INCONCLUSIVE"


def measuring(turn: Turn) -> Turn:
    """One look at the arms and the evidence of the running Benchmark."""
    if stable_is_down(turn):
        return without_comparison(account(turn, turn.world.benchmark(turn.rollout.benchmark)))
    if turn.state == State.CONFIRM and turn.rollout.canary_pod is None:
        return _start_confirmation(turn)
    pair = pair_of(turn.status)
    assert pair is not None
    canary = measured_arm(turn.world, pair[0], turn.rollout.canary_pod)
    twin = measured_arm(turn.world, pair[1], turn.rollout.twin_pod)
    view = turn.world.benchmark(turn.rollout.benchmark)
    if canary.state == ArmState.FAILED:
        message = f"the canary died while it was measured: {canary.reason}: {canary.message}"
        return reject(account(turn, view), canary.reason, message, verdict=ROLLBACK)
    if view and view.evidence.outcome in _DECIDED:
        # A verdict stands on stored slots: it holds whatever happens to the pods afterwards.
        return _DECIDED[view.evidence.outcome](_ended(turn, view), view)
    if ArmState.DISRUPTED in (canary.state, twin.state):
        return _lost_pair(turn, view, canary if canary.state == ArmState.DISRUPTED else twin)
    if twin.state == ArmState.FAILED:
        return _lost_twin(turn, view, twin)
    return _weigh(turn, view) if view else turn


def _weigh(turn: Turn, view: BenchmarkView) -> Turn:
    evidence, job = view.evidence, job_of(view, turn.rollout.job)
    if evidence.broken:
        message = f"the stored samples cannot be read, so there is no verdict: {evidence.broken}"
        return hold(account(turn, view), "EvidenceUnreadable", message, verdict=INCONCLUSIVE)
    if evidence.outcome == "BudgetSpent" or _budget_spent(turn, view):
        return _spent(turn, view)
    if over(job, turn.now):
        return _next_job(turn, view)
    if job is None and workload_gone(turn):
        return hold(account(turn, view), "WorkloadChanged", _workload_message(turn), verdict=INCONCLUSIVE)
    return turn.explain("Measuring", _progress(turn, view))


def _ended(turn: Turn, view: BenchmarkView) -> Turn:
    """The turn with what the Benchmark cost, and the stable revision's objectives checked on the twin's samples."""
    return observe_objectives(account(turn, view), view, "twin")


def _workload_message(turn: Turn) -> str:
    name = settings_of(turn).workload.config_map
    return f"the requests in ConfigMap {name} changed while they were used, and a changed workload is never compared"


def _next_job(turn: Turn, view: BenchmarkView) -> Turn:
    number = turn.rollout.job
    job = job_of(view, number)
    assert job is not None
    if number + 1 >= JOB_LIMIT + turn.rollout.extended:
        message = f"{number + 1} benchmark pods ended too early, the last one: {why_over(job)}"
        return hold(account(turn, view), "BenchmarkFailed", message)
    turn = turn.roll(job=number + 1)
    return turn.event(
        "BenchmarkResumed", f"the next benchmark pod goes on at slot {view.evidence.slots}: {why_over(job)}"
    )


def _gross_alarm(turn: Turn, view: BenchmarkView) -> Turn:
    return reject(turn, "GrossDrift", view.evidence.message, verdict=ROLLBACK)


def _alarm(turn: Turn, view: BenchmarkView) -> Turn:
    message = view.evidence.message
    if turn.state == State.CONFIRM:
        return reject(turn, "Drift", message, verdict=ROLLBACK)
    if turn.rollout.confirmed:
        return hold(
            turn, "SuspectedTwice", f"a second suspicion after a confirmation that cleared the first: {message}"
        )
    number = next_pair(turn.status)
    turn = account_pods(turn).update(pairs=turn.status.pairs + 1)
    turn = turn.to(
        State.CONFIRM,
        "Suspected",
        f"suspicion, checked on a fresh pair of pods: {message}",
        pair=number,
        suspected_by=view.name,
        canary_pod=None,
        twin_pod=None,
    )
    return turn.event("Suspected", message, warning=True)


def _start_confirmation(turn: Turn) -> Turn:
    rollout, stable = turn.rollout, turn.status.stable
    assert stable is not None and rollout.revision is not None
    pair = pair_of(turn.status)
    assert pair is not None
    if not suspects_gone(turn):
        return _wait_for_suspects(turn, rollout.revision)
    canary, twin = (starting_arm(turn.world, key, turn.now) for key in pair)
    if canary.state == ArmState.FAILED:
        message = f"the canary could not start again for the confirmation: {canary.reason}: {canary.message}"
        return reject(turn, canary.reason, message, verdict=ROLLBACK)
    if twin.state == ArmState.FAILED:
        return hold(turn, "TwinUnavailable", f"the twin could not start for the confirmation: {twin.message}")
    if ArmState.UNSCHEDULABLE in (canary.state, twin.state):
        return hold(close_pair(turn), "InsufficientCapacity", canary.message or twin.message)
    if ArmState.DISRUPTED in (canary.state, twin.state):
        return hold(turn, "Disrupted", canary.message or twin.message)
    if canary.state == twin.state == ArmState.READY and canary.pod and twin.pod:
        name = benchmark_name(turn, rollout.revision)
        turn = turn.update(benchmarks=turn.status.benchmarks + 1)
        turn = turn.roll(benchmark=name, job=0, canary_pod=canary.pod.name, twin_pod=twin.pod.name)
        return turn.event("ConfirmationStarted", f"Benchmark {name} checks the suspicion of {rollout.suspected_by}")
    return turn.explain("Suspected", "a fresh pair of pods is starting to check the suspicion")


def _wait_for_suspects(turn: Turn, revision: str) -> Turn:
    limit = deadline_seconds(turn.world, revision)
    if turn.now - moment(turn.rollout.since) > timedelta(seconds=limit):
        message = f"the suspected pair did not go away within {limit} s, so no fresh one could check the suspicion"
        return hold(turn, "Unconfirmed", message, verdict=INCONCLUSIVE)
    return turn.explain("Suspected", "the suspected pair is removed before a fresh one starts")


def suspects_gone(turn: Turn) -> bool:
    """Whether the suspected pair has left: a fresh one must not share the machine with it."""
    stable, suspect = turn.status.stable, turn.rollout.revision
    old = {(suspect, Role.SERVING), (stable.revision if stable else "", Role.TWIN)}
    keys = {p.key for p in turn.world.pools} | {p.pool for p in turn.world.pods}
    return not any((key.revision, key.role) in old for key in keys)


def _promote(turn: Turn, view: BenchmarkView) -> Turn:
    broken = broken_by_canary_alone(view.evidence)
    if broken:
        message = "the stable revision meets a bound that the new one breaks: " + "; ".join(map(describe, broken))
        return hold(turn, "ObjectiveBroken", message, verdict=PROMOTE)
    message = view.evidence.message or view.evidence.claim
    fresh = turn.state == State.CONFIRM
    turn = turn.update(verdict=PROMOTE).roll(verdict=PROMOTE, confirmed=turn.rollout.confirmed or fresh)
    turn = turn.roll(baseline=promoted_baseline(turn, view).name if view.evidence.frozen else None)
    if fresh:
        number = next_pair(turn.status)
        turn = account_pods(turn).update(pairs=turn.status.pairs + 1).roll(pair=number)
    turn = turn.roll(canary_pod=None, twin_pod=None)
    return turn.to(State.SWITCH, "Promoting", message).event("Promoted", f"PROMOTE: {message}")


def promoted_baseline(turn: Turn, view: BenchmarkView) -> BaselineOrder:
    """The new revision's Baseline: the canary arm's samples of the deciding benchmark; nothing is run again."""
    rollout = turn.rollout
    assert rollout.revision is not None
    settings = settings_of(turn)
    key = baseline_key(rollout.revision, settings, view.spec.get("environment") or {})
    return order_baseline(turn, view, rollout.revision, rollout.spec_hash, key, Calibration.PROMOTED)


def follow_baseline(turn: Turn) -> Turn:
    """Names the promoted Baseline as it will be written: slots stored after the verdict still change its content."""
    rollout = turn.status.rollout
    if rollout is None or not rollout.baseline or turn.state not in (State.SWITCH, State.KEPT):
        return turn
    view = turn.world.benchmark(rollout.benchmark)
    written = any(b.name == rollout.baseline for b in turn.world.baselines)
    if written or view is None or view.evidence.frozen is None:
        return turn
    return turn.roll(baseline=promoted_baseline(turn, view).name)


def _budget_spent(turn: Turn, view: BenchmarkView) -> bool:
    settings = settings_of(turn)
    if view.evidence.slots >= slots_left(turn, settings, view):
        return True
    minutes = settings.rollout.benchmark.budget.minutes * (2 if turn.rollout.extended else 1)
    spent = turn.rollout.spent_seconds + measured_seconds(turn, view)
    return spent > 60 * minutes


def _spent(turn: Turn, view: BenchmarkView) -> Turn:
    rollout, evidence = turn.rollout, view.evidence
    if turn.state == State.BENCHMARK and not rollout.extended and evidence.outcome != "BudgetSpent":
        ended = over(job_of(view, rollout.job), turn.now)
        text = f"the budget is spent without a decision and is granted once more: {evidence.message}"
        return turn.roll(extended=True, job=rollout.job + ended).event("BudgetExtended", text)
    turn = _ended(turn, view)
    message = f"no decision within the budget: {evidence.message}"
    if turn.state == State.CONFIRM:
        return hold(
            turn, "Unconfirmed", f"the suspicion was neither confirmed nor cleared: {message}", verdict=INCONCLUSIVE
        )
    if settings_of(turn).rollout.on_inconclusive == OnInconclusive.ABORT:
        turn = turn.update(verdict=INCONCLUSIVE).roll(verdict=INCONCLUSIVE)
        return abort(turn, "Inconclusive", message)
    return hold(turn, "Inconclusive", message, verdict=INCONCLUSIVE)


def _lost_pair(turn: Turn, view: BenchmarkView | None, lost: Arm) -> Turn:
    count = turn.rollout.disruptions + 1
    turn = account(turn, view).roll(disruptions=count)
    if count >= DISRUPTION_LIMIT:
        return hold(
            close_pair(turn), "Disrupted", f"{count} pairs were lost to disruptions, the last one: {lost.message}"
        )
    return _fresh_pair(turn, lost.message)


def _lost_twin(turn: Turn, view: BenchmarkView | None, twin: Arm) -> Turn:
    count = turn.rollout.twin_failures + 1
    turn = account(turn, view).roll(twin_failures=count)
    if count >= DISRUPTION_LIMIT:
        message = f"the twin of the stable revision died {count} times, the last time: {twin.reason}: {twin.message}"
        return hold(turn, "TwinUnavailable", message)
    return _fresh_pair(turn, f"the twin died: {twin.reason}: {twin.message}")


def _fresh_pair(turn: Turn, why: str) -> Turn:
    text = f"a fresh pair with fresh evidence starts: {why}"
    turn = account_pods(turn).roll(canary_pod=None, twin_pod=None).event("PairReplaced", text, warning=True)
    if turn.state == State.BENCHMARK:
        # From the start: the baseline has to be there still, and room for the pair as well.
        return turn.to(State.STARTING, "StartingPods", text, pair=None)
    number = next_pair(turn.status)
    return turn.update(pairs=turn.status.pairs + 1).roll(pair=number)


def _progress(turn: Turn, view: BenchmarkView) -> str:
    evidence = view.evidence
    what = "checking the suspicion" if turn.state == State.CONFIRM else "comparing canary and twin"
    limit = slots_left(turn, settings_of(turn), view)
    void = f", {evidence.void_slots} void" if evidence.void_slots else ""
    return f"{what}: slot {evidence.slots} of at most {limit}{void}, {evidence.requests} requests"


_DECIDED: dict[str, Callable[[Turn, BenchmarkView], Turn]] = {
    "GrossAlarm": _gross_alarm,
    "Alarm": _alarm,
    "Promote": _promote,
}
