"""The main job on real parts, and what a user can ask afterwards."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from e2e.cluster.layout import REPOSITORY
from e2e.demo.kube import Kube
from e2e.demo.story import SERVICE

Run = Callable[..., subprocess.CompletedProcess[str]]
pytestmark = [pytest.mark.e2e, pytest.mark.smoke]


def test_the_demo_goes_as_told_and_no_request_of_the_client_fails(demo: subprocess.CompletedProcess[bytes]) -> None:
    # Given a cluster with the operator, and a client that streams through all of it
    summary = json.loads((REPOSITORY / "build" / "demo" / "summary.json").read_text())
    # Then every step was seen as it was told
    assert demo.returncode == 0
    seen = [(step["name"], step["seen"]) for step in summary["steps"]]
    assert [verdict for _, verdict in seen] == ["Ready", "ROLLBACK", "PROMOTE", "Rejected"]
    assert [step["expected"] for step in summary["steps"]] == [verdict for _, verdict in seen]
    # And users noticed nothing
    assert summary["failed_requests"] == 0 and summary["client_requests"] > 100


def test_the_rollback_is_explained_in_words_and_numbers(demo: object, kube: Kube, tailguard: Run) -> None:
    # Given the Benchmark that rejected the harmful change
    benchmark = _rejected(kube)
    # When a user asks why
    told = tailguard("explain", SERVICE, "--benchmark", benchmark)
    # Then the verdict comes with its interval, its requests and a plot of both arms
    assert told.returncode == 0, told.stderr
    for part in ("GrossAlarm", "% interval", "requests", "canary", "twin", "TTFT"):
        assert part in told.stdout, told.stdout


def test_every_decided_verdict_can_be_replayed(demo: object, kube: Kube, tailguard: Run) -> None:
    """R-020: the verdict is what the stored samples say, and nothing else."""
    # Given the Benchmarks that the demo has left
    decided = [
        b["metadata"]["name"]
        for b in json.loads(kube.kubectl("get", "benchmarks", "-o", "json"))["items"]
        if (b.get("status") or {}).get("verdict")
    ]
    # Then each verdict comes out the same from its samples
    assert len(decided) >= 2
    for name in decided:
        again = tailguard("replay", name)
        assert again.returncode == 0, f"{name}: {again.stdout}"


def test_the_frozen_baseline_cannot_be_changed(demo: object, kube: Kube) -> None:
    """R-016: a version-lockable snapshot."""
    # Given the Baseline in force
    name = (kube.get("inferenceservice", SERVICE) or {})["status"]["baseline"]["name"]
    # When somebody edits it
    with pytest.raises(RuntimeError, match="must stay as it was created"):
        kube.kubectl("patch", "baseline", name, "--type=merge", "-p", '{"spec":{"key":"other"}}')


def _rejected(kube: Kube) -> str:
    status = (kube.get("inferenceservice", SERVICE) or {})["status"]
    return next(str(r["benchmark"]) for r in status["remembered"] if r.get("benchmark") and r["reason"] == "GrossDrift")
