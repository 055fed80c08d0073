"""From the decided status to everything that should exist."""

from datetime import timedelta

from tailguard_operator.api.base import after, moment, seconds
from tailguard_operator.api.benchmark import Purpose
from tailguard_operator.api.status import State
from tailguard_operator.plan.commands import unhandled
from tailguard_operator.plan.decision import BaselineOrder, BenchmarkOrder, Decision, JobOrder, Pool
from tailguard_operator.plan.first import FIRST_SLOT
from tailguard_operator.plan.freeze import IDLE, RETRY_AFTER, freeze_settings, frozen_baseline
from tailguard_operator.plan.jobs import job_of, overdue
from tailguard_operator.plan.measuring import promoted_baseline, suspects_gone
from tailguard_operator.plan.orders import order_benchmark, order_job, slots_left
from tailguard_operator.plan.settings import Settings
from tailguard_operator.plan.starting import settings_of
from tailguard_operator.plan.switching import closing, new_pool, wanted_replicas
from tailguard_operator.plan.turn import Turn, aa_pair_of, pair_of, serving_of_previous, serving_of_stable
from tailguard_operator.plan.world import BenchmarkView, PodView, PoolKey, Role, World

KEPT_BENCHMARKS = 3
MEASURING_PERIOD = 1.0
STARTING_PERIOD = 5.0
WORKLOAD_PERIOD = 30.0
"""ConfigMaps are never watched, so a missing workload is looked for again."""
_PAIRED = frozenset({State.STARTING, State.BENCHMARK, State.CONFIRM})
"""States with a canary and a twin."""
_ENDED = frozenset({"Alarm", "GrossAlarm", "Promote", "BudgetSpent"})


def desired(turn: Turn) -> Decision:
    """The decision that the status of `turn` stands for."""
    benchmark, job = _measurement(turn)
    revisions = _revisions_in_use(turn)
    return Decision(
        status=turn.status,
        pools=(*_with_users(turn, _pools(turn)),),
        route_to=None if _would_lose_users(turn) else turn.status.route,
        render=_must_render(turn),
        benchmark=benchmark,
        job=job,
        stop_jobs=_stop_jobs(turn),
        finished=tuple(b.name for b in turn.world.benchmarks if not b.finished and b.name not in _active(turn)),
        baseline=_baseline(turn),
        remove_benchmarks=_old_benchmarks(turn),
        remove_baselines=_old_baselines(turn),
        remove_revisions=tuple(r.revision for r in turn.world.revisions if r.revision not in revisions),
        close_connections=_left_pods(turn),
        events=turn.events,
        requeue_after=_next_look(turn),
    )


def needs_evidence(world: World) -> tuple[str, ...]:
    """Benchmarks whose stored samples the next decision asks for.

    Those that measure, those that a Baseline is still to be written from, and the deciding one while users move: the
    objectives of the revision that they reach are checked on it.
    """
    rollout = world.status.rollout
    missing = rollout is not None and rollout.baseline and all(b.name != rollout.baseline for b in world.baselines)
    moving = rollout is not None and rollout.state == State.SWITCH and world.status.route == rollout.revision
    freeze = world.status.freeze
    deciding = {rollout.benchmark} if rollout and (missing or moving) else set()
    deciding |= {freeze.benchmark} if freeze and freeze.baseline else set()
    return tuple(b.name for b in world.benchmarks if not b.finished or b.name in deciding)


def _must_render(turn: Turn) -> bool:
    world, rollout = turn.world, turn.status.rollout
    waits = rollout is not None and rollout.state == State.STARTING and rollout.spec_hash == world.spec_hash
    return waits and not world.problems and world.revision_of(world.spec_hash) is None


def _pools(turn: Turn) -> list[Pool]:
    status, spec = turn.status, turn.world.spec
    stable = serving_of_stable(status)
    if stable is None or status.stable is None:
        first = status.rollout.revision if status.rollout else None
        return [Pool(PoolKey(first, Role.SERVING, FIRST_SLOT), spec.replicas)] if first else []
    borrowed = turn.state in _PAIRED and turn.rollout.borrowed
    pools = [Pool(stable, max(spec.replicas - borrowed, 0), moved_by=status.stable.moved_by)]
    return [*pools, *_previous_pool(turn), *_rollout_pools(turn), *_freeze_pools(turn)]


def _previous_pool(turn: Turn) -> list[Pool]:
    previous = serving_of_previous(turn.status)
    if previous is None or turn.status.previous is None:
        return []
    observed = next((p for p in turn.world.pools if p.key == previous), None)
    replicas = observed.replicas if observed else wanted_replicas(turn)
    return [Pool(previous, replicas, moved_by=turn.status.previous.moved_by)]


