"""The files of `crds/` and their copy in the chart."""

from pathlib import Path

import pytest
import yaml

from tailguard_operator.api import crds
from tailguard_operator.api.crds import BASELINE, BENCHMARK, INFERENCE_SERVICE, KINDS, definition, main

REPOSITORY = Path(__file__).parents[3]


def test_the_committed_files_are_those_of_the_models() -> None:
    # Given
    wanted = crds.files(REPOSITORY / "crds", REPOSITORY / "charts" / "tailguard")
    # Then
    assert crds.stale(wanted) == []


def test_check_passes_on_what_was_written(tmp_path: Path) -> None:
    # Given
    chart = tmp_path / "chart"
    main(["--chart", str(chart), str(tmp_path / "crds")])
    # When
    code = main(["--check", "--chart", str(chart), str(tmp_path / "crds")])
    # Then
    assert code == 0
    assert len([*tmp_path.rglob("*.yaml")]) == 2 * len(KINDS)


@pytest.mark.parametrize("folder", ["crds", "chart/templates/crds"])
def test_check_names_an_edited_file(tmp_path: Path, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    # Given
    main(["--chart", str(tmp_path / "chart"), str(tmp_path / "crds")])
    edited = tmp_path / folder / BASELINE.file_name
    edited.write_text(edited.read_text() + "# by hand\n")
    # When
    code = main(["--check", "--chart", str(tmp_path / "chart"), str(tmp_path / "crds")])
    # Then
    assert code == 1
    assert f"{edited}: differs from the models" in capsys.readouterr().err


def test_check_writes_nothing(tmp_path: Path) -> None:
    # When
    code = main(["--check", str(tmp_path / "crds")])
    # Then
    assert code == 1
    assert [*tmp_path.iterdir()] == []


def test_the_text_is_the_definition() -> None:
    # Then
    assert [yaml.safe_load(crds.manifest(kind)) for kind in KINDS] == [definition(kind) for kind in KINDS]


def test_the_charts_copy_stays_when_the_release_goes() -> None:
    # When
    template = crds.chart_template(INFERENCE_SERVICE)
    # Then
    assert template.startswith("{{- if .Values.crds.install }}\n")
    assert template.endswith("{{- end }}\n")
    inside = yaml.safe_load("\n".join(template.splitlines()[1:-1]))
    assert inside["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert inside == definition(INFERENCE_SERVICE)


def test_short_names() -> None:
    # Then
    short = {kind.name: definition(kind)["spec"]["names"]["shortNames"] for kind in KINDS}
    assert short == {"InferenceService": ["isvc"], "Baseline": ["bl"], "Benchmark": ["bm"]}


def test_kubectl_get_tells_the_story() -> None:
    # When
    (version,) = definition(INFERENCE_SERVICE)["spec"]["versions"]
    columns = version["additionalPrinterColumns"]
    # Then
    shown = [column["name"].upper() for column in columns if "priority" not in column]
    assert shown == ["READY", "STABLE", "CANARY", "WEIGHT", "VERDICT", "P99", "AGE"]
    assert [column["name"] for column in columns if column.get("priority") == 1] == ["Reason", "Model"]


def test_autoscalers_can_write_replicas() -> None:
    # When
    (version,) = definition(INFERENCE_SERVICE)["spec"]["versions"]
    # Then
    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }


@pytest.mark.parametrize("kind", [BASELINE, BENCHMARK])
def test_a_record_is_immutable_by_a_rule_on_the_whole_object(kind: crds.Kind) -> None:
    """R-016: a rule on `spec` itself would not run when `spec` is removed."""
    # When
    (version,) = definition(kind)["spec"]["versions"]
    (rule,) = version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    # Then
    assert rule["rule"] == "self.spec == oldSelf.spec"
