"""Where the programs of the control plane come from: the local cluster's cache, built on first use."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster.layout import cache_folder
from e2e.cluster.packages import SYSTEM_PATH, ensure_packages
from e2e.cluster.programs import go_programs


def control_plane_binaries() -> Mapping[str, Path]:
    """etcd of the machine's package and Kubernetes built from source.

    Raises:
        ClusterError: a program can't be had; names what to install.
    """
    if shutil.which("etcd", path=SYSTEM_PATH) is None:
        ensure_packages()
    programs = go_programs(cache_folder())
    found = {name: programs / name for name in ("kube-apiserver", "kube-controller-manager")}
    return found | {"etcd": Path(str(shutil.which("etcd", path=SYSTEM_PATH)))}
