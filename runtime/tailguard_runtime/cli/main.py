"""Entry point of the `tailguard` command.

Exit codes: 0 done; 1 the verdict differs, the samples are not those that were stored, or the cluster refused; 2 the
command line is wrong; 3 no data: no such object, no baseline, no samples, no verdict.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tailguard_operator.api import GROUP
from tailguard_runtime.cli.cluster import ClusterError, NoDataError, Reader
from tailguard_runtime.cli.story import WITHOUT_BASELINE, measured_by, story, without_measurement

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
        reader = Reader.connect(context, namespace)
        services = reader.all("inferenceservices")
    if not services:
        _print(f"there is no InferenceService in namespace {reader.namespace}")
        return
    table = Table(box=None)
    for column in ("NAME", "READY", "STABLE", "CANARY", "VERDICT", "P99", "MESSAGE"):
        table.add_column(column, overflow="fold", no_wrap=column in ("READY", "VERDICT", "P99"))
    for service in services:
        table.add_row(*map(Text, _row(service)))
    console.print(table)


@app.command()
def explain(
    service: Service,
    benchmark: Annotated[str | None, typer.Option(help="The Benchmark to explain; the last one if not said.")] = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Say why the last change was decided as it was, from the stored samples."""
    from tailguard_runtime.cli.explain import explanation

    with _explained():
        reader = Reader.connect(context, namespace)
        found = reader.one("inferenceservices", service)
        for line in story(found):
            _print(line)
        name = benchmark or measured_by(found)
        if name is None:
            _nothing_measured(found)
            return
        console.print(explanation(reader.one("benchmarks", name), reader.samples(name)))


@app.command()
def replay(
    benchmark: Annotated[str, typer.Argument(help="Name of the Benchmark.")],
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Recompute a verdict from the stored samples: the same verdict, or exit code 1."""
    from tailguard_runtime.cli.replay import replay as again

    with _explained():
        reader = Reader.connect(context, namespace)
        measured = reader.one("benchmarks", benchmark)
        result = again(measured, reader.samples(benchmark))
        _print(f"{result.again.outcome} after {result.again.requests} requests: {result.again.message}")
        if result.stored is None:
            raise NoDataError(f"Benchmark {benchmark} has no verdict to compare with yet: it has not ended")
    if result.differences:
        for difference in result.differences:
            _print(f"differs: {difference}")
        raise typer.Exit(1)
    _print(f"the same verdict as the stored one, from {result.again.slots} slots")


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
    token = f"{_user()}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    with _explained():
        Reader.connect(context, namespace).annotate(service, f"{GROUP}/{name}", token)
    _print(f"{name} is asked for ({token}); `tailguard explain {service}` tells what came of it")


def _user() -> str:
    """The name that a command is remembered under; containers may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "somebody"


def _row(service: Mapping[str, Any]) -> tuple[str, ...]:
    status = service.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or []}
    ready, complete = conditions.get("Ready", {}), conditions.get("RolloutComplete", {})
    stable = (status.get("stable") or {}).get("revision", "")
    columns = (stable, status.get("canary"), status.get("verdict"), status.get("p99"))
    shown = ready if ready.get("status") == "False" else complete
    told = shown.get("message") or ready.get("message", "")
    return service["metadata"]["name"], ready.get("status", "Unknown"), *[str(c or "") for c in columns], told


def _nothing_measured(service: Mapping[str, Any]) -> None:
    _print(without_measurement(service))
    rollout = (service.get("status") or {}).get("rollout") or {}
    if rollout.get("reason") in WITHOUT_BASELINE:
        raise typer.Exit(NO_DATA)


def _print(text: str) -> None:
    """Text as it is: messages of pods may hold what would be markup."""
    console.print(Text(text))


@contextmanager
def _explained() -> Iterator[None]:
    from tailguard_runtime.judge import SampleFormatError, SpecError, VerdictFormatError

    try:
        yield
    except (ClusterError, SampleFormatError, SpecError, VerdictFormatError) as error:
        console.print(Text.assemble(("error: ", "red"), str(error)))
        raise typer.Exit(NO_DATA if isinstance(error, NoDataError) else 1) from error
