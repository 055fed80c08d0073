"""Ways out of a rollout that keep users where they are: rejected, aborted, held."""

from tailguard_operator.api.base import moment, timestamp
from tailguard_operator.api.status import REMEMBERED, RememberedHash, State
from tailguard_operator.plan.turn import Turn, pair_of
from tailguard_operator.plan.world import BenchmarkView


def reject(turn: Turn, reason: str, message: str, *, verdict: str | None = None) -> Turn:
    """Users stay on (or go back to) stable; the hash is remembered and not tried again by itself."""
    turn = remember(close_pair(turn), "Rejected", reason, message)
    if verdict:
        turn = turn.update(verdict=verdict).roll(verdict=verdict)
    text = f"revision {turn.rollout.revision} is rejected: {message}"
    return turn.to(State.REJECTED, reason, message).event("Rejected", text, warning=True)


def abort(turn: Turn, reason: str, message: str) -> Turn:
    """Ended by a person or by policy; remembered as Aborted."""
    turn = remember(close_pair(turn), "Aborted", reason, message)
    return turn.to(State.ABORTED, reason, message).event("Aborted", message, warning=True)


def hold(turn: Turn, reason: str, message: str, *, verdict: str | None = None) -> Turn:
    """Neither on nor back: the twin goes, the canary stays without users, and a person decides."""
    turn = account_pods(turn)
    if verdict:
        turn = turn.update(verdict=verdict).roll(verdict=verdict)
    text = f"{message}. Decide with `tailguard promote`, `abort` or `retry`"
    return turn.to(State.HELD, reason, message).event("Held", text, warning=True)


def remember(turn: Turn, verdict: str, reason: str, message: str) -> Turn:
    """The turn that remembers the rollout's hash; the oldest of more than ten is forgotten."""
    rollout = turn.rollout
    entry = RememberedHash(
        spec_hash=rollout.spec_hash,
        revision=rollout.revision or "",
        verdict=verdict,
        reason=reason[:128],
        message=message[:2048],
        at=timestamp(turn.now),
        benchmark=rollout.benchmark,
    )
    others = [r for r in turn.status.remembered or () if r.spec_hash != rollout.spec_hash]
    return turn.update(remembered=[*others, entry][-REMEMBERED:])


def remembered(turn: Turn, spec_hash: str) -> RememberedHash | None:
    """What is remembered of `spec_hash`."""
    return next((r for r in turn.status.remembered or () if r.spec_hash == spec_hash), None)


def account(turn: Turn, view: BenchmarkView | None) -> Turn:
    """Adds what a benchmark that ends here has cost to the rollout; one without pods has ended, and counted, before."""
    if view is None or turn.rollout.canary_pod is None:
        return turn
    evidence, rollout = view.evidence, turn.rollout
    took = measured_seconds(turn, view)
    return turn.roll(
        spent_requests=rollout.spent_requests + evidence.requests,
        spent_seconds=rollout.spent_seconds + round(took),
    )


def measured_seconds(turn: Turn, view: BenchmarkView) -> float:
    """How long a Benchmark has run, by the API server's clock: those of the nodes may be wrong by minutes."""
    return max(0.0, (turn.now - view.created).total_seconds()) if view.evidence.slots else 0.0


def account_pods(turn: Turn) -> Turn:
    """Adds the pod-minutes of the present pair to the rollout."""
    pair = pair_of(turn.status)
    pools = [p for p in turn.world.pools if pair and p.key in pair]
    begun = moment(turn.rollout.started_at)
    took = [p.replicas * max(0.0, (turn.now - max(p.created, begun)).total_seconds()) for p in pools]
    return turn.roll(pod_minutes=turn.rollout.pod_minutes + round(sum(took) / 60))


def close_pair(turn: Turn) -> Turn:
    """The turn whose rollout has no pair of pods any more."""
    return account_pods(turn).roll(pair=None, canary_pod=None, twin_pod=None, borrowed=False)
