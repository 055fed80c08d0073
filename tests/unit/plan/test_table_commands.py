"""State table, rows of commands: annotations with a token, each acts once."""

import pytest
from plan_sim import benchmark_runs, confirming, held, kept, measuring, only, ready, rejected, stable


@pytest.mark.parametrize("where", ["Held", "Benchmark", "Confirm"])
def test_abort_removes_the_arms_and_remembers_the_hash(where: str) -> None:
    # Given a change before its promotion
    sim = held(stable()) if where == "Held" else measuring(stable())
    if where == "Confirm":
        confirming(sim)
    # When a person aborts it
    sim.command("abort", "ann-1").step()
    sim.step()
    # Then users are where they were, the arms go, and the hash is remembered as Aborted, with the name
    assert sim.state == "Aborted"
    assert (sim.roles, sim.routed) == ({"serving"}, ["raaaa"])
    assert (sim.status.remembered[0].verdict, sim.status.remembered[0].spec_hash) == ("Aborted", "bbbb")
    assert "ann-1" in sim.condition("RolloutComplete").message
    assert sim.condition("RolloutComplete").reason == "Aborted"


def test_a_token_acts_once_though_git_keeps_it() -> None:
    # Given an aborted and retried change whose abort token stays on the object
    sim = measuring(stable()).command("abort", "t1")
    sim.run(lambda s: s.state == "Aborted")
    sim.command("retry", "t1").run(benchmark_runs)
    # Then the old token does nothing more
    for _ in range(5):
        sim.step()
    assert sim.state == "Benchmark"
    # When the token is another one, it acts
    sim.command("abort", "t2").step()
    assert sim.state == "Aborted"


def test_a_token_longer_than_status_holds_acts_once_too() -> None:
    # Given a token of a thousand characters
    sim = rejected(measuring(stable())).command("retry", "x" * 1000)
    # When it was acted upon
    sim.run(benchmark_runs)
    for _ in range(5):
        sim.step()
    # Then the rollout was started once more, and once only
    assert sim.events.count("RolloutStarted") == 2
    assert type(sim.status).model_validate(sim.status.to_object()) == sim.status


@pytest.mark.parametrize("before", ["Rejected", "Aborted", "Held"])
def test_retry_forgets_the_refusal_and_starts(before: str) -> None:
    # Given a change that was refused or is held
    if before == "Held":
        sim = held(stable())
    else:
        sim = measuring(stable())
        sim = rejected(sim) if before == "Rejected" else sim.command("abort").run(lambda s: s.state == "Aborted")
    # When a person retries
    sim.command("retry").run(benchmark_runs)
    # Then it is measured again, with its costs at nothing and nothing remembered of it
    assert (sim.status.remembered, sim.status.rollout.spent_requests) == (None, 0)


@pytest.mark.parametrize(
    ("command", "where"), [("retry", "Stable"), ("promote", "Benchmark"), ("promote", "Rejected"), ("pin", "Benchmark")]
)
def test_a_command_that_makes_no_sense_now_is_answered(command: str, where: str) -> None:
    # Given a service in a state that the command is not for
    sim = stable()
    if where != "Stable":
        measuring(sim)
    if where == "Rejected":
        rejected(sim)
    # When it is given
    sim.command(command).step()
    # Then an Event says so, once, and nothing else happens
    sim.step()
    assert (sim.state, sim.events.count("CommandIgnored")) == (where, 1)
    assert f"tailguard.dev/{command} does nothing in state {where}" in [e.message for e in sim.told]


def test_two_commands_at_once_are_both_looked_at_without_waiting_for_an_event() -> None:
    # Given a rejected change with an old abort and a new retry on it
    sim = rejected(measuring(stable()))
    sim.command("abort").command("retry")
    # When the operator has taken the first
    sim.step()
    # Then it looks again at once and takes the second
    assert sim.last.requeue_after == 1.0
    sim.step()
    assert sim.state == "Starting"


def test_refresh_renders_the_same_spec_again() -> None:
    # Given a stable service
    sim = stable()
    # When a person asks for a refresh
    sim.command("refresh", "t1").step()
    # Then the operator looks again at once, and the same spec is a new revision that has to prove itself
    assert sim.last.requeue_after == 1.0
    sim.run(benchmark_runs)
    assert {k.revision for k in sim.pools} == {"raaaa", "raaaat1"}
    # And its token stays handled
    sim.step()
    assert sim.events.count("Refresh") == 1


def test_an_abort_and_a_new_spec_in_one_edit_start_the_new_spec() -> None:
    # Given a held change
    sim = held(stable())
    # When a person aborts it and applies another in the same edit
    sim.spec_is("cccc").command("abort")
    # Then the old one is remembered and the new one measured
    sim.run(benchmark_runs)
    assert [r.spec_hash for r in sim.status.remembered] == ["bbbb"]


def test_a_promote_for_a_spec_that_has_changed_meanwhile_promotes_nothing() -> None:
    # Given a held change
    sim = held(stable())
    # When the spec becomes another one before the promote is seen
    sim.spec_is("cccc").command("promote")
    sim.run(benchmark_runs)
    # Then no users moved, and the new one has to prove itself
    assert sim.routed == ["raaaa"]
    assert sim.status.rollout.spec_hash == "cccc"


def test_a_promote_of_a_change_whose_pods_never_fit_ends_held_again() -> None:
    # Given a change that is held because there is no room
    sim = stable()
    sim.room = 0
    sim.spec_is("bbbb").run(lambda s: s.state == "Held")
    # When it is promoted without room
    sim.command("promote", "t1").run(lambda s: s.status.handled is not None)
    sim.step()
    # Then it is held again, with the number that it needs, and users stay
    assert sim.state == "Held"
    assert "the switch needs 1 more engine pods" in sim.status.rollout.message
    assert sim.routed == ["raaaa"]
    # When there is room, promote works
    sim.room = 3
    sim.command("promote", "t2").run(lambda s: s.state == "Kept")


def test_a_retry_while_previous_is_kept_is_answered_and_changes_nothing() -> None:
    # Given a promoted change in its window with a queued spec
    sim = kept(measuring(stable())).spec_is("cccc")
    sim.command("retry").step()
    # Then the queue stands
    sim.step()
    assert (sim.state, sim.status.rollout.reason) == ("Kept", "GuardRunning")


def test_a_retry_after_the_cause_was_removed_succeeds() -> None:
    # Given a change that was rejected because its image did not exist
    sim = stable()
    sim.behaviour = only("pull", "rbbbb")
    sim.spec_is("bbbb").run(lambda s: s.state == "Rejected")
    # When the image is pushed and a person retries
    sim.behaviour = ready
    sim.command("retry")
    # Then it is measured
    sim.run(benchmark_runs)
