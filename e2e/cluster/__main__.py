"""Command line of the local cluster: `python -m e2e.cluster up | down | status | prepare`."""

from __future__ import annotations

import os
import sys

import typer

from . import cluster, context
from .layout import State
from .progress import ClusterError, explain

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


def own_context() -> str:
    """Name of the user's context to use instead of the local cluster; empty for the local one."""
    return os.environ.get("KUBECONTEXT", "")


@app.command()
def prepare() -> None:
    """Install and build all that the cluster needs, without starting it."""
    cluster.prepare()


@app.command()
def up() -> None:
    """Start the cluster, or keep the living one."""
    if name := own_context():
        context.use_context(name, State())
    else:
        cluster.up(State())


@app.command()
def down() -> None:
    """End the cluster and remove all that it left."""
    if name := own_context():
        context.leave_context(name, State())
    else:
        cluster.down(State())


@app.command()
def status() -> None:
    """Show what runs; exit code 1 if the cluster is not alive."""
    if not cluster.status(State()):
        raise typer.Exit(1)


def main() -> None:
    try:
        app()
    except ClusterError as error:
        sys.exit(f"error: {explain(error)}")


if __name__ == "__main__":
    main()
