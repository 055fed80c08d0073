"""The Lease: one holder at a time, who knows by himself when his time is over."""

import asyncio

import pytest
from fake_cluster import FakeCluster

from tailguard_operator.cluster.errors import NotLeader, Unavailable
from tailguard_operator.cluster.fence import FencedCluster
from tailguard_operator.cluster.kinds import DEPLOYMENT, LEASE, Object
from tailguard_operator.cluster.leader import Leader, LeaseSettings

SETTINGS = LeaseSettings(namespace="default", duration=15, renew_deadline=10.0, retry=0.002)


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def contender(cluster: FakeCluster, name: str, clock: Clock) -> Leader:
    return Leader(cluster, name, SETTINGS, clock)


async def elected(leader: Leader) -> asyncio.Task[None]:
    """`leader` at work, with the Lease."""
    task = asyncio.create_task(leader.run())
    await asyncio.wait_for(leader.elected.wait(), 1)
    return task


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def test_the_first_comer_holds_it_and_the_second_waits() -> None:
    # Given a leader
    cluster, clock = FakeCluster(), Clock()
    first, second = contender(cluster, "a", clock), contender(cluster, "b", clock)
    task = await elected(first)
    # When another comes
    waiting = asyncio.create_task(second.run())
    await asyncio.sleep(0.02)
    # Then only the first may write
    first.check()
    with pytest.raises(NotLeader):
        second.check()
    assert cluster.one(LEASE, SETTINGS.name)["spec"]["holderIdentity"] == "a"
    await end(task)
    await end(waiting)


async def test_a_silent_holder_is_followed_after_the_duration_by_the_followers_own_clock() -> None:
    # Given a holder that has died
    cluster, clock = FakeCluster(), Clock()
    await end(await elected(contender(cluster, "a", clock)))
    second = contender(cluster, "b", clock)
    waiting = asyncio.create_task(second.run())
    await asyncio.sleep(0.01)
    clock.now += 14.9
    await asyncio.sleep(0.01)
    assert not second.elected.is_set()
    # When the Lease has stood still for longer than it lasts
    clock.now += 0.2
    await asyncio.wait_for(second.elected.wait(), 1)
    # Then the follower holds it, one transition later
    assert second.transitions == 1
    await end(waiting)


async def test_a_leader_that_was_paused_refuses_its_own_write() -> None:
    """The leader is stopped between its check and its next write, for longer than the Lease lasts."""
    # Given a leader
    cluster, clock = FakeCluster(), Clock()
    leader = contender(cluster, "a", clock)
    task = asyncio.create_task(leader.run())
    await asyncio.wait_for(leader.elected.wait(), 1)
    fenced = FencedCluster(cluster, leader.check)
    await fenced.create(DEPLOYMENT.partial("default", "before"))
    # When the process is paused
    clock.now += 10
    # Then nothing that it does on waking reaches the cluster, and it ends
    with pytest.raises(NotLeader, match=r"10\.0 s ago"):
        await fenced.create(DEPLOYMENT.partial("default", "after"))
    assert [d["metadata"]["name"] for d in cluster.of(DEPLOYMENT)] == ["before"]
    with pytest.raises(NotLeader):
        await asyncio.wait_for(task, 1)


async def test_a_leader_whose_lease_was_taken_ends_at_its_next_renewal() -> None:
    # Given a leader
    cluster, clock = FakeCluster(), Clock()
    task = await elected(contender(cluster, "a", clock))
    # When somebody else has become the holder
    cluster.edit(LEASE, "default", SETTINGS.name, lambda o: o["spec"].update(holderIdentity="b", leaseTransitions=1))
    # Then it ends
    with pytest.raises(NotLeader, match="held by b"):
        await asyncio.wait_for(task, 1)


async def test_an_annotation_by_somebody_else_costs_no_leadership() -> None:
    # Given a leader whose Lease gets a label in between
    cluster, clock = FakeCluster(), Clock()
    leader = contender(cluster, "a", clock)
    task = await elected(leader)
    cluster.edit(LEASE, "default", SETTINGS.name, lambda o: o["metadata"].update(labels={"x": "y"}))
    # When it goes on renewing while time passes
    for _ in range(5):
        clock.now += 5
        await asyncio.sleep(0.02)
    # Then it still leads
    leader.check()
    assert not task.done()
    await end(task)


async def test_an_api_server_out_of_reach_ends_the_leadership_in_time() -> None:
    # Given a leader whose API server stops answering
    cluster, clock = FakeCluster(), Clock()
    leader = contender(cluster, "a", clock)
    task = await elected(leader)

    def unreachable(verb: str, body: Object) -> None:
        raise Unavailable(verb, 0, "no connection")

    cluster.before_write = unreachable
    # When less than the renew deadline passes, it holds on
    clock.now += 9.9
    await asyncio.sleep(0.02)
    assert not task.done()
    # When the deadline has passed, it ends, well before anybody else may start
    clock.now += 0.2
    with pytest.raises(NotLeader):
        await asyncio.wait_for(task, 1)


async def test_a_lease_that_was_handed_back_is_taken_at_once() -> None:
    # Given a leader that ends in good order
    cluster, clock = FakeCluster(), Clock()
    first = contender(cluster, "a", clock)
    task = await elected(first)
    await end(task)
    await first.release()
    # When the next one comes, it need not wait
    second = contender(cluster, "b", clock)
    task = await elected(second)
    # Then it knows that the Lease has changed hands
    assert second.transitions == 1
    with pytest.raises(NotLeader):
        first.check()
    await end(task)


async def test_a_restarted_container_takes_up_its_own_lease_as_a_new_holder() -> None:
    # Given a holder that was killed
    cluster, clock = FakeCluster(), Clock()
    await end(await elected(contender(cluster, "a", clock)))
    # When it starts again under the same name
    again = contender(cluster, "a", clock)
    task = await elected(again)
    # Then it does not wait, but counts as another leader
    assert again.transitions == 1
    await end(task)


def test_times_that_could_let_two_lead_are_refused() -> None:
    with pytest.raises(ValueError, match=r"renew deadline 15\.0 s and duration 15 s"):
        LeaseSettings(namespace="default", duration=15, renew_deadline=15.0)
