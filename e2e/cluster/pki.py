"""One certificate authority, and a certificate for each part of the control plane, made by openssl."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from .layout import API_SERVER, API_SERVICE_ADDRESS, CLUSTER_NAME, NODE, NODE_ADDRESS
from .progress import call

DAYS = "30"


@dataclass(frozen=True)
class Identity:
    """A certificate: who it speaks for (`subject` in openssl's form) and under which names it serves."""

    name: str
    subject: str
    serves: tuple[str, ...] = field(default=())


IDENTITIES = (
    Identity(
        "apiserver",
        "/CN=kube-apiserver",
        (
            "DNS:kubernetes.default.svc",
            "DNS:kubernetes.default",
            "DNS:kubernetes",
            "DNS:kubernetes.default.svc.cluster.local",
            "IP:127.0.0.1",
            f"IP:{NODE_ADDRESS}",
            f"IP:{API_SERVICE_ADDRESS}",
        ),
    ),
    Identity("apiserver-kubelet", "/O=system:masters/CN=kube-apiserver-kubelet-client"),
    Identity("admin", "/O=system:masters/CN=admin"),
    Identity("controller-manager", "/CN=system:kube-controller-manager"),
    Identity("scheduler", "/CN=system:kube-scheduler"),
    Identity("proxy", "/CN=system:kube-proxy"),
    Identity("kubelet", f"/O=system:nodes/CN=system:node:{NODE}", (f"DNS:{NODE}", f"IP:{NODE_ADDRESS}")),
)


def extensions(identity: Identity) -> str:
    """The extension section of a certificate, in openssl's configuration language."""
    usage = "clientAuth,serverAuth" if identity.serves else "clientAuth"
    lines = [f"extendedKeyUsage={usage}", "keyUsage=digitalSignature,keyEncipherment"]
    if identity.serves:
        lines.append("subjectAltName=" + ",".join(identity.serves))
    return "\n".join(lines) + "\n"


def make_pki(folder: Path) -> None:
    """Write the authority, every identity's `.key` and `.crt`, and the service accounts' key pair."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    authority = folder / "ca"
    call(["openssl", "req", "-x509", *new_key, "-days", DAYS, "-subj", f"/CN={CLUSTER_NAME}-ca",
          "-keyout", f"{authority}.key", "-out", f"{authority}.crt"])  # fmt: skip
    for identity in IDENTITIES:
        sign(folder, identity, new_key)
    call(["openssl", "genrsa", "-out", folder / "service-accounts.key", "2048"])
    call(["openssl", "rsa", "-in", folder / "service-accounts.key", "-pubout", "-out", folder / "service-accounts.pub"])


def sign(folder: Path, identity: Identity, new_key: list[str]) -> None:
    """Make one identity's key and let the authority sign it."""
    base = folder / identity.name
    wishes = base.with_suffix(".ext")
    wishes.write_text(extensions(identity))
    call(["openssl", "req", *new_key, "-subj", identity.subject, "-keyout", f"{base}.key", "-out", f"{base}.csr"])
    call(["openssl", "x509", "-req", "-in", f"{base}.csr", "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key",
          "-CAcreateserial", "-days", DAYS, "-extfile", wishes, "-out", f"{base}.crt"])  # fmt: skip


def kubeconfig(folder: Path, identity: str) -> str:
    """A kubeconfig that holds its certificates itself, so that it works wherever it is copied."""

    def inline(name: str) -> str:
        return base64.b64encode((folder / name).read_bytes()).decode()

    user = {"client-certificate-data": inline(f"{identity}.crt"), "client-key-data": inline(f"{identity}.key")}
    cluster = {"server": API_SERVER, "certificate-authority-data": inline("ca.crt")}
    return json.dumps({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER_NAME, "cluster": cluster}],
        "users": [{"name": identity, "user": user}],
        "contexts": [{"name": CLUSTER_NAME, "context": {"cluster": CLUSTER_NAME, "user": identity}}],
        "current-context": CLUSTER_NAME,
    }, indent=1)  # fmt: skip


def write_kubeconfig(folder: Path, identity: str, out: Path) -> None:
    """Write a kubeconfig that only its owner reads."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.touch(mode=0o600)
    out.write_text(kubeconfig(folder, identity))
