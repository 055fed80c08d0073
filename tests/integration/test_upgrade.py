"""An upgraded operator renders otherwise, but never changes what runs."""

from harness.dsl import BASE, FASTER, Scenario, uids

NEWER = {"tailguard_runtime.engines.vllm.STARTUP_BASE_SECONDS": 777}
"""A builder that gives every engine another start-up probe and another environment variable."""


def _variable(pod: dict[str, object], name: str = "VLLM_ENGINE_READY_TIMEOUT_S") -> str:
    containers = pod["spec"]["containers"]  # type: ignore[index]
    return next((row["value"] for row in containers[0]["env"] if row["name"] == name), "")


def test_a_changed_builder_restarts_no_pod_and_counts_from_the_next_revision(s: Scenario) -> None:
    # Given
    s.given_stable()
    served, stored = uids(s.users_pods()), uids(s.owned("ControllerRevision"))
    (before,) = s.users_pods()
    s.operator.stop()

    # When
    s.operator.constants |= NEWER
    s.operator.start()
    s.when_scaled(2).then("the second pod serves", lambda s: len(s.users_pods()) == 2)

    # Then
    assert served < uids(s.users_pods())
    assert {_variable(pod) for pod in s.users_pods()} == {_variable(before)}
    assert uids(s.owned("ControllerRevision")) == stored
    s.then_stable(BASE)

    # When
    s.when_applied(FASTER, replicas=2)

    # Then
    s.then_state("Kept")
    assert {_variable(pod) for pod in s.users_pods()} != {_variable(before)}


def test_an_upgrade_in_the_middle_of_a_rollout_changes_no_arm(s: Scenario) -> None:
    # Given
    s.given_stable().given_measuring_paused().when_applied(FASTER).then_state("Benchmark")
    s.then("both arms run", lambda s: len(s.pods()) == 3)
    running = uids(s.pods())
    s.operator.stop()

    # When
    s.operator.constants |= NEWER
    s.operator.start()
    s.then_never("a pod is replaced", lambda s: uids(s.pods()) != running, seconds=2)
    s.when_measuring_goes_on()

    # Then
    s.then_state("Kept")
    assert uids(s.users_pods()) < running
