"""Life is judged by what happens now, not by what etcd remembers; failures show their log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from e2e.cluster.cluster import is_ready, renewed
from e2e.cluster.namespaces import wait_until
from e2e.cluster.packages import missing
from e2e.cluster.progress import TAIL_LINES, ClusterError, call, explain


def node(ready: str) -> dict[str, object]:
    return {
        "status": {"conditions": [{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": ready}]}
    }


def test_only_a_true_ready_condition_counts() -> None:
    assert is_ready(node("True"))
    assert not is_ready(node("Unknown"))
    assert not is_ready({})


def test_the_time_of_a_lease_can_be_compared_with_now() -> None:
    lease = {"spec": {"renewTime": "2030-01-02T03:04:05.678901Z"}}
    assert renewed(lease) == datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def test_a_failure_shows_the_last_lines_of_its_components_log(tmp_path: Path) -> None:
    # Given a component with a long log
    log = tmp_path / "kubelet.log"
    log.write_text("\n".join(f"line {number}" for number in range(100)))
    # When its failure is explained
    text = explain(ClusterError("kubelet ended with 1", log))
    # Then the message comes first, then only the end of the log
    assert text.startswith("kubelet ended with 1")
    assert "line 99" in text
    assert f"line {99 - TAIL_LINES}\n" not in text


def test_waiting_ends_with_what_was_waited_for() -> None:
    with pytest.raises(ClusterError, match="the node: not within"):
        wait_until(lambda: False, 0.0, "the node")


def test_a_failed_command_is_named_with_what_it_said() -> None:
    with pytest.raises(ClusterError, match=r"ended with 3:\nno such thing"):
        call(["sh", "-c", "echo no such thing >&2; exit 3"])
    with pytest.raises(ClusterError, match="cannot run /nonexistent"):
        call(["/nonexistent"])


def test_packages_are_asked_for_only_where_a_program_is_missing() -> None:
    # Given a machine with a containerd of its own and no nftables
    wanted = missing(["containerd", "ctr", "nft", "runc"], has=lambda program: program in ("containerd", "ctr"))
    # Then its containerd stays, and each missing package is named once
    assert wanted == ["nftables", "runc"]
