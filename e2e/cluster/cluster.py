"""The cluster as a whole: prepared, started, found alive, shown and ended."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import yaml

from . import config, engine, images, namespaces, pki, programs, values
from .cache import fingerprint, locked
from .layout import (
    NODE,
    PAUSE_IMAGE,
    PYTHON_IMAGE,
    REPOSITORY,
    Cores,
    State,
    cache_folder,
)
from .packages import ensure_packages
from .progress import ClusterError, call, say, step

START_SECONDS = 90
# kubelet renews its Lease every quarter of the Lease's 12 s; a machine under load gets some more.
LEASE_SECONDS = 15


@dataclass(frozen=True)
class Prepared:
    """All that is built once and kept in the cache."""

    programs: Path
    pause: Path
    engine_python: Path
    models: dict[str, Path]


def prepare() -> Prepared:
    """Install and build what is missing; the compiler and the download of vLLM run side by side."""
    ensure_packages()
    base = cache_folder()
    with ThreadPoolExecutor(2) as pool:
        go = pool.submit(programs.go_programs, base)
        python = engine.vllm_python(base)
        models = {variant.name: engine.model(base, python, variant) for variant in engine.VARIANTS}
        pause = programs.pause_program(base)
        return Prepared(go.result(), pause, python, models)


def identity(state: State, prepared: Prepared) -> str:
    """Hash of everything that makes a running cluster what it is: programs, configuration, commands, images."""
    daemons = [config.etcd(state), config.containerd(state), config.api_server(state, prepared.programs)]
    commands = [" ".join(daemon.command) for daemon in [*daemons, *config.workers(state, prepared.programs)]]
    archives = [images.archive(image) for image in own_images(prepared)]
    return fingerprint([*commands, *config.files(state).values(), namespaces.INIT, *archives])


def own_images(prepared: Prepared) -> list[images.Image]:
    """The images that the cluster starts with."""
    return [images.pause_image(PAUSE_IMAGE, prepared.pause), images.python_image(PYTHON_IMAGE)]


@dataclass
class Starting:
    """A cluster on its way up: knows its daemons, so that a wait ends as soon as the daemon has."""

    state: State
    handle: namespaces.Handle
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, daemon: config.Daemon) -> None:
        """Start a daemon without waiting for it."""
        self.running[daemon.name] = namespaces.start(self.handle, self.state, daemon.name, daemon.command)

    def wait(self, name: str, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition that a daemon brings about.

        Raises:
            ClusterError: the daemon ended, or the condition did not come true in time; carries the daemon's log.
        """

        def reached() -> bool:
            code = self.running[name].poll()
            if code is not None:
                raise ClusterError(f"{name} ended with {code}", self.state.log(name))
            return condition()

        namespaces.wait_until(reached, START_SECONDS, what, self.state.log(name))


class Kubectl:
    """Calls to the local cluster's API server as its administrator."""

    def __init__(self, state: State, programs_folder: Path) -> None:
        self._base: list[str | Path] = [
            programs_folder / "kubectl",
            f"--kubeconfig={state.config}/admin.kubeconfig",
            "--request-timeout=5s",
        ]

    def run(self, *arguments: str) -> str:
        return call([*self._base, *arguments])

    def succeeds(self, *arguments: str) -> bool:
        """Whether the call answers; for polling."""
        try:
            self.run(*arguments)
        except ClusterError:
            return False
        return True

    def apply(self, objects: list[dict[str, object]], folder: Path) -> None:
        """Server-side apply of a list of objects."""
        folder.mkdir(parents=True, exist_ok=True)
        manifest = folder / "objects.yaml"
        manifest.write_text(yaml.safe_dump_all(objects))
        self.run("apply", "--server-side", "-f", str(manifest))

    def node_lives(self, since: datetime) -> bool:
        """Whether the node renewed its Lease after a moment: Ready alone is only what etcd remembers."""
        try:
            node = json.loads(self.run("get", "node", NODE, "-o", "json"))
            lease = json.loads(self.run("-n", "kube-node-lease", "get", "lease", NODE, "-o", "json"))
        except ClusterError:
            return False
        return is_ready(node) and renewed(lease) > since


def is_ready(node: dict[str, object]) -> bool:
    """Whether a Node object says Ready."""
    status = node.get("status")
    conditions = status.get("conditions", []) if isinstance(status, dict) else []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def renewed(lease: dict[str, dict[str, str]]) -> datetime:
    """When a Lease object was renewed last."""
    return datetime.fromisoformat(lease["spec"]["renewTime"])


def alive(state: State, kubectl: Kubectl) -> bool:
    """Whether a cluster with this state folder runs now and its node renews its Lease."""
    if namespaces.find(state) is None or not kubectl.succeeds("get", "--raw", "/readyz"):
        return False
    since = datetime.now(UTC)
    try:
        namespaces.wait_until(lambda: kubectl.node_lives(since), LEASE_SECONDS, "a new Lease of the node")
    except ClusterError:
        return False
    return True


