"""`make demo`: sets everything up, plays the story, and exits 0 only if all of it happened."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from rich.console import Console

from e2e.cluster.layout import REPOSITORY
from e2e.demo import report
from e2e.demo.install import install
from e2e.demo.kube import Kube, KubeError
from e2e.demo.story import SERVICE, Story
from e2e.demo.traffic import Counts, counts, start_client

NAMESPACE = "tailguard-demo"
SUMMARY = REPOSITORY / "build" / "demo" / "summary.json"
console = Console(highlight=False)


def main() -> int:
    """Plays the demo.

    Returns:
        0 when every step went as told and no request of the client failed, else 1.
    """
    phases: dict[str, float] = {}
    _timed(phases, "cluster", _cluster_up)
    kube = Kube.of(NAMESPACE)
    _timed(phases, "operator", lambda: install(kube))
    _timed(phases, "namespace", lambda: _fresh_namespace(kube))
    story = Story(kube, _say)
    story.first_rollout()
    if story.steps[0].as_told:
        start_client(kube, f"http://{_address(kube)}", SERVICE)
        story.harmful_change()
        story.helpful_change()
        story.broken_change()
        story.back_to_stable()
        time.sleep(2)
    seen = counts(kube) if len(story.steps) > 1 else Counts(0, 0, ())
    return _finish(story, seen, phases)


def _finish(story: Story, seen: Counts, phases: dict[str, float]) -> int:
    console.print(report.table(story.steps))
    for problem in seen.problems[:5]:
        console.print(f"[red]a client's request failed: {problem}[/red]")
    console.print(f"{seen.sent} requests of a client through all of it, {seen.failed} failed")
    console.print("why the rollback:  [bold]" + _explain(story) + "[/bold]")
    report.write(SUMMARY, report.summary(story.steps, seen, phases))
    console.print(f"the same figures: {SUMMARY.relative_to(REPOSITORY)}")
    told = len(story.steps) == 4 and all(step.as_told for step in story.steps)
    return 0 if told and seen.failed == 0 and seen.sent > 0 else 1


def _explain(story: Story) -> str:
    command = f"build/venv/bin/tailguard explain {SERVICE} -n {NAMESPACE}"
    return command + (f" --benchmark {story.rejected_benchmark}" if story.rejected_benchmark else "")


def _cluster_up() -> None:
    subprocess.run([sys.executable, "-m", "e2e.cluster", "up"], cwd=REPOSITORY, check=True)


def _fresh_namespace(kube: Kube) -> None:
    kube.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait", "--timeout=180s")
    kube.kubectl("create", "namespace", NAMESPACE)


def _address(kube: Kube) -> str:
    """The Service's own address: names need a cluster DNS, which a local cluster may lack."""
    found = kube.get("service", SERVICE) or {}
    return str(found["spec"]["clusterIP"])


def _timed(phases: dict[str, float], name: str, act: Callable[[], None]) -> None:
    started = time.monotonic()
    _say(f"[bold]{name}[/bold]")
    act()
    phases[name] = time.monotonic() - started


def _say(text: str) -> None:
    console.print(f"[cyan]{time.strftime('%H:%M:%S')}[/cyan] {text}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KubeError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