def _rollout_pools(turn: Turn) -> list[Pool]:
    if turn.status.rollout is None or turn.rollout.pair is None:
        return []
    if turn.state == State.SWITCH:
        return [Pool(new_pool(turn), wanted_replicas(turn), moved_by=turn.rollout.moved_by)]
    if turn.state == State.HELD:
        return _held_pool(turn)
    return _pair_pools(turn)


def _pair_pools(turn: Turn) -> list[Pool]:
    pair, rollout = pair_of(turn.status), turn.rollout
    if pair is None or turn.state not in _PAIRED:
        return []
    if turn.state != State.CONFIRM:
        return [Pool(key, 1) for key in pair]
    if not suspects_gone(turn):
        return []
    return [
        Pool(key, 1, avoid_nodes=(node,) if node else ())
        for key, node in zip(pair, (rollout.canary_node, rollout.twin_node), strict=True)
    ]


def _held_pool(turn: Turn) -> list[Pool]:
    """The canary stays for inspection, if it ever started; what is not there is not started."""
    key = new_pool(turn)
    return [Pool(key, 1)] if any(p.key == key for p in turn.world.pools) else []


def _freeze_pools(turn: Turn) -> list[Pool]:
    freeze, pair = turn.status.freeze, aa_pair_of(turn.status)
    if freeze is None or pair is None or freeze.failed or freeze.baseline:
        return []
    return [Pool(key, 1) for key in dict.fromkeys(pair)]


def _with_users(turn: Turn, pools: list[Pool]) -> list[Pool]:
    """A pool that users are still routed to is never removed before the Service has moved."""
    service = turn.world.service
    if service is None or not service.revision or service.revision == turn.status.route:
        return pools
    wanted = {p.key for p in pools}
    left = [
        Pool(p.key, p.replicas)
        for p in turn.world.pools
        if p.key.role == Role.SERVING and p.key.revision == service.revision and p.key not in wanted and not p.deleting
    ]
    return [*pools, *left]


def _would_lose_users(turn: Turn) -> bool:
    """Whether the decided move is late: the pods that it leads to are lost, and those that users are on are Ready."""
    service, route = turn.world.service, turn.status.route
    if service is None or not service.revision or service.revision == route:
        return False
    users = (p for p in turn.world.pods if p.ready and p.pool.role == Role.SERVING)
    reached = {p.pool.revision for p in users}
    return service.revision in reached and route not in reached


def _active(turn: Turn) -> frozenset[str]:
    """Benchmarks that still measure."""
    names = set()
    if turn.state in (State.BENCHMARK, State.CONFIRM) and turn.rollout.canary_pod:
        names.add(turn.rollout.benchmark)
    freeze = turn.status.freeze
    if freeze and freeze.canary_pod and not freeze.failed and not freeze.baseline:
        names.add(freeze.benchmark)
    return frozenset(n for n in names if n)


def _measurement(turn: Turn) -> tuple[BenchmarkOrder | None, JobOrder | None]:
    active = _active(turn)
    if turn.status.rollout and turn.rollout.benchmark in active:
        return _rollout_measurement(turn)
    freeze, pair = turn.status.freeze, aa_pair_of(turn.status)
    if freeze is None or pair is None or freeze.benchmark not in active:
        return None, None
    view = turn.world.benchmark(freeze.benchmark)
    settings = freeze_settings(turn)
    if view is None:
        return order_benchmark(turn, freeze.benchmark, Purpose.BASELINE, pair, settings), None
    return None, _job(turn, view, freeze.job, (freeze.canary_pod, freeze.twin_pod), settings)


def _rollout_measurement(turn: Turn) -> tuple[BenchmarkOrder | None, JobOrder | None]:
    rollout, pair = turn.rollout, pair_of(turn.status)
    assert pair is not None and rollout.benchmark is not None
    view, settings = turn.world.benchmark(rollout.benchmark), settings_of(turn)
    confirming = turn.state == State.CONFIRM
    if view is None:
        purpose = Purpose.CONFIRM if confirming else Purpose.CANARY
        confirms = rollout.suspected_by if confirming else None
        return order_benchmark(turn, rollout.benchmark, purpose, pair, settings, confirms=confirms), None
    return None, _job(turn, view, rollout.job, (rollout.canary_pod, rollout.twin_pod), settings)


def _job(
    turn: Turn, view: BenchmarkView, number: int, names: tuple[str | None, str | None], settings: Settings
) -> JobOrder | None:
    if job_of(view, number) or view.evidence.broken or (_decided(view) and view.spec["purpose"] != Purpose.BASELINE):
        return None
    if view.spec["workload"].get("configMap") and view.spec["workload"]["hash"] != turn.world.workload.hash:
        return None
    pods = [_pod(turn, name) for name in names]
    if pods[0] is None or pods[1] is None or not (pods[0].ip and pods[1].ip):
        return None
    return order_job(view, number, pods[0], pods[1], slots_left(turn, settings, view))


