"""The operator's process as it is shipped: its own interpreter, its judge in a spawned process, its ports."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import httpx
from harness.control_plane import ControlPlane
from harness.dsl import BASE, Scenario
from harness.processes import Child, tail

END_SECONDS = 20


def _start(s: Scenario, control_plane: ControlPlane, *options: str) -> Child:
    command = [sys.executable, "-m", "tailguard_operator.main", *s.operator.options(), *options]
    environment = os.environ | {"KUBECONFIG": str(control_plane.kubeconfig), "POD_NAME": "shipped"}
    return Child("operator", command, s.operator.log, environment)


def _ended(child: Child) -> bool:
    deadline = time.monotonic() + END_SECONDS
    while child.alive and time.monotonic() < deadline:
        time.sleep(0.1)
    return not child.alive


def _ports(log: Path) -> list[str]:
    """The ports that the log names, once it does."""
    found = re.search(r"served on ports \[(\d+), (\d+)\]", log.read_text())
    return [*found.groups()] if found else []


def test_the_shipped_process_serves_freezes_and_ends_in_order(s: Scenario, control_plane: ControlPlane) -> None:
    # Given
    child = _start(s, control_plane)
    try:
        # When
        s.when_applied(BASE)

        # Then
        s.then_condition("Ready", "True").then_baseline()
        health, metrics = _ports(s.operator.log)
        assert httpx.get(f"http://127.0.0.1:{health}/healthz").json() == {"ok": True, "problems": {}}
        seen = httpx.get(f"http://127.0.0.1:{metrics}/metrics").text
        assert "tailguard_is_leader 1.0" in seen and "tailguard_api_requests_total" in seen

        # When
        os.kill(child.pid, signal.SIGTERM)

        # Then
        assert _ended(child), tail(s.operator.log)
        (lease,) = s.api.find("Lease", s.namespace)
        assert lease["spec"]["holderIdentity"] == ""
    finally:
        child.kill()


def test_a_missing_installation_file_is_told_in_one_line(s: Scenario, control_plane: ControlPlane) -> None:
    # When
    child = _start(s, control_plane, "--installation=/nowhere.yaml")

    # Then
    try:
        assert _ended(child)
        assert "/nowhere.yaml" in tail(s.operator.log, lines=1)
    finally:
        child.kill()
