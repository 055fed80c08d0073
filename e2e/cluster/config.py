"""Configuration and command line of every daemon: pure, from the layout alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .layout import (
    CLUSTER_CIDR,
    DNS_ADDRESS,
    NODE,
    NODE_ADDRESS,
    PAUSE_IMAGE,
    POD_CIDR,
    SERVICE_CIDR,
    State,
)
from .namespaces import KUBELET_CGROUP
from .packages import CNI_PLUGINS

SYSTEM_MEMORY = "1536Mi"  # what the daemons of the cluster themselves need, so that a full node still schedules well


@dataclass(frozen=True)
class Daemon:
    """One part of the cluster: its name, which is its log's name too, and its command line."""

    name: str
    command: list[str]


def containerd_config(state: State) -> str:
    """containerd with everything of its own in the state folder."""
    return f"""version = 2
root = "{state.data}/containerd"
state = "{state.run}/containerd"
[grpc]
  address = "{state.containerd_socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/{PAUSE_IMAGE}"
  # Lowering oom_score_adj needs a capability that a container or a small machine may not have.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{state.config}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def cni_config(state: State) -> dict[str, Any]:
    """A bridge without a default route: a pod reaches the cluster's own networks and nothing else."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": f"{state.data}/cni",
            "ranges": [[{"subnet": POD_CIDR}]],
            "routes": [{"dst": CLUSTER_CIDR}],
        },
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def kubelet_config(state: State) -> dict[str, Any]:
    """kubelet on cgroup v1 or 2, under a cgroup of its own, with capacity as the machine has it."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "authentication": {"x509": {"clientCAFile": f"{state.pki}/ca.crt"}, "anonymous": {"enabled": False}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{state.pki}/kubelet.crt",
        "tlsPrivateKeyFile": f"{state.pki}/kubelet.key",
        "containerRuntimeEndpoint": f"unix://{state.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{KUBELET_CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "podLogsDir": f"{state.logs}/pods",
        "systemReserved": {"memory": SYSTEM_MEMORY},
        "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        # A short lease shows within seconds whether a node lives or etcd only remembers it.
        "nodeLeaseDurationSeconds": 12,
        "nodeStatusUpdateFrequency": "5s",
        "maxPods": 100,
    }


def proxy_config(state: State) -> dict[str, Any]:
    """kube-proxy with nftables; the zeroes leave the machine's conntrack sysctls alone."""
    conntrack = {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": POD_CIDR,
        "hostnameOverride": NODE,
        "clientConnection": {"kubeconfig": f"{state.config}/proxy.kubeconfig"},
        "conntrack": conntrack,
        "metricsBindAddress": "127.0.0.1:10249",
        "healthzBindAddress": "127.0.0.1:10256",
    }


def corefile(state: State) -> str:
    """Names of Services from the API server; nothing else has an answer."""
    return f"""cluster.local:53 in-addr.arpa:53 {{
  bind {NODE_ADDRESS}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {state.config}/dns.kubeconfig
    ttl 5
  }}
  cache 5
}}
.:53 {{
  bind {NODE_ADDRESS}
  template ANY ANY {{
    rcode NXDOMAIN
  }}
}}
"""


def dns_objects() -> list[dict[str, Any]]:
    """The Service that pods ask, with CoreDNS's address on the node as its only endpoint."""
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": DNS_ADDRESS, "ports": ports},
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kube-dns-node",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "kube-dns"},
        },
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": [{"addresses": [NODE_ADDRESS], "conditions": {"ready": True}}],
    }
    return [service, endpoints]


def files(state: State) -> dict[Path, str]:
    """Every configuration file and its content."""
    return {
        state.config / "containerd.toml": containerd_config(state),
        state.config / "cni" / "10-pods.conflist": json.dumps(cni_config(state), indent=1),
        state.config / "kubelet.yaml": yaml.safe_dump(kubelet_config(state)),
        state.config / "proxy.yaml": yaml.safe_dump(proxy_config(state)),
        state.config / "Corefile": corefile(state),
    }


def etcd(state: State) -> Daemon:
    """etcd without fsync: the state does not outlive the cluster."""
    return Daemon("etcd", [
        "etcd", "--data-dir", f"{state.data}/etcd", "--unsafe-no-fsync", "--log-outputs=stderr",
        "--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
    ])  # fmt: skip


def containerd(state: State) -> Daemon:
    return Daemon("containerd", ["containerd", "--config", f"{state.config}/containerd.toml"])


def api_server(state: State, programs: Path) -> Daemon:
    """The API server on the node's address, where pods reach it as Service `kubernetes`."""
    pki = state.pki
    return Daemon("kube-apiserver", [
        f"{programs}/kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
        f"--bind-address={NODE_ADDRESS}", f"--advertise-address={NODE_ADDRESS}", "--secure-port=6443",
        f"--service-cluster-ip-range={SERVICE_CIDR}", "--allow-privileged=true", "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/service-accounts.pub",
        f"--service-account-signing-key-file={pki}/service-accounts.key",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={pki}/apiserver-kubelet.crt",
        f"--kubelet-client-key={pki}/apiserver-kubelet.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
    ])  # fmt: skip


def workers(state: State, programs: Path) -> list[Daemon]:
    """What is started once the API server answers."""
    config = state.config
    return [
        Daemon("kube-controller-manager", [
            f"{programs}/kube-controller-manager", f"--kubeconfig={config}/controller-manager.kubeconfig",
            f"--service-account-private-key-file={state.pki}/service-accounts.key",
            f"--root-ca-file={state.pki}/ca.crt", "--use-service-account-credentials", "--leader-elect=false",
            "--bind-address=127.0.0.1",
        ]),
        Daemon("kube-scheduler", [
            f"{programs}/kube-scheduler", f"--kubeconfig={config}/scheduler.kubeconfig", "--leader-elect=false",
            "--bind-address=127.0.0.1",
        ]),
        Daemon("kubelet", [
            f"{programs}/kubelet", f"--config={config}/kubelet.yaml", f"--kubeconfig={config}/kubelet.kubeconfig",
            f"--root-dir={state.data}/kubelet", f"--hostname-override={NODE}", f"--node-ip={NODE_ADDRESS}",
        ]),
        Daemon("kube-proxy", [f"{programs}/kube-proxy", f"--config={config}/proxy.yaml"]),
        Daemon("coredns", [f"{programs}/coredns", "-conf", f"{config}/Corefile"]),
    ]  # fmt: skip
