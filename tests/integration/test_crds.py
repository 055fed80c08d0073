"""The three kinds in a real API server: what it accepts, fills in, refuses with which words, and shows."""

import time
from collections.abc import Mapping
from typing import Any

import pytest
from harness.api import Api, ApiError, Object

from tailguard_operator.api.base import GROUP, VERSION, InvalidObject
from tailguard_operator.api.service import InferenceServiceSpec

NAMESPACE = "default"
API = f"/apis/{GROUP}/{VERSION}"
MODEL = {"uri": "hf://Qwen/Qwen3-8B"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def service(spec: Mapping[str, Any], name: str = "chat") -> Object:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": dict(spec),
    }


def tried(api: Api, body: Object) -> Object:
    """What the API server answers to a create that it only checks, with unknown fields refused."""
    path = f"{API}/namespaces/{NAMESPACE}/{body['kind'].lower()}s"
    answer = api.raw("POST", path, params={"dryRun": "All", "fieldValidation": "Strict"}, json=body)
    result: Object = answer.json()
    return result


def objectives(*found: Mapping[str, str]) -> Object:
    return {"model": MODEL, "slos": [{"name": "all", "objectives": [dict(one) for one in found]}]}


def rollout(**fields: Any) -> Object:
    return {"model": MODEL, "rollout": fields}


BAD_SPECS = {
    "empty uri": ({"model": {"uri": ""}}, "spec.model.uri", "must be hf://ORG/NAME, pvc://CLAIM/PATH or file:///PATH"),
    "malformed uri": ({"model": {"uri": "hf:/Qwen"}}, "spec.model.uri", 'found "hf:/Qwen"'),
    "relative path": ({"model": {"uri": "file://models/a"}}, "spec.model.uri", "file:///PATH"),
    "other scheme": ({"model": {"uri": "s3://bucket/a"}}, "spec.model.uri", "hf://ORG/NAME"),
    "no model": ({"replicas": 1}, "spec.model", "Required value"),
    "tolerance 0": (rollout(tolerance=0), "spec.rollout.tolerance", "should be greater than or equal to 1"),
    "tolerance below 0": (rollout(tolerance=-8), "spec.rollout.tolerance", "should be greater than or equal to 1"),
    "tolerance 101": (rollout(tolerance=101), "spec.rollout.tolerance", "should be less than or equal to 100"),
    "proof 0": (rollout(proof={"p99": 0}), "spec.rollout.proof.p99", "should be greater than or equal to 1"),
    "error rate 51": (
        rollout(errorRates={"promote": 51}),
        "spec.rollout.errorRates.promote",
        "should be less than or equal to 50",
    ),
    "negative replicas": ({"model": MODEL, "replicas": -1}, "spec.replicas", "should be greater than or equal to 0"),
    "percentile 100": (
        objectives({"metric": "TTFT", "percentile": "100", "max": "1s"}),
        "spec.slos[0].objectives[0].percentile",
        'a string from "50" to "99.9"',
    ),
    "percentile as a number": (
        {"model": MODEL, "slos": [{"name": "a", "objectives": [{"metric": "TTFT", "percentile": 99, "max": "1s"}]}]},
        "spec.slos[0].objectives[0].percentile",
        "must be of type string",
    ),
    "latency without percentile": (
        objectives({"metric": "Latency", "max": "1s"}),
        "spec.slos[0].objectives[0]",
        'write it like {metric: TTFT, percentile: "99", max: 800ms}',
    ),
    "error rate as a duration": (
        objectives({"metric": "ErrorRate", "max": "1s"}),
        "spec.slos[0].objectives[0]",
        "an ErrorRate objective needs max, a percentage",
    ),
    "throughput with max": (
        objectives({"metric": "Throughput", "max": "5%"}),
        "spec.slos[0].objectives[0]",
        "a Throughput objective needs min",
    ),
    "availability without percent": (
        objectives({"metric": "Availability", "min": "99"}),
        "spec.slos[0].objectives[0]",
        "an Availability objective needs min, a percentage",
    ),
    "steps out of order": (
        rollout(steps=[{"weight": 10}, {"weight": 1}]),
        "spec.rollout.steps",
        "must be in ascending order of weight, each weight once; sort them",
    ),
    "the same step twice": (
        rollout(steps=[{"weight": 10}, {"weight": 10}]),
        "spec.rollout.steps",
        "must be in ascending order of weight, each weight once",
    ),
    "step of 100": (
        rollout(steps=[{"weight": 100}]),
        "spec.rollout.steps[0].weight",
        "should be less than or equal to 50",
    ),
    "duration with a blank": (
        rollout(keepPrevious="2 m"),
        "spec.rollout.keepPrevious",
        "must be a duration in Go's syntax; write it like 800ms, 30s, 10m or 1h30m",
    ),
    "unknown word": (rollout(onDrift="Ignore"), "spec.rollout.onDrift", 'supported values: "Rollback", "Pin"'),
    "host name with scheme": (
        {"model": MODEL, "traffic": {"hostnames": ["https://chat.example.com"]}},
        "spec.traffic.hostnames[0]",
        "without scheme, port or path",
    ),
    "tokens upside down": (
        {
            "model": MODEL,
            "slos": [
                {
                    "name": "a",
                    "when": {"promptTokens": {"min": 9, "max": 2}},
                    "objectives": [{"metric": "ErrorRate", "max": "1%"}],
                }
            ],
        },
        "spec.slos[0].when.promptTokens",
        "exchange them or leave one out",
    ),
    "misspelt field": ({"model": MODEL, "engin": {}}, 'unknown field "spec.engin"', "strict decoding error"),
}


