"""The API server goes away in the middle of a rollout and comes back."""

from harness.control_plane import ControlPlane
from harness.dsl import FASTER, Scenario, uids


def test_a_rollout_goes_on_after_the_api_server_was_away(s: Scenario, control_plane: ControlPlane) -> None:
    """Longer away than the Lease lasts: the operator stops writing, and the one that is started next goes on."""
    # Given
    s.given_stable().given_measuring_paused().when_applied(FASTER).then_state("Benchmark")
    served = uids(s.users_pods())

    # When
    control_plane.kill_api_server()
    control_plane.start_api_server()
    if not s.operator.alive:
        s.operator.start()  # as the kubelet does when the operator has given the Lease up and ended
    s.when_measuring_goes_on()

    # Then
    s.then_state("Kept").then("users are on the change", lambda s: s.serves(FASTER))
    assert served <= uids(s.pods())
    s.then_condition("Ready", "True")
