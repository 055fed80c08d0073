"""Writes `crds/` from the models: `python -m tailguard_operator.api.crds [--check] [--chart CHART] DIR`.

The chart's templates are the same text, with a switch and Helm's order to keep the definitions on uninstall.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from tailguard_operator.api.base import GROUP, VERSION
from tailguard_operator.api.baseline import Baseline, BaselineSpec
from tailguard_operator.api.benchmark import Benchmark, BenchmarkSpec, BenchmarkStatus
from tailguard_operator.api.rules import VALIDATIONS
from tailguard_operator.api.schema import structural
from tailguard_operator.api.service import NAME_LIMIT, InferenceService, InferenceServiceSpec
from tailguard_operator.api.status import InferenceServiceStatus

_HEADER = "# Written by `make crds` from operator/tailguard_operator/api; edit the models, not this file.\n"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; `wide` ones show with `-o wide` only."""

    name: str
    path: str
    description: str
    type: str = "string"
    wide: bool = False

    def to_object(self) -> dict[str, Any]:
        """The entry of `additionalPrinterColumns`."""
        entry = {"name": self.name, "type": self.type, "jsonPath": self.path, "description": self.description}
        return {**entry, "priority": 1} if self.wide else entry


_AGE = Column("Age", ".metadata.creationTimestamp", "Time since it was created.", type="date")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of the API group."""

    model: type[BaseModel]
    plural: str
    short_name: str
    spec: type[BaseModel]
    status: type[BaseModel] | None
    columns: Sequence[Column]
    rules: Sequence[Mapping[str, str]]
    defaults: bool = False
    subresources: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The kind's name."""
        return self.model.__name__

    @property
    def file_name(self) -> str:
        """Name of its file."""
        return f"{self.plural}.{GROUP}.yaml"


_SERVICE_RULES = (
    {
        "rule": f"self.metadata.name.size() <= {NAME_LIMIT}",
        "message": f"metadata.name must have at most {NAME_LIMIT} characters, because names of pods and benchmarks are "
        "derived from it; choose a shorter name",
    },
    {
        "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "message": "metadata.name must be lower-case letters, digits and '-', begin with a letter and not end with "
        "'-', because a Service has the same name; choose another name, such as chat",
    },
)


def _immutable(kind: str) -> dict[str, str]:
    return {
        "rule": "self.spec == oldSelf.spec",
        "message": f"spec of a {kind} must stay as it was created, because results refer to it; create another {kind}",
    }


INFERENCE_SERVICE = Kind(
    model=InferenceService,
    plural="inferenceservices",
    short_name="isvc",
    spec=InferenceServiceSpec,
    status=InferenceServiceStatus,
    defaults=True,
    rules=_SERVICE_RULES,
    subresources={
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
    columns=(
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status', "Whether users are served."),
        Column("Stable", ".status.stable.revision", "Revision that serves users."),
        Column("Canary", ".status.canary", "Revision on trial."),
        Column("Weight", ".status.weight", "Share of live traffic on the canary, percent.", type="integer"),
        Column("Verdict", ".status.verdict", "Last verdict: PROMOTE, ROLLBACK, INCONCLUSIVE or Overridden."),
        Column("P99", ".status.p99", "P99 latency of the revision that serves, from its last benchmark."),
        _AGE,
        Column(
            "Reason",
            '.status.conditions[?(@.type=="RolloutComplete")].reason',
            "Where the last change is, in one word.",
            wide=True,
        ),
        Column("Model", ".spec.model.uri", "Where the model is.", wide=True),
    ),
)

BASELINE = Kind(
    model=Baseline,
    plural="baselines",
    short_name="bl",
    spec=BaselineSpec,
    status=None,
    rules=(_immutable("Baseline"),),
    columns=(
        Column("Service", ".spec.service", "The InferenceService."),
        Column("Revision", ".spec.revision", "The revision measured."),
        Column("Calibration", ".spec.calibration", "How the difference of identical pods was seen."),
        Column("Slots", ".spec.samples.slots", "Slots of samples behind it.", type="integer"),
        _AGE,
        Column("Key", ".spec.key", "What it is valid for.", wide=True),
        Column("Benchmark", ".spec.samples.benchmark", "The Benchmark that measured it.", wide=True),
    ),
)

BENCHMARK = Kind(
    model=Benchmark,
    plural="benchmarks",
    short_name="bm",
    spec=BenchmarkSpec,
    status=BenchmarkStatus,
    rules=(_immutable("Benchmark"),),
    subresources={"status": {}},
    columns=(
        Column("Service", ".spec.service", "The InferenceService."),
        Column("Purpose", ".spec.purpose", "Why it is measured."),
        Column("Outcome", ".status.outcome", "What it showed."),
        Column("Slots", ".status.slots", "Stored slots.", type="integer"),
        Column("Requests", ".status.requests", "Requests to both arms.", type="integer"),
        _AGE,
        Column("Canary", ".spec.arms.canary.revision", "Revision on trial.", wide=True),
        Column("Twin", ".spec.arms.twin.revision", "Revision that it is compared with.", wide=True),
    ),
)

KINDS = (INFERENCE_SERVICE, BASELINE, BENCHMARK)


def definition(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of `kind`."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": [kind.short_name],
                "categories": ["tailguard"],
            },
            "versions": [_version(kind)],
        },
    }


