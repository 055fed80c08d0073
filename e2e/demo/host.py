"""`make run`: the operator's code on this host against the cluster; the pod of it steps aside meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from e2e.demo.install import NAMESPACE, RELEASE, install
from e2e.demo.kube import Kube


def main() -> int:
    """Runs until interrupted; then the pod takes over again."""
    kube = Kube.of(NAMESPACE)
    install(kube)
    stored = kube.get("configmap", f"{RELEASE}-installation") or {}
    with tempfile.TemporaryDirectory() as folder:
        installation = Path(folder) / "installation.yaml"
        installation.write_text(stored["data"]["installation.yaml"])
        kube.kubectl("scale", "deployment", RELEASE, "--replicas=0")
        try:
            return _operator(kube, installation)
        finally:
            kube.kubectl("scale", "deployment", RELEASE, "--replicas=1")


def _operator(kube: Kube, installation: Path) -> int:
    command = [sys.executable, "-m", "tailguard_operator.main", "--installation", str(installation)]
    command += ["--lease-namespace", NAMESPACE, "--host", "127.0.0.1"]
    try:
        return subprocess.run(command, env={**os.environ, "KUBECONFIG": str(kube.kubeconfig)}).returncode
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
