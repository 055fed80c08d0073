"""Kubernetes, helm, CoreDNS and pause, built from source modules into the cache."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .cache import cached, fingerprint
from .layout import HELM_VERSION, KUBERNETES_VERSION, SOURCES
from .progress import ClusterError, call

GO_SOURCES = SOURCES / "go"
CLIENT_VERSION = "k8s.io/client-go/pkg/version"
HELM = "helm.sh/helm/v3"
COMPONENT_VERSION = "k8s.io/component-base/version"
KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)
PAUSE_SOURCE = """#include <signal.h>
#include <unistd.h>
/* Holds a pod's namespaces: sleeps until it is told to end. */
static void finish(int signal_number) { (void)signal_number; _exit(0); }
int main(void) {
  signal(SIGTERM, finish);
  signal(SIGINT, finish);
  signal(SIGCHLD, SIG_IGN); /* orphans of a shared process namespace end here: reaped by the kernel */
  for (;;) pause();
}
"""


def linker_flags() -> str:
    """Versions that a build from a module would otherwise report as v0.0.0-master, or, in helm, as Kubernetes 1.20."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    values = {
        f"{COMPONENT_VERSION}.gitVersion": f"v{KUBERNETES_VERSION}",
        f"{COMPONENT_VERSION}.gitMajor": major,
        f"{COMPONENT_VERSION}.gitMinor": minor,
        f"{CLIENT_VERSION}.gitVersion": f"v{KUBERNETES_VERSION}",
        f"{HELM}/internal/version.version": f"v{HELM_VERSION}",
        f"{HELM}/pkg/chartutil.k8sVersionMajor": major,
        f"{HELM}/pkg/chartutil.k8sVersionMinor": minor,
    }
    return "-s -w " + " ".join(f"-X {name}={value}" for name, value in values.items())


def packages() -> list[str]:
    """The Go packages to build, in one call, so that they share compiled packages."""
    kubernetes = [f"k8s.io/kubernetes/cmd/{name}" for name in KUBERNETES_PROGRAMS]
    return [*kubernetes, f"{HELM}/cmd/helm", "./coredns"]


def go_programs(base: Path) -> Path:
    """Folder with every Go program; about seven minutes on two cores the first time."""
    go = shutil.which("go")
    if go is None:
        raise ClusterError("go is not installed: the local cluster is built from source and needs Go 1.26 or later")
    sources = sorted(path for path in GO_SOURCES.rglob("*") if path.is_file())
    key = fingerprint([call([go, "version"]), linker_flags(), *packages(), *sources])

    def build(out: Path) -> None:
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}
        command = [go, "build", "-trimpath", "-ldflags", linker_flags(), "-o", f"{out}/", *packages()]
        call(command, out / "build.log", env=environment, cwd=GO_SOURCES)

    title = f"kubernetes {KUBERNETES_VERSION}, helm {HELM_VERSION} and CoreDNS built from source (once)"
    return cached(base, "go", key, title, build)


def pause_program(base: Path) -> Path:
    """The static program that holds a pod's namespaces."""
    flags = ["-Os", "-static", "-s", "-Wall", "-Werror"]

    def build(out: Path) -> None:
        source = out / "pause.c"
        source.write_text(PAUSE_SOURCE)
        call(["gcc", *flags, "-o", out / "pause", source])

    return cached(base, "pause", fingerprint([PAUSE_SOURCE, *flags]), "pause compiled (once)", build) / "pause"
