"""kubectl and helm against exactly one context, with JSON in and out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster.layout import State


class KubeError(RuntimeError):
    """kubectl or helm refused; the message is theirs."""


@dataclass(frozen=True)
class Kube:
    """The cluster of the demo: the local one, or the user's when KUBECONTEXT names it."""

    kubeconfig: Path
    programs: Path | None
    namespace: str

    @classmethod
    def of(cls, namespace: str) -> Kube:
        """The cluster that `make cluster-up` has prepared."""
        state = State()
        own = bool(os.environ.get("KUBECONTEXT"))
        return cls(state.kubeconfig, None if own else state.bin, namespace)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints.

        Raises:
            KubeError: it exits with anything but 0.
        """
        return self._run("kubectl", "--namespace", self.namespace, *arguments, stdin=stdin)

    def helm(self, *arguments: str) -> str:
        """What helm prints.

        Raises:
            KubeError: it exits with anything but 0.
        """
        return self._run("helm", *arguments)

    def apply(self, *objects: dict[str, Any]) -> None:
        """`kubectl apply` of the objects, as a user does it."""
        manifest = "\n---\n".join(json.dumps(o) for o in objects)
        self.kubectl("apply", "-f", "-", stdin=manifest)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """The object, or None when there is none."""
        text = self.kubectl("get", kind, name, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else None

    def list(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        """The objects that the label selector finds."""
        items: list[dict[str, Any]] = json.loads(self.kubectl("get", kind, "-l", selector, "-o", "json"))["items"]
        return items

    def _run(self, program: str, *arguments: str, stdin: str | None = None) -> str:
        path = self.programs / program if self.programs else shutil.which(program)
        if path is None:
            raise KubeError(f"{program} is not on the PATH: install it, since KUBECONTEXT names your own cluster")
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run([path, *arguments], input=stdin, text=True, capture_output=True, env=environment)
        if done.returncode != 0:
            raise KubeError(f"{program} {' '.join(arguments[:6])}: {done.stderr.strip()[-2000:]}")
        return done.stdout
