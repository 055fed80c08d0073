"""Entry point of the `tailguard` command.

Exit codes: 0 done; 1 the verdict differs, or the cluster refused; 3 no data: no baseline, no samples, nothing to tell.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tailguard_operator.api import GROUP
from tailguard_runtime.cli.cluster import ClusterError, NotFoundError, Reader

NO_DATA = 3

app = typer.Typer(no_args_is_help=True, add_completion=False, help="LLM services that prove their tail latency.")
console = Console(highlight=False)

Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace; the context's if not said.")]
Context = Annotated[
    str | None, typer.Option("--context", help="Context of the kubeconfig; the current one if not said.")
]
Service = Annotated[str, typer.Argument(help="Name of the InferenceService.")]


@app.command()
def get(namespace: Namespace = None, context: Context = None) -> None:
    """List the services of a namespace with what was decided last."""
    with _explained():
        services = Reader.connect(context, namespace).all("inferenceservices")
    table = Table(box=None)
    for column in ("NAME", "READY", "STABLE", "CANARY", "VERDICT", "P99", "MESSAGE"):
        table.add_column(column, overflow="fold" if column == "MESSAGE" else "ellipsis")
    for service in services:
        table.add_row(*_row(service))
    console.print(table)


@app.command()
def explain(
    service: Service,
    benchmark: Annotated[str | None, typer.Option(help="The Benchmark to explain; the last one if not said.")] = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Say why the last change was decided as it was, from the stored samples."""
    from tailguard_runtime.cli.explain import chosen_benchmark, show
    from tailguard_runtime.judge import SampleFormatError, SpecError

    with _explained():
        reader = Reader.connect(context, namespace)
        found = reader.one("inferenceservices", service)
        name = benchmark or chosen_benchmark(found)
        measured = _optional(reader, name)
        if benchmark and measured is None:
            raise NotFoundError(f"Benchmark {benchmark} does not exist in namespace {reader.namespace}")
        slots = _samples(reader, name) if measured else []
    try:
        show(console, found, measured, slots)
    except (SampleFormatError, SpecError) as error:
        console.print(f"[red]error:[/red] the samples of {name} can't be read: {error}")
        raise typer.Exit(1) from error
    if not slots:
        console.print("nothing has been measured that could be explained")
        raise typer.Exit(NO_DATA)


@app.command()
def replay(
    benchmark: Annotated[str, typer.Argument(help="Name of the Benchmark.")],
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Recompute a verdict from the stored samples: the same verdict, or exit code 1."""
    from tailguard_runtime.cli.replay import replay as again
    from tailguard_runtime.judge import SampleFormatError, SpecError, VerdictFormatError

    with _explained():
        reader = Reader.connect(context, namespace)
        measured = reader.one("benchmarks", benchmark)
        slots = reader.samples(benchmark)
    try:
        result = again(measured, slots)
    except (SampleFormatError, SpecError, VerdictFormatError) as error:
        console.print(f"[red]error:[/red] {error}")
        raise typer.Exit(1) from error
    console.print(f"{result.again.outcome} after {result.again.requests} requests: {result.again.message}")
    if result.differences:
        for difference in result.differences:
            console.print(f"[red]differs[/red] {difference}")
        raise typer.Exit(1)
    console.print(f"the same verdict as the stored one, from {len(slots)} slots")


@app.command()
def promote(service: Service, namespace: Namespace = None, context: Context = None) -> None:
    """Move users to a held change, against its verdict; in the time after a promotion, end that time."""
    _command("promote", service, namespace, context)


@app.command()
def abort(service: Service, namespace: Namespace = None, context: Context = None) -> None:
    """End a change and remember it as aborted."""
    _command("abort", service, namespace, context)


@app.command()
def retry(service: Service, namespace: Namespace = None, context: Context = None) -> None:
    """Try a rejected, aborted or held change again."""
    _command("retry", service, namespace, context)


def _command(name: str, service: str, namespace: str | None, context: str | None) -> None:
    token = f"{getpass.getuser()}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    with _explained():
        Reader.connect(context, namespace).annotate(service, f"{GROUP}/{name}", token)
    console.print(f"{name} is asked for ({token}); `tailguard explain {service}` tells what came of it")


def _row(service: dict[str, object]) -> tuple[str, ...]:
    status, metadata = service.get("status") or {}, service["metadata"]
    assert isinstance(status, dict) and isinstance(metadata, dict)
    conditions = {c["type"]: c for c in status.get("conditions") or []}
    ready, complete = conditions.get("Ready", {}), conditions.get("RolloutComplete", {})
    stable = (status.get("stable") or {}).get("revision", "")
    columns = (stable, status.get("canary"), status.get("verdict"), status.get("p99"))
    told = complete.get("message") or ready.get("message", "")
    return str(metadata["name"]), ready.get("status", "Unknown"), *[str(c or "") for c in columns], told


def _optional(reader: Reader, name: str | None) -> dict[str, object] | None:
    try:
        return reader.one("benchmarks", name) if name else None
    except NotFoundError:
        return None


def _samples(reader: Reader, name: str | None) -> list[bytes]:
    try:
        return reader.samples(name) if name else []
    except ClusterError as error:
        console.print(f"[yellow]{error}[/yellow]")
        return []


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except NotFoundError as error:
        console.print(f"[red]error:[/red] {error}")
        raise typer.Exit(NO_DATA) from error
    except ClusterError as error:
        console.print(f"[red]error:[/red] {error}")
        raise typer.Exit(1) from error
