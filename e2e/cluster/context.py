"""A cluster of the user's own, named by KUBECONTEXT: it is looked at, and nothing is created or removed."""

from __future__ import annotations

import shutil
from pathlib import Path

from .layout import State, cache_folder
from .programs import go_programs
from .progress import ClusterError, call, say, step


def kubectl_program() -> Path:
    """The user's kubectl, or ours where there is none."""
    own = shutil.which("kubectl")
    return Path(own) if own else go_programs(cache_folder()) / "kubectl"


def use_context(name: str, state: State) -> None:
    """Write the cluster's kubeconfig with this one context of the user's kubeconfig, and check that it answers.

    Raises:
        ClusterError: the context does not exist or its API server does not answer; no kubeconfig is left.
    """
    kubectl = kubectl_program()
    state.root.mkdir(parents=True, exist_ok=True)
    state.kubeconfig.unlink(missing_ok=True)
    with step(f"context {name} of your kubeconfig"):
        only = call([kubectl, "config", "view", f"--context={name}", "--minify", "--flatten", "--raw", "-o", "json"])
        state.kubeconfig.touch(mode=0o600)
        state.kubeconfig.write_text(only)
        try:
            call([kubectl, f"--kubeconfig={state.kubeconfig}", "--request-timeout=10s", "get", "--raw", "/version"])
        except ClusterError:
            state.kubeconfig.unlink()
            raise
    say(f"using your context {name}: KUBECONFIG={state.kubeconfig}")


def leave_context(name: str, state: State) -> None:
    """Forget the context; the user's cluster is never touched."""
    state.kubeconfig.unlink(missing_ok=True)
    say(f"context {name} is yours: nothing was removed from it")
