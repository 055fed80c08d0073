"""The user changes their mind in the middle of a rollout."""

from harness.dsl import BASE, FASTER, SLOWER, Scenario, uids


def _in_the_middle(s: Scenario) -> Scenario:
    return s.given_stable().given_measuring_paused().when_applied(SLOWER).then_state("Benchmark")


def test_a_new_spec_in_the_middle_replaces_the_change(s: Scenario) -> None:
    # Given
    _in_the_middle(s)
    dropped = s.rollout["revision"]

    # When
    s.when_applied(FASTER).when_measuring_goes_on()

    # Then
    s.then_state("Kept").then("the dropped pods are gone", lambda s: not s.pods(revision=dropped))
    assert s.serves(FASTER)
    assert not s.status.get("remembered")


def test_the_stable_spec_again_ends_the_change(s: Scenario) -> None:
    # Given
    _in_the_middle(s)
    served = uids(s.users_pods())

    # When
    s.when_applied(BASE)

    # Then
    s.then_stable(BASE).then("only the users' pods are left", lambda s: uids(s.pods()) == served)
    s.then_condition("RolloutComplete", "True")
    s.then("the Job is gone", lambda s: not [j for j in s.owned("Job") if j.get("status", {}).get("active")])


def test_abort_ends_the_change_and_remembers_it(s: Scenario) -> None:
    # Given
    _in_the_middle(s)
    served = uids(s.users_pods())

    # When
    s.when_annotated("abort", "by-hand")

    # Then
    s.then_state("Aborted").then_condition("Ready", "True")
    s.then("only the users' pods are left", lambda s: uids(s.pods()) == served)
    assert [row["verdict"] for row in s.status["remembered"]] == ["Aborted"]


def test_a_service_deleted_in_the_middle_leaves_nothing(s: Scenario) -> None:
    """Owner references alone clean up: no finalizer, so it also works while the operator is down."""
    # Given
    _in_the_middle(s)
    s.operator.kill()

    # When
    s.when_deleted()

    # Then
    s.then("the service is gone at once", lambda s: not s.service, seconds=2)
    kinds = ("Deployment", "Pod", "Job", "Benchmark", "Baseline", "ControllerRevision", "RoleBinding", "ConfigMap")
    s.then("all children are gone", lambda s: not any(s.owned(kind) for kind in kinds))
    s.then("the Service is gone", lambda s: s.users_service() is None)