@pytest.mark.parametrize("case", BAD_SPECS)
def test_bad_input_is_refused_with_field_and_what_is_allowed(api: Api, case: str) -> None:
    # Given
    spec, field, allowed = BAD_SPECS[case]
    # When
    answer = tried(api, service(spec))
    # Then
    assert answer["code"] in (400, 422)
    assert field in answer["message"]
    assert allowed in answer["message"]


@pytest.mark.parametrize("case", BAD_SPECS)
def test_the_operators_models_refuse_the_same(case: str) -> None:
    """An object stored under older rules reaches the operator unchecked, so the models check it again."""
    # Given
    spec, _, _ = BAD_SPECS[case]
    # Then
    with pytest.raises(InvalidObject):
        InferenceServiceSpec.parse(spec, "spec")


def test_a_malformed_quantity_is_refused(api: Api) -> None:
    # When
    answer = tried(api, service({"model": MODEL, "engine": {"resources": {"limits": {"cpu": 2, "memory": "16GB"}}}}))
    # Then
    assert "spec.engine.resources.limits[memory]" in answer["message"]
    assert "must be a Kubernetes quantity; write it like 2, 500m or 16Gi" in answer["message"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a" * 37, "metadata.name must have at most 36 characters"),
        ("chat.v2", "metadata.name must be lower-case letters, digits and '-'"),
        ("2chat", "begin with a letter"),
    ],
)
def test_a_name_that_derived_names_cannot_carry_is_refused(api: Api, name: str, words: str) -> None:
    # When
    answer = tried(api, service({"model": MODEL}, name))
    # Then
    assert answer["code"] == 422
    assert words in answer["message"]


def test_the_longest_name_is_accepted(api: Api) -> None:
    # When
    answer = tried(api, service({"model": MODEL}, "a" * 36))
    # Then
    assert answer["kind"] == "InferenceService"


def test_three_lines_are_a_service_without_a_word_that_a_revision_or_a_gateway_depends_on(api: Api) -> None:
    # When
    spec = tried(api, service({"model": MODEL}))["spec"]
    # Then
    assert spec["model"] == MODEL
    assert {"engine", "traffic", "slos"} & set(spec) == set()
    assert {"steps", "guard", "strategy"} & set(spec["rollout"]) == set()
    assert (spec["replicas"], spec["rollout"]["tolerance"], spec["rollout"]["keepPrevious"]) == (1, 8, "10m")


def test_the_models_fill_in_what_the_api_server_fills_in(api: Api) -> None:
    # When
    by_server = tried(api, service({"model": MODEL}))["spec"]
    by_model = InferenceServiceSpec.parse({"model": MODEL}, "spec").to_object()
    # Then
    assert by_server == by_model


