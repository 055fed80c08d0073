"""Configuration of the daemons: everything of the cluster's own lies in its state folder."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import yaml
from e2e.cluster import config, layout
from e2e.cluster.layout import State
from e2e.cluster.pki import IDENTITIES, extensions
from e2e.cluster.programs import linker_flags

STATE = State(Path("/state"))


def test_networks_lie_in_the_benchmark_range_and_do_not_overlap() -> None:
    # Given the cluster's networks
    whole = ipaddress.IPv4Network(layout.CLUSTER_CIDR)
    pods, services = ipaddress.IPv4Network(layout.POD_CIDR), ipaddress.IPv4Network(layout.SERVICE_CIDR)
    host = ipaddress.IPv4Interface(layout.HOST_ADDRESS).network
    # Then they are apart, and every address lies where the route of the pods leads
    assert not pods.overlaps(services)
    assert not host.overlaps(pods)
    assert pods.subnet_of(whole)
    assert services.subnet_of(whole)
    assert ipaddress.IPv4Address(layout.NODE_ADDRESS) in whole
    assert ipaddress.IPv4Address(layout.INSIDE_ADDRESS) in host
    for address in (layout.API_SERVICE_ADDRESS, layout.DNS_ADDRESS):
        assert ipaddress.IPv4Address(address) in services


def test_pods_have_no_default_route() -> None:
    # Given the pods' network, Then its only route stays inside the cluster's range
    bridge = config.cni_config(STATE)["plugins"][0]
    assert bridge["ipam"]["routes"] == [{"dst": layout.CLUSTER_CIDR}]
    assert "ipMasq" not in bridge


def test_no_daemon_writes_outside_the_state_folder() -> None:
    # Given every flag and setting that names a folder to write to
    kubelet = yaml.safe_load(config.files(STATE)[STATE.config / "kubelet.yaml"])
    flags = [
        word for daemon in [config.etcd(STATE), *config.workers(STATE, Path("/programs"))] for word in daemon.command
    ]
    # Then each lies in the state folder
    assert kubelet["podLogsDir"] == "/state/logs/pods"
    assert "--root-dir=/state/data/kubelet" in flags
    assert flags[flags.index("--data-dir") + 1] == "/state/data/etcd"
    containerd = config.containerd_config(STATE)
    assert 'root = "/state/data/containerd"' in containerd
    assert 'state = "/state/run/containerd"' in containerd


def test_kubelet_has_a_cgroup_of_its_own() -> None:
    # A kubelet at the root would rewrite another kubelet's limits.
    assert config.kubelet_config(STATE)["cgroupRoot"] == "/tailguard-local"


def test_the_api_servers_certificate_names_every_address_it_is_called_by() -> None:
    names = extensions(next(identity for identity in IDENTITIES if identity.name == "apiserver"))
    for name in (layout.NODE_ADDRESS, layout.API_SERVICE_ADDRESS, "127.0.0.1", "kubernetes.default.svc"):
        assert name in names


def test_builds_report_their_version() -> None:
    assert "-X k8s.io/component-base/version.gitVersion=v1.34.4" in linker_flags()
    assert "-X k8s.io/component-base/version.gitMinor=34" in linker_flags()
