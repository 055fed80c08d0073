"""The operator's process under test: start, stop, kill, pause; its log is kept."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.control_plane import REPOSITORY, ControlPlane
from harness.processes import tail

HARNESS = Path(__file__).resolve().parent
STOP_SECONDS = 15
LEASE_SECONDS = 3
IMAGE = f"local/vllm@sha256:{'1' * 64}"
"""With a digest, so that nobody asks a registry."""
QUICK = {
    "tailguard_operator.plan.desired.MEASURING_PERIOD": 0.2,
    "tailguard_operator.cluster.observe.NODES_SECONDS": 0.2,
}
"""Waits that tests shorten, always the same; all else runs as shipped."""


class Nursery:
    """The process that forks operators."""

    def __init__(self, folder: Path):
        paths = [HARNESS.parent, REPOSITORY / "operator", REPOSITORY / "runtime"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "OPENBLAS_NUM_THREADS": "1"}
        self._log = folder / "nursery.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-m", "harness.operator_child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        self._lock = threading.Lock()
        self._answer()

    def fork(self, request: dict[str, Any]) -> int:
        """Start an operator; its process id."""
        assert self._process.stdin
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return self._answer()

    def stop(self) -> None:
        """End it, and with it every operator that it started."""
        self._process.kill()
        self._process.wait()

    def _answer(self) -> int:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the operators' parent has ended; last lines of its log:\n{tail(self._log)}")
        pid: int = json.loads(line)["pid"]
        return pid


@dataclass
class Operator:
    """One operator process at a time under one identity; `start` may be called again after its end."""

    nursery: Nursery
    control_plane: ControlPlane
    namespace: str
    folder: Path
    installation: Path
    identity: str = "operator-a"
    constants: dict[str, Any] = field(default_factory=dict)
    _pid: int = 0
    _handle: int = -1

    def sibling(self, identity: str) -> "Operator":
        """An operator like this one under another name, not started yet."""
        mine = (self.nursery, self.control_plane, self.namespace, self.folder, self.installation)
        return Operator(*mine, identity, dict(self.constants))

    @property
    def log(self) -> Path:
        return self.folder / f"{self.identity}.log"

    @property
    def journal(self) -> Path:
        """Writes of the operators that were started with a fault."""
        return self.folder / f"{self.identity}.journal"

    @property
    def alive(self) -> bool:
        return self._handle >= 0 and not self._ended(0)

    def start(self, **fault: Any) -> "Operator":
        """Start it; `fault` as in `faults.install`."""
        environment = {"KUBECONFIG": str(self.control_plane.kubeconfig), "POD_NAME": self.identity}
        self._pid = self.nursery.fork(
            {
                "argv": self.options(),
                "env": environment,
                "log": str(self.log),
                "fault": {"journal": str(self.journal)} | fault if fault else None,
                "constants": QUICK | self.constants,
            }
        )
        self._handle = os.pidfd_open(self._pid)
        return self

    def stop(self) -> None:
        """SIGTERM as the kubelet sends it, and after a while SIGKILL."""
        self._signal(signal.SIGTERM)
        if self._handle >= 0 and not self._ended(STOP_SECONDS):
            self.kill()
            raise RuntimeError(f"the operator was still there {STOP_SECONDS} s after SIGTERM:\n{tail(self.log)}")
        self._forget()

    def kill(self) -> None:
        """SIGKILL."""
        self._signal(signal.SIGKILL)
        if self._handle >= 0:
            self._ended(STOP_SECONDS)
        self._forget()

    def pause(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def wait_until_ended(self, seconds: float) -> None:
        """Until the process has ended by itself.

        Raises:
            TimeoutError: it is still there.
        """
        if not self._ended(seconds):
            raise TimeoutError(f"the operator still runs after {seconds} s:\n{tail(self.log)}")
        self._forget()

    def wait_until_stopped(self, seconds: float) -> None:
        """Until the process has stopped itself before a write (`stop_before`).

        Raises:
            TimeoutError: it has not.
        """
        deadline = time.monotonic() + seconds
        while not (self.journal.exists() and '"stopped"' in self.journal.read_text()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the operator did not come to that write within {seconds} s:\n{tail(self.log)}")
            time.sleep(0.05)

    def options(self) -> list[str]:
        """The command line of `tailguard_operator.main`."""
        return [
            f"--installation={self.installation}",
            f"--namespace={self.namespace}",
            f"--lease-seconds={LEASE_SECONDS}",
            "--host=127.0.0.1",
            "--health-port=0",
            "--metrics-port=0",
        ]

    def _ended(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._handle], [], [], seconds)
        return bool(ready)

    def _signal(self, number: int) -> None:
        if self._handle >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def _forget(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1


def installation_file(folder: Path, namespace: str) -> Path:
    """An installation with one vLLM profile whose pods go to the namespace's own node."""
    from harness.fake_node import NODE_LABEL

    on_node = {"spec": {"nodeSelector": {NODE_LABEL: namespace}}}
    profile = {
        "type": "VLLM",
        "version": "0.32.0",
        "image": IMAGE,
        "resources": {"requests": {"memory": "1Gi"}},
        "template": on_node,
        "modelBytes": 1_000_000,
    }
    content = {
        "profiles": {"vllm-test": profile},
        "defaultProfile": "vllm-test",
        "runtimeImage": "local/runtime:1",
        "runtimeCommand": ["python3"],
        "jobTemplate": on_node,
        "namespace": namespace,
    }
    path = folder / "installation.yaml"
    path.write_text(json.dumps(content))
    return path