def test_everything_that_can_be_said_is_accepted(api: Api) -> None:
    # Given the example of all fields
    spec = {
        "model": {"uri": "hf://Qwen/Qwen3-8B", "revision": "main", "servedName": "chat"},
        "engine": {
            "profile": "vllm-cuda",
            "type": "VLLM",
            "args": ["--max-num-seqs=64"],
            "kernels": [],
            "quantization": "fp8",
            "resources": {"requests": {"cpu": "500m"}, "limits": {"nvidia.com/gpu": 1}},
            "template": {"spec": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}},
        },
        "replicas": 2,
        "slos": [
            {
                "name": "short",
                "when": {"promptTokens": {"max": 2048}},
                "objectives": [
                    {"metric": "TTFT", "percentile": "99", "max": "800ms"},
                    {"metric": "ErrorRate", "max": "1%"},
                ],
            }
        ],
        "rollout": {
            "strategy": "Canary",
            "steps": [
                {"weight": 1, "minDuration": "2m", "minRequests": 200, "verdict": "Guard"},
                {"weight": 10, "pause": True},
            ],
            "benchmark": {"workloadRef": {"name": "wl"}, "slot": {"requests": 50, "minSeconds": 2}},
            "guard": {"window": "1h", "share": 20},
        },
        "traffic": {
            "gateway": {"name": "gw", "namespace": "infra", "sectionName": "http"},
            "hostnames": ["chat.example.com", "*.example.com"],
            "preview": "Enabled",
        },
    }
    # When
    answer = tried(api, service(spec))
    # Then
    assert answer["kind"] == "InferenceService", answer
    assert answer["spec"]["engine"] == spec["engine"]
    assert answer["spec"]["rollout"]["steps"] == spec["rollout"]["steps"]


def undescribed(schema: Mapping[str, Any], path: str) -> list[str]:
    """Fields below `schema` that `kubectl explain` would show without a word."""
    found: list[str] = []
    for name, child in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        if not child.get("description") and where != f"{path.split('.')[0]}.metadata":
            found.append(where)
        found += undescribed(child, where) + undescribed(child.get("items", {}), f"{where}[]")
    return found


def test_explain_has_a_word_for_every_field(api: Api) -> None:
    # Given what the API server publishes, some moments after the definitions
    deadline = time.monotonic() + 30
    while (answer := api.raw("GET", f"/openapi/v3{API}")).is_error and time.monotonic() < deadline:
        time.sleep(0.2)
    schemas = answer.json()["components"]["schemas"]
    # When
    kinds = {kind: schemas[f"dev.tailguard.{VERSION}.{kind}"] for kind in ("InferenceService", "Baseline", "Benchmark")}
    # Then
    assert [field for kind, schema in kinds.items() for field in undescribed(schema, kind)] == []
    assert all(schema["description"] for schema in kinds.values())


@pytest.fixture
def stored(api: Api) -> Any:
    """A stored service."""
    name = f"chat-{time.time_ns() % 10**9}"
    body = api.create("InferenceService", NAMESPACE, {"metadata": {"name": name}, "spec": {"model": MODEL}})
    yield body
    api.delete("InferenceService", NAMESPACE, name)


def test_get_shows_the_story(api: Api, stored: Object) -> None:
    # Given
    name, now = stored["metadata"]["name"], "2026-12-01T10:00:00Z"
    condition = {"status": "True", "lastTransitionTime": now, "message": ""}
    status = {
        "stable": {"revision": "1a2b3c4d", "specHash": "5e6f7a8b"},
        "canary": "9c0d1e2f",
        "weight": 10,
        "verdict": "PROMOTE",
        "p99": "812ms",
        "conditions": [
            {"type": "Ready", "reason": "Serving", **condition},
            {"type": "RolloutComplete", "reason": "Benchmark", **condition, "status": "False"},
        ],
    }
    api.patch("InferenceService", NAMESPACE, name, {"status": status}, "status")
    # When
    table = api.raw("GET", f"{API}/namespaces/{NAMESPACE}/inferenceservices/{name}", headers={"Accept": TABLE}).json()
    # Then
    titles = [column["name"].upper() for column in table["columnDefinitions"]]
    (row,) = table["rows"]
    shown = dict(zip(titles, row["cells"], strict=True))
    assert titles == ["NAME", "READY", "STABLE", "CANARY", "WEIGHT", "VERDICT", "P99", "AGE", "REASON", "MODEL"]
    del shown["NAME"], shown["AGE"]
    assert [*shown.values()] == ["True", "1a2b3c4d", "9c0d1e2f", 10, "PROMOTE", "812ms", "Benchmark", MODEL["uri"]]