def _pod(turn: Turn, name: str | None) -> PodView | None:
    return next((p for p in turn.world.pods if p.name == name and not p.deleting), None)


def _decided(view: BenchmarkView) -> bool:
    return view.evidence.outcome in _ENDED


def _stop_jobs(turn: Turn) -> tuple[str, ...]:
    active = _active(turn)
    return tuple(
        job.name
        for view in turn.world.benchmarks
        for job in view.jobs
        if job.active and (view.name not in active or overdue(job, turn.now) or job.number < _number(turn, view))
    )


def _number(turn: Turn, view: BenchmarkView) -> int:
    freeze, rollout = turn.status.freeze, turn.status.rollout
    if freeze and freeze.benchmark == view.name:
        return freeze.job
    return rollout.job if rollout and rollout.benchmark == view.name else 0


def _baseline(turn: Turn) -> BaselineOrder | None:
    freeze, rollout, there = turn.status.freeze, turn.status.rollout, {b.name for b in turn.world.baselines}
    if freeze and freeze.baseline and freeze.baseline not in there:
        view = turn.world.benchmark(freeze.benchmark)
        return frozen_baseline(turn, view) if view and view.evidence.frozen is not None else None
    if rollout and rollout.baseline and rollout.baseline not in there and turn.state in (State.SWITCH, State.KEPT):
        view = turn.world.benchmark(rollout.benchmark)
        return promoted_baseline(turn, view) if view and view.evidence.frozen is not None else None
    return None


def _old_benchmarks(turn: Turn) -> tuple[str, ...]:
    """All but the last three, those under way, and those whose samples a kept Baseline stands on."""
    rollout, freeze = turn.status.rollout, turn.status.freeze
    gone = set(_old_baselines(turn))
    kept = {b.spec["samples"]["benchmark"] for b in turn.world.baselines if b.name not in gone}
    kept |= {rollout.benchmark, rollout.suspected_by} if rollout else set()
    kept |= {freeze.benchmark} if freeze else set()
    newest_first = sorted(turn.world.benchmarks, key=lambda b: (b.created, b.name), reverse=True)
    return tuple(b.name for b in newest_first[KEPT_BENCHMARKS:] if b.name not in kept and b.finished)


def _old_baselines(turn: Turn) -> tuple[str, ...]:
    """All but those of stable and previous and those being written."""
    status = turn.status
    kept = {
        status.baseline.name if status.baseline else None,
        status.rollout.baseline if status.rollout else None,
        status.freeze.baseline if status.freeze else None,
    }
    revisions = {r.revision for r in (status.stable, status.previous) if r}
    return tuple(b.name for b in turn.world.baselines if b.name not in kept and b.revision not in revisions)


def _revisions_in_use(turn: Turn) -> set[str]:
    status = turn.status
    used = {r.revision for r in (status.stable, status.previous) if r}
    used |= {status.rollout.revision} if status.rollout and status.rollout.revision else set()
    used |= {p.key.revision for p in turn.world.pools}
    return used | {r.revision for r in turn.world.revisions if r.spec_hash == turn.world.spec_hash}


def _left_pods(turn: Turn) -> tuple[str, ...]:
    previous = serving_of_previous(turn.status)
    if previous is None or not closing(turn):
        return ()
    return tuple(p.ip for p in turn.world.pods_of(previous) if p.ready and p.ip)


def _next_look(turn: Turn) -> float | None:
    if _active(turn) or closing(turn) or _more_to_do(turn):
        return MEASURING_PERIOD
    if turn.state == State.KEPT:
        until = after(turn.rollout.since, seconds(turn.world.spec.rollout.keep_previous))
        return max((until - turn.now).total_seconds(), MEASURING_PERIOD)
    if turn.state in (State.STARTING, State.CONFIRM, State.SWITCH) or _freezing(turn) or _would_lose_users(turn):
        return STARTING_PERIOD
    if turn.world.workload.problem:
        return WORKLOAD_PERIOD
    freeze = turn.status.freeze
    if freeze and freeze.failed and turn.state in IDLE:
        return max(
            (moment(freeze.since) + RETRY_AFTER - turn.now + timedelta(seconds=1)).total_seconds(), WORKLOAD_PERIOD
        )
    return None


def _more_to_do(turn: Turn) -> bool:
    """Whether this decision made a step after which the next one may follow at once; a pass makes only one."""
    before = turn.world.status
    stepped = before.rollout is None or before.rollout.state != turn.state or before.handled != turn.status.handled
    return turn.status.stable is not None and (stepped or next(unhandled(turn), None) is not None)


def _freezing(turn: Turn) -> bool:
    return bool(turn.status.freeze and not turn.status.freeze.failed)