def _version(kind: Kind) -> dict[str, Any]:
    properties = {
        "apiVersion": {"type": "string", "description": f"Version of this object's schema: {GROUP}/{VERSION}."},
        "kind": {"type": "string", "description": f"Kind of this object: {kind.name}."},
        "metadata": {"type": "object"},
        "spec": {**structural(kind.spec, defaults=kind.defaults), "description": _field(kind.model, "spec")},
    }
    if kind.status:
        status = structural(kind.status, defaults=False)
        properties["status"] = {**status, "description": "What is, as the operator observed it. Never written by hand."}
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [column.to_object() for column in kind.columns],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": kind.model.__doc__,
                "required": ["spec"],
                "properties": properties,
                VALIDATIONS: [dict(rule) for rule in kind.rules],
            }
        },
    }
    return {**version, "subresources": dict(kind.subresources)} if kind.subresources else version


def _field(model: type[BaseModel], name: str) -> str:
    return model.model_fields[name].description or ""


def manifest(kind: Kind) -> str:
    """The text of `kind`'s file in `crds/`."""
    return _HEADER + _yaml(definition(kind))


def chart_template(kind: Kind) -> str:
    """The text of `kind`'s template in the chart.

    The definitions are templates and not in Helm's own `crds/`, which is never upgraded; so they must outlive the
    release, or uninstalling would delete every service with them.
    """
    crd = definition(kind)
    crd["metadata"] = {**crd["metadata"], "annotations": {"helm.sh/resource-policy": "keep"}}
    text = _yaml(crd)
    if "{{" in text:
        raise ValueError(f"{kind.name}: a description must not hold '{{{{', Helm would read it as a template")
    return f"{{{{- if .Values.crds.install }}}}\n{_HEADER}{text}{{{{- end }}}}\n"


def _yaml(data: Any) -> str:
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes no anchors, and lists indented under their key."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def files(directory: Path, chart: Path | None) -> dict[Path, str]:
    """Every file that should exist, with its text."""
    written = {directory / kind.file_name: manifest(kind) for kind in KINDS}
    if chart:
        written |= {chart / "templates" / "crds" / kind.file_name: chart_template(kind) for kind in KINDS}
    return written


def stale(wanted: Mapping[Path, str]) -> list[Path]:
    """The files of `wanted` that are missing or differ."""
    return [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the files, or with `--check` names those that differ; 1 if any does."""
    parser = argparse.ArgumentParser(prog="crds", description="Write the CustomResourceDefinitions.")
    parser.add_argument("directory", type=Path, help="folder of the definitions, such as crds")
    parser.add_argument("--chart", type=Path, help="chart that gets a copy, such as charts/tailguard")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs")
    options = parser.parse_args(arguments)
    wanted = files(options.directory, options.chart)
    if options.check:
        differing = stale(wanted)
        for path in differing:
            print(f"{path}: differs from the models; run `make crds` and commit the result", file=sys.stderr)
        return 1 if differing else 0
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