def start_daemons(state: State, prepared: Prepared, kubectl: Kubectl, cores: Cores) -> None:
    """From nothing to a Ready node, each step shown."""
    with step("certificates and configuration"):
        write_configuration(state)
    with step("namespaces and network"):
        starting = Starting(state, namespaces.create(state, cores.others))
    starting.start(config.etcd(state))
    starting.start(config.containerd(state))
    with step("etcd and API server"):
        starting.start(config.api_server(state, prepared.programs))
        starting.wait("kube-apiserver", lambda: kubectl.succeeds("get", "--raw", "/readyz"), "the API server")
    with step("containerd and images"):
        starting.wait("containerd", lambda: answers(state), "containerd")
        load(state, own_images(prepared))
    with step("controllers, kubelet, kube-proxy, CoreDNS"):
        for daemon in config.workers(state, prepared.programs):
            starting.start(daemon)
        kubectl.apply(config.dns_objects(), state.config / "dns")
        since = datetime.now(UTC)
        starting.wait("kubelet", lambda: kubectl.node_lives(since), "the node")
        accounts = ("-n", "default", "get", "serviceaccount", "default")
        starting.wait("kube-controller-manager", lambda: kubectl.succeeds(*accounts), "the default service account")
        for daemon in config.workers(state, prepared.programs):
            starting.wait(daemon.name, lambda: True, daemon.name)


def write_configuration(state: State) -> None:
    """All folders, certificates, kubeconfigs and configuration files."""
    for folder in (state.logs, state.run, state.data, state.config, state.bin):
        folder.mkdir(parents=True, exist_ok=True)
    pki.make_pki(state.pki)
    for name, owner in (
        ("admin", "admin"), ("dns", "admin"), ("controller-manager", "controller-manager"),
        ("scheduler", "scheduler"), ("kubelet", "kubelet"), ("proxy", "proxy"),
    ):  # fmt: skip
        pki.write_kubeconfig(state.pki, owner, state.config / f"{name}.kubeconfig")
    for path, content in config.files(state).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def ctr(state: State, *arguments: str) -> str:
    """Call containerd's own client in the namespace that kubelet uses."""
    return call(["ctr", "--address", str(state.containerd_socket), "--namespace", "k8s.io", *arguments])


def answers(state: State) -> bool:
    """Whether containerd answers."""
    try:
        ctr(state, "version")
    except ClusterError:
        return False
    return True


def load(state: State, wanted: list[images.Image]) -> None:
    """Make images and give them to containerd."""
    for image in wanted:
        tar = state.data / f"{image.name.replace('/', '-').replace(':', '-')}.tar"
        tar.write_bytes(images.archive(image))
        ctr(state, "images", "import", str(tar))
        tar.unlink()


def write_outputs(state: State, prepared: Prepared, cores: Cores) -> None:
    """What others use: kubeconfig, kubectl and helm, and the chart's values."""
    pki.write_kubeconfig(state.pki, "admin", state.kubeconfig)
    for name in ("kubectl", "helm"):
        link = state.bin / name
        link.unlink(missing_ok=True)
        link.symlink_to(prepared.programs / name)
    dev_python = REPOSITORY / "build" / "venv" / "bin" / "python"
    if not dev_python.exists():
        raise ClusterError(f"{dev_python} does not exist: make the development environment first with `make setup`")
    state.values.write_text(
        yaml.safe_dump(values.helm_values(dev_python, prepared.engine_python, prepared.models, cores), sort_keys=False)
    )


def up(state: State) -> None:
    """Bring the cluster up: one that lives and is what it should be is kept, any other is replaced."""
    started = time.monotonic()
    prepared = prepare()
    cores = Cores.of(os.sched_getaffinity(0))
    kubectl = Kubectl(state, prepared.programs)
    with locked(state.root.with_name(state.root.name + ".lock")):
        namespaces.refuse_foreign(state)
        mark = state.root / "identity"
        wanted = identity(state, prepared)
        if mark.exists() and mark.read_text() == wanted and alive(state, kubectl):
            say("the cluster is alive: kept")
        else:
            replace(state, prepared, kubectl, cores)
            mark.write_text(wanted)
        write_outputs(state, prepared, cores)
    say(f"cluster up after {time.monotonic() - started:.1f} s: export KUBECONFIG={state.kubeconfig}")


def replace(state: State, prepared: Prepared, kubectl: Kubectl, cores: Cores) -> None:
    """End and wipe whatever is there and start anew; a start that fails leaves only its logs."""
    with step("whatever was left of an earlier cluster removed"):
        namespaces.end(state)
        namespaces.wipe(state)
    try:
        start_daemons(state, prepared, kubectl, cores)
    except BaseException:
        namespaces.end(state)
        raise


def down(state: State) -> None:
    """End everything that up started and remove what it left."""
    with locked(state.root.with_name(state.root.name + ".lock")), step("local cluster removed"):
        namespaces.end(state)
        namespaces.wipe(state)


def status(state: State) -> bool:
    """Show what runs; True if the cluster is alive."""
    handle = namespaces.find(state)
    if handle is None:
        say("no local cluster runs; start one with `make cluster-up`")
        return False
    kubectl = Kubectl(state, state.bin.resolve())
    living = alive(state, kubectl)
    say(f"handle {handle.outer} (ending it ends the cluster), node {'Ready' if living else 'NOT ready'}")
    if living:
        say(kubectl.run("get", "node,pods", "--all-namespaces", "-o", "wide"))
    say(f"KUBECONFIG={state.kubeconfig}")
    return living