def test_scale_reads_status_and_writes_replicas(api: Api, stored: Object) -> None:
    # Given
    name = stored["metadata"]["name"]
    selector = f"tailguard.dev/service={name}"
    api.patch("InferenceService", NAMESPACE, name, {"status": {"replicas": 1, "selector": selector}}, "status")
    # When
    scale = api.patch("InferenceService", NAMESPACE, name, {"spec": {"replicas": 3}}, "scale")
    # Then
    assert scale["status"] == {"replicas": 1, "selector": selector}
    changed = api.get("InferenceService", NAMESPACE, name)
    assert changed is not None
    assert changed["spec"]["replicas"] == 3


def test_status_is_written_only_through_its_own_path(api: Api, stored: Object) -> None:
    # Given
    name = stored["metadata"]["name"]
    # When
    changed = api.patch("InferenceService", NAMESPACE, name, {"status": {"verdict": "PROMOTE"}})
    # Then
    assert "status" not in changed
    assert changed["metadata"]["generation"] == stored["metadata"]["generation"]


ARM = {"revision": "1a2b3c4d", "role": "aa-a", "slot": 0}
RECORDS: dict[str, Object] = {
    "Baseline": {
        "service": "chat",
        "revision": "1a2b3c4d",
        "specHash": "5e6f7a8b",
        "key": "0123456789ab",
        "workloadHash": "ab",
        "environment": {"node": "a"},
        "calibration": "Measured",
        "quantiles": [{"metric": "TTFT", "requestClass": "all", "percentile": "99", "requests": 500}],
        "thresholds": {"TTFT/all": {"p90": 100, "p99": 200}},
        "samples": {"benchmark": "chat-1a2b3c4d-b1", "slots": 10, "sha256": ["ab"]},
        "frozenAt": "2026-12-01T10:00:00Z",
    },
    "Benchmark": {
        "service": "chat",
        "purpose": "Baseline",
        "arms": {"canary": ARM, "twin": {**ARM, "role": "aa-b"}},
        "workload": {"hash": "ab"},
        "ratePerSecond": 5,
        "slot": {"requests": 50, "minSeconds": 10},
        "seed": 7,
        "judge": {"tolerance": 8, "thresholds": {"TTFT/all": {"p90": 100}}},
    },
}
CHANGES = [
    ("Baseline", {"environment": {"node": "b"}}),
    ("Baseline", {"thresholds": {"TTFT/all": {"p99": 201}}}),
    ("Baseline", {"thresholds": {"TPOT/all": {"p99": 1}}}),
    ("Baseline", {"samples": {"slots": 11}}),
    ("Baseline", {"offsets": ["0.01"]}),
    ("Benchmark", {"seed": 8}),
    ("Benchmark", {"judge": {"thresholds": {"TTFT/all": {"p90": 101}}}}),
    ("Benchmark", {"judge": {"tolerance": None}}),
    ("Benchmark", {"baseline": "other"}),
]


@pytest.fixture
def records(api: Api) -> Any:
    """A stored Baseline and Benchmark of the same name."""
    name = f"record-{time.time_ns()}"
    for kind, spec in RECORDS.items():
        api.create(kind, NAMESPACE, {"metadata": {"name": name}, "spec": spec})
    yield name
    for kind in RECORDS:
        api.delete(kind, NAMESPACE, name)


@pytest.mark.parametrize(("kind", "change"), CHANGES)
def test_a_record_never_changes(api: Api, records: str, kind: str, change: Object) -> None:
    """R-016: the snapshot is frozen, also deep within the parts that have no schema."""
    # When
    with pytest.raises(ApiError) as refused:
        api.patch(kind, NAMESPACE, records, {"spec": change})
    # Then
    assert f"spec of a {kind} must stay as it was created" in refused.value.message
    assert f"create another {kind}" in refused.value.message


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_keeps_its_spec(api: Api, records: str, kind: str) -> None:
    # When
    with pytest.raises(ApiError) as refused:
        api.patch(kind, NAMESPACE, records, {"spec": None})
    # Then
    assert "spec: Required value" in refused.value.message


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_is_stored_as_it_was_written(api: Api, records: str, kind: str) -> None:
    # When
    found = api.patch(kind, NAMESPACE, records, {"metadata": {"labels": {"a": "b"}}})
    # Then
    assert found["spec"] == RECORDS[kind]


def test_what_a_benchmark_showed_is_written_beside_it(api: Api, records: str) -> None:
    # When
    status = {"outcome": "Promote", "slots": 12, "verdict": {"estimates": [{"ratio": 0.97}]}}
    found = api.patch("Benchmark", NAMESPACE, records, {"status": status}, "status")
    # Then
    assert found["status"] == status
