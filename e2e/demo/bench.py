"""`make bench-demo`: seconds of each phase of the demo, cold and warm; memory and API calls of the operator.

The warm figures are of the run made here. The cold ones (nothing cached, no cluster) are of the run that
`COLD=1 make bench-demo` makes first, since it has to build Kubernetes and takes long; without it they are left out.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from e2e.cluster.layout import KUBERNETES_VERSION, REPOSITORY, VLLM_VERSION
from e2e.demo import report
from e2e.demo.install import NAMESPACE, RELEASE
from e2e.demo.kube import Kube

RESULT = REPOSITORY / "build" / "bench" / "demo.json"
SUMMARY = REPOSITORY / "build" / "demo" / "summary.json"
METRICS_PORT = 9090
LIMITS = {"warm demo": 720.0, "cold demo": 1200.0, "integration suite": 300.0}


def main() -> int:
    """Measures; 0 when it could, whether or not the targets hold."""
    figures: dict[str, Any] = {}
    if os.environ.get("COLD"):
        figures["cold"] = _cold_demo()
    figures["warm"] = _demo({})
    figures["operator"] = _operator()
    figures["integration suite"] = _seconds(["make", "integration"])
    targets = list(_targets(figures))
    data = {"figures": figures, "versions": _versions(), "machine": _machine(), "targets": targets}
    report.write(RESULT, data)
    Console().print(_table(figures, targets))
    return 0


def _cold_demo() -> dict[str, Any]:
    """The demo with an empty cache and no cluster."""
    subprocess.run([sys.executable, "-m", "e2e.cluster", "down"], cwd=REPOSITORY, check=True)
    with tempfile.TemporaryDirectory() as cache:
        try:
            return _demo({"TAILGUARD_CACHE": cache, "GOCACHE": f"{cache}/go-build", "UV_CACHE_DIR": f"{cache}/uv"})
        finally:
            subprocess.run([sys.executable, "-m", "e2e.cluster", "down"], cwd=REPOSITORY, check=True)


def _demo(environment: dict[str, str]) -> dict[str, Any]:
    shutil.rmtree(SUMMARY.parent, ignore_errors=True)
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "e2e.demo"], cwd=REPOSITORY, env={**os.environ, **environment})
    seconds = time.monotonic() - started
    told = json.loads(SUMMARY.read_text()) if SUMMARY.exists() else {"steps": [], "phases": {}}
    steps = {step["name"]: step["seconds"] for step in told["steps"]}
    return {"seconds": round(seconds, 1), "exit": done.returncode, "phases": told["phases"] | steps}


def _operator() -> dict[str, float]:
    """Resident memory and API calls a reconcile, by the operator's own metrics."""
    kube = Kube.of(NAMESPACE)
    pod = kube.list("pods", f"app.kubernetes.io/instance={RELEASE}")[0]["metadata"]["name"]
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:{METRICS_PORT}/proxy/metrics"
    text = kube.kubectl("get", "--raw", path)
    calls, passes = (_value(text, f"tailguard_reconcile_api_requests_{part}") for part in ("sum", "count"))
    return {
        "resident MB": round(_value(text, "process_resident_memory_bytes") / 1e6, 1),
        "reconciles": passes,
        "API calls a reconcile": round(calls / passes, 2) if passes else 0.0,
        "CPU seconds": round(_value(text, "process_cpu_seconds_total"), 1),
    }


def _value(text: str, name: str) -> float:
    found = re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+-]+)$", text, re.MULTILINE)
    return sum(map(float, found))


def _seconds(command: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(command, cwd=REPOSITORY, check=True)
    return round(time.monotonic() - started, 1)


def _targets(figures: dict[str, Any]) -> Any:
    found = {
        "warm demo": figures["warm"]["seconds"],
        "cold demo": figures.get("cold", {}).get("seconds"),
        "integration suite": figures["integration suite"],
    }
    for name, limit in LIMITS.items():
        value = found[name]
        if value is not None:
            yield {"name": name, "value": value, "unit": "s", "limit": limit, "holds": value <= limit}


def _versions() -> dict[str, str]:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True).stdout.strip()
    return {
        "commit": commit,
        "kubernetes": KUBERNETES_VERSION,
        "vllm": VLLM_VERSION,
        "python": platform.python_version(),
    }


def _machine() -> dict[str, str]:
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {"cpu": names[0] if names else "", "cores": str(os.cpu_count()), "kernel": platform.release()}


def _table(figures: dict[str, Any], targets: list[dict[str, Any]]) -> Table:
    table = Table(title="make bench-demo")
    for name in ("figure", "value", "limit"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    for run in ("cold", "warm"):
        for phase, seconds in figures.get(run, {}).get("phases", {}).items():
            table.add_row(f"{run}: {phase}", f"{seconds:.0f} s", "")
    for name, value in figures["operator"].items():
        table.add_row(f"operator: {name}", f"{value:g}", "")
    for target in targets:
        mark = "green" if target["holds"] else "red"
        table.add_row(target["name"], f"[{mark}]{target['value']:.0f} s[/{mark}]", f"{target['limit']:.0f} s")
    return table


if __name__ == "__main__":
    sys.exit(main())
