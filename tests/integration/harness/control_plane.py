"""A real etcd, kube-apiserver and kube-controller-manager on loopback, for the length of a test run."""

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import httpx
import yaml
from e2e.cluster.pki import make_pki

from harness.api import Api, Credentials
from harness.processes import Child, free_ports, tail

REPOSITORY = Path(__file__).resolve().parents[3]
START_SECONDS = 60
POLL_SECONDS = 0.05

# Only what the tests need: no scheduler, no node controllers (FakeKubelet plays both), no endpoints (its pods have
# loopback addresses, which no endpoint may have).
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
    "serviceaccount-controller",
    "garbage-collector-controller",
)


class ControlPlane:
    """Starts on construction; `stop` ends every process and removes all state."""

    def __init__(self, folder: Path, binaries: Mapping[str, Path]):
        self.folder, self._binaries = folder, binaries
        etcd, peer, self._port = free_ports(3)
        self._etcd_url, self._peer_url = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
        self._pki = folder / "pki"
        make_pki(self._pki)
        self.credentials = Credentials(
            f"https://127.0.0.1:{self._port}", *(self._pki / name for name in ("ca.crt", "admin.crt", "admin.key"))
        )
        self._children: dict[str, Child] = {}
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of the administrator, with one context."""
        return self.folder / "kubeconfig"

    def kill_api_server(self) -> None:
        """End the API server at once, as a crash of its machine would."""
        self._children.pop("kube-apiserver").kill()

    def start_api_server(self) -> None:
        """Start the API server on its port and wait until it is ready."""
        self._run("kube-apiserver", self._api_server_flags())
        self._wait("/readyz")

    def stop(self) -> None:
        """End everything; also called after a failed start."""
        if hasattr(self, "api"):
            self.api.close()
        for child in reversed([*self._children.values()]):
            child.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        self._write_kubeconfig()
        self._run("etcd", self._etcd_flags())
        self._run("kube-apiserver", self._api_server_flags())
        self.api = Api(self.credentials)
        self._wait("/readyz")
        self._run("kube-controller-manager", self._controller_manager_flags())
        self._install_crds()

    def _run(self, name: str, flags: list[str]) -> None:
        self._children[name] = Child(name, [self._binaries[name], *flags], self.folder / f"{name}.log")

    def _etcd_flags(self) -> list[str]:
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={self._peer_url}",
            f"--initial-advertise-peer-urls={self._peer_url}",
            f"--initial-cluster=default={self._peer_url}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _api_server_flags(self) -> list[str]:
        pki = self._pki
        return [
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=198.19.0.0/16",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki / 'service-accounts.pub'}",
            f"--service-account-signing-key-file={pki / 'service-accounts.key'}",
            "--profiling=false",
        ]

    def _controller_manager_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={self._pki / 'service-accounts.key'}",
            f"--root-ca-file={self._pki / 'ca.crt'}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--controllers={','.join(CONTROLLERS)}",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ]

    def _write_kubeconfig(self) -> None:
        user = {"client-certificate": str(self.credentials.certificate), "client-key": str(self.credentials.key)}
        cluster = {"server": self.credentials.url, "certificate-authority": str(self.credentials.authority)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "admin", "user": user}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
            "current-context": "tests",
        }
        self.kubeconfig.write_text(json.dumps(config))

    def _wait(self, path: str) -> None:
        """Until the API server answers `path` with 200."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for child in self._children.values():
                child.check()
            try:
                if self.api.raw("GET", path).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(POLL_SECONDS)
        log = self.folder / "kube-apiserver.log"
        raise TimeoutError(f"{path} is not 200 after {START_SECONDS} s; last lines of {log}:\n{tail(log)}")

    def _install_crds(self) -> None:
        files = sorted((REPOSITORY / "crds").glob("*.yaml"))
        if not files:
            raise RuntimeError("crds/ holds no file: run `make crds`")
        for file in files:
            body = yaml.safe_load(file.read_text())
            self.api.create("CustomResourceDefinition", "", body)
            group, version, names = body["spec"]["group"], body["spec"]["versions"][0]["name"], body["spec"]["names"]
            self._wait(f"/apis/{group}/{version}/{names['plural']}")


def wait_for_controllers(api: Api, seconds: float = START_SECONDS) -> None:
    """Until the controller manager works: a new namespace gets its service account."""
    api.create("Namespace", "", {"metadata": {"name": "tailguard-tests"}})
    deadline = time.monotonic() + seconds
    while api.get("ServiceAccount", "tailguard-tests", "default") is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no service account after {seconds} s: kube-controller-manager does not work")
        time.sleep(POLL_SECONDS)
