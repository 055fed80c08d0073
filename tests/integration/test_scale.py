"""/scale changes the stable revision alone; the arms of a rollout keep their size."""

from harness.api import Object
from harness.dsl import BASE, FASTER, Scenario, uids


def _size(s: Scenario, revision: str, role: str = "serving") -> int:
    found = [
        each["spec"]["replicas"]
        for each in s.owned("Deployment")
        if each["metadata"]["labels"]["tailguard.dev/revision"] == revision
        and each["metadata"]["labels"]["tailguard.dev/role"] == role
    ]
    return sum(found)


def _scale(s: Scenario) -> Object:
    return s.api.get("InferenceService", s.namespace, s.name, "scale") or {}


def test_scale_reads_back_what_an_autoscaler_needs(s: Scenario) -> None:
    # Given
    s.given_stable()
    served = uids(s.users_pods())

    # When
    s.when_scaled(3)

    # Then
    s.then("three pods serve", lambda s: len(s.users_pods()) == 3)
    s.then("status says so", lambda s: _scale(s)["status"]["replicas"] == 3)
    selected = s.api.find("Pod", s.namespace, _scale(s)["status"]["selector"])
    assert uids(selected) == uids(s.users_pods()) >= served


def test_scaling_in_the_middle_of_a_rollout_leaves_the_arms_alone(s: Scenario) -> None:
    # Given
    s.given_stable().given_measuring_paused().when_applied(FASTER).then_state("Benchmark")
    stable, canary = s.route(), s.rollout["revision"]

    # When
    s.when_scaled(2)

    # Then
    s.then("two pods serve", lambda s: len(s.users_pods()) == 2)
    assert (_size(s, canary), _size(s, stable, "twin")) == (1, 1)
    s.then_state("Benchmark")

    # When
    s.when_measuring_goes_on()

    # Then
    s.then_state("Kept")
    assert len(s.users_pods()) == 2 and s.serves(FASTER)
    assert _size(s, stable) == 2


def test_at_zero_replicas_no_rollout_starts(s: Scenario) -> None:
    # Given
    s.given_stable().when_scaled(0).then("no pod serves", lambda s: not s.users_pods())

    # When
    s.when_applied(FASTER, replicas=0)

    # Then
    s.then_condition("RolloutComplete", "False", "NoReplicas").then_condition("Ready", "False", "NoReplicas")
    assert not s.benchmarks("Canary")

    # When
    s.when_applied(BASE, replicas=1)

    # Then
    s.then_condition("Ready", "True").then_stable(BASE)
