"""State table, rows "no stable yet": the first revision serves as soon as it is Ready, and nothing is judged."""

import pytest
from plan_sim import Sim, only, ready, serving


def test_the_first_revision_is_stable_at_once_and_its_baseline_is_frozen_beside_it() -> None:
    """R-016: the snapshot is captured by itself, from a controlled A/A benchmark."""
    # Given a new service
    sim = Sim()
    # When its first revision is Ready
    sim.run(lambda s: s.status.stable is not None)
    sim.run(lambda s: bool(s.benchmarks))
    # Then it serves, and an A/A pair of the same revision is measured beside it
    assert sim.state == "Stable"
    assert sim.routed == ["raaaa"]
    assert sim.condition("Ready").status == "True"
    assert sim.roles == {"serving", "aa-a", "aa-b"}
    assert [b.spec["purpose"] for b in sim.benchmarks.values()] == ["Baseline"]


def test_a_first_revision_that_fails_says_why_and_is_never_remembered() -> None:
    # Given a first revision whose image does not exist
    sim = Sim(behaviour=only("pull", "raaaa"))
    # When its pods fail
    sim.run(lambda s: s.condition("Ready") is not None and s.condition("Ready").reason == "ImagePullBackOff")
    # Then Ready is False with the pod's own reason, nothing is routed, judged or remembered
    assert (sim.condition("Ready").status, sim.condition("Ready").message) == ("False", "no such image")
    assert sim.condition("Stalled").reason == "ImagePullBackOff"
    assert (sim.routed, sim.benchmarks, sim.status.remembered) == ([], {}, None)
    # When the image appears after all
    sim.behaviour = ready
    # Then the service is Ready without anybody's doing
    sim.run(lambda s: s.state == "Stable")


def test_another_spec_replaces_the_old_pods_at_once() -> None:
    # Given a first revision that fails
    sim = Sim(behaviour=only("pull", "raaaa"))
    sim.run(lambda s: len(s.pods) == 1)
    # When the user applies another spec
    sim.spec_is("bbbb").step()
    # Then the old pods go in that same pass, and the new revision serves
    assert all(key.revision != "raaaa" for key in sim.pools)
    sim.run(lambda s: s.state == "Stable")
    assert sim.routed == ["rbbbb"]


def test_a_service_without_replicas_starts_nothing_and_says_so() -> None:
    # Given a service with replicas 0
    sim = Sim()
    sim.spec_is("aaaa", replicas=0)
    # When the operator looks at it
    sim.run(lambda s: s.condition("Ready") is not None and s.condition("Ready").reason == "NoReplicas")
    # Then no pod is made; with a replica it starts
    assert sim.pods == {}
    serving(sim.spec_is("aaaa", replicas=1))


def test_an_invalid_first_spec_is_stalled_with_the_sentence() -> None:
    # Given a spec with a misspelt flag
    sim = Sim(problems=("spec.engine.args[0]: '--max-num-sqs' is unknown; did you mean --max-num-seqs?",))
    # When the operator looks at it
    sim.step()
    # Then it is stalled, names the flag, and starts nothing
    stalled = sim.condition("Stalled")
    assert (stalled.status, stalled.reason) == ("True", "InvalidSpec")
    assert "--max-num-seqs" in stalled.message
    assert sim.pools == {}


def test_a_first_revision_whose_pods_a_quota_refuses_says_so_after_the_deadline() -> None:
    # Given a quota that lets no pod be created
    sim = Sim(behaviour=only("refused", "raaaa"))
    # When the progress deadline has passed
    sim.run(
        lambda s: s.condition("Ready") is not None and s.condition("Ready").reason == "InsufficientCapacity", seconds=30
    )
    # Then Ready says where to look
    assert "quota" in sim.condition("Ready").message


@pytest.mark.parametrize("command", ["abort", "promote", "retry"])
def test_commands_wait_until_there_is_a_stable_revision(command: str) -> None:
    # Given an annotation on a service that does not serve yet
    sim = Sim(commands={command: "ann-1"})
    # When it serves
    sim.run(lambda s: s.status.handled is not None)
    # Then the command is looked at once, does nothing, and says so
    assert sim.state == "Stable"
    sim.step()
    assert sim.events.count("CommandIgnored") == 1


def test_a_service_that_is_deleted_is_left_to_its_owner_references() -> None:
    # Given a service in the middle of its first start
    sim = Sim()
    sim.step()
    # When it is deleted
    sim.deleting = True
    decision = sim.step()
    # Then nothing is made, moved or measured any more
    assert (decision.route_to, decision.render, decision.benchmark, decision.job) == (None, False, None, None)
