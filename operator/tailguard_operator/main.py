"""The operator as a process: `python -m tailguard_operator.main`.

The judge's worker process imports this module too (that is how Python spawns), so nothing heavy is imported at its top.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailguard_operator.cluster.client import Cluster
    from tailguard_operator.cluster.settings import Settings

DEFAULT_INSTALLATION = "/etc/tailguard/installation.yaml"


def run(settings: "Settings", wrap: "Callable[[Cluster], Cluster]" = lambda cluster: cluster) -> int:
    """Run an operator until it is told to end, or loses the Lease; the process's exit status.

    Args:
        settings: how to run.
        wrap: put around the connection to the cluster, below everything that reads or writes; for tests of what
            happens when the process dies at a certain request.
    """
    from tailguard_operator.cluster.process import Process

    return asyncio.run(Process(settings, wrap).run())


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the process's exit status."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("httpx", "kopf"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    from tailguard_operator.api import InvalidObject

    try:
        return run(_settings(options))
    except (OSError, InvalidObject, ValueError) as error:
        print(f"tailguard operator: {error}", file=sys.stderr)
        return 2


def _settings(options: argparse.Namespace) -> "Settings":
    from tailguard_operator.cluster.leader import LeaseSettings
    from tailguard_operator.cluster.settings import Settings, new_identity, read_installation

    installation = read_installation(options.installation)
    lease = LeaseSettings(
        namespace=options.lease_namespace or installation.namespace,
        duration=options.lease_seconds,
        renew_deadline=options.lease_seconds * 2 / 3,
        retry=options.lease_seconds * 2 / 15,
    )
    return Settings(
        installation=installation,
        lease=lease,
        namespace=options.namespace,
        kubeconfig=options.kubeconfig,
        context=options.context,
        identity=options.identity or new_identity(),
        workers=options.workers,
        host=options.host,
        health_port=options.health_port,
        metrics_port=options.metrics_port,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tailguard-operator",
        description="Runs the Tailguard operator. Every option can be set by the variable TAILGUARD_OPTION.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )

    def option(name: str, kind: Callable[[str], object], default: object, text: str, variable: str = "") -> None:
        value = os.environ.get("TAILGUARD_" + name.upper().replace("-", "_")) or os.environ.get(variable)
        parser.add_argument(f"--{name}", type=kind, default=kind(value) if value else default, help=text)

    option("installation", Path, Path(DEFAULT_INSTALLATION), "installation file: engine profiles and images")
    option("namespace", str, None, "the one namespace to look after; all if not said")
    option("kubeconfig", Path, None, "kubeconfig; a pod's account or the default file if not said", "KUBECONFIG")
    option("context", str, None, "context of the kubeconfig; its current one if not said")
    option("lease-namespace", str, None, "namespace of the Lease; the installation's if not said", "POD_NAMESPACE")
    option("lease-seconds", int, 15, "how long the Lease is valid after a renewal")
    option("identity", str, None, "unique name in the Lease; made up if not said", "POD_NAME")
    option("workers", int, 8, "services that are looked at at the same time")
    option("host", str, "0.0.0.0", "address that health and metrics are served on")
    option("health-port", int, 8080, "port of /healthz")
    option("metrics-port", int, 9090, "port of /metrics")
    option("log-level", str, "info", "debug, info, warning or error")
    return parser


if __name__ == "__main__":
    sys.exit(main())
