"""The engine's share of a pod. Rule numbers are those of the reference's field reports (vLLM issues)."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_runtime.engines import (
    EngineAdapter,
    EngineInput,
    ModelUriError,
    UnknownEngineError,
    adapter_for,
    latest_flag_table,
)
from tailguard_runtime.engines.arguments import read_arguments
from tailguard_runtime.engines.pod import Shutdown
from tailguard_runtime.guard.middleware import GuardMiddleware
from tailguard_runtime.guard.prestop import main as prestop_main
from tailguard_runtime.guard.settings import Settings

ADAPTER: EngineAdapter = adapter_for("VLLM")
INPUT = EngineInput(
    service="chat",
    model_uri="file:///models/tiny",
    image="engine",
    guard_image="guard",
    version="0.32.0",
)


def container(**changes: Any) -> dict[str, Any]:
    return ADAPTER.render(replace(INPUT, **changes)).container()


def env_of(fragment: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in fragment["env"]}


def flag(fragment: dict[str, Any], name: str) -> str:
    return next(use.text for use in read_arguments(fragment["args"], latest_flag_table()) if use.written == name)


def test_rendering_is_pure_and_json() -> None:
    first, second = ADAPTER.render(INPUT).pod_spec(), ADAPTER.render(INPUT).pod_spec()
    assert json.dumps(first) == json.dumps(second)


def test_engine_serves_our_name_on_our_port_through_the_guard() -> None:
    """R-072: one face of every engine; rule 10: probes ask for our name."""
    engine = container()
    assert flag(engine, "--model") == "/models/tiny"
    assert flag(engine, "--served-model-name") == "chat"
    assert (flag(engine, "--host"), flag(engine, "--port")) == ("0.0.0.0", "8000")
    module, _, name = flag(engine, "--middleware").rpartition(".")
    assert (module, name) == (GuardMiddleware.__module__, GuardMiddleware.__name__)
    assert [(p["name"], p["containerPort"]) for p in engine["ports"]] == [("http", 8000), ("tailguard", 9901)]
    named = container(served_name="assistant")
    assert flag(named, "--served-model-name") == env_of(named)["TAILGUARD_SERVED_NAME"] == "assistant"


def test_guard_reads_what_the_adapter_writes() -> None:
    settings = Settings.from_environment(env_of(container()))
    assert settings == Settings(state_dir=settings.state_dir, served_name="chat")
    mounts = {mount["mountPath"] for mount in container()["volumeMounts"]}
    assert str(settings.state_dir) in mounts


def test_profile_command_is_kept() -> None:
    command = ("taskset", "-c", "1", "python", "-m", "vllm.entrypoints.openai.api_server")
    assert container(command=command)["command"] == list(command)


def test_user_flag_replaces_the_profiles() -> None:
    engine = container(
        profile_args=("--max-num-seqs", "2", "--enforce-eager", "-cc.mode=1", "-tp", "2"),
        args=("--max-num-seqs=8", "--no-enforce-eager", "--compilation-config", '{"mode":3}'),
    )
    assert engine["args"][-6:] == [
        "-tp", "2", "--max-num-seqs=8", "--no-enforce-eager", "--compilation-config", '{"mode":3}',
    ]  # fmt: skip


def test_rule_6_shutdown_timeout_comes_with_a_prestop_that_drains() -> None:
    engine = container(longest_request_seconds=90)
    assert flag(engine, "--shutdown-timeout") == "90"
    command = engine["lifecycle"]["preStop"]["exec"]["command"]
    assert command == ["python3", "-m", "tailguard_runtime.guard.prestop", "--at-most", "105"]
    with pytest.raises(SystemExit):
        prestop_main(["--help"])


@given(st.integers(1, 3600))
def test_grace_period_outlasts_prestop_and_shutdown_timeout(longest_request: int) -> None:
    """Rule of part 5: terminationGracePeriodSeconds > preStop + shutdown-timeout + about 10 s."""
    rendering = ADAPTER.render(replace(INPUT, longest_request_seconds=longest_request))
    shutdown = Shutdown(longest_request)
    assert rendering.termination_grace_seconds > shutdown.prestop + shutdown.engine + 10
    assert shutdown.engine >= longest_request
    assert rendering.pod_spec()["terminationGracePeriodSeconds"] == rendering.termination_grace_seconds


@pytest.mark.parametrize(
    ("model_bytes", "seconds"),
    [(0, 600), (5_000_000, 601), (16 * 10**9, 760), (140 * 10**9, 2000), (None, 3600)],
)
def test_rule_9_startup_is_sized_by_the_models_bytes(model_bytes: int | None, seconds: int) -> None:
    """Loads of 10 to 17 minutes are reported; vLLM's own limit is raised with the probe's."""
    rendering = ADAPTER.render(replace(INPUT, model_bytes=model_bytes))
    probe = rendering.container()["startupProbe"]
    assert rendering.startup_seconds == seconds
    assert seconds <= probe["failureThreshold"] * probe["periodSeconds"] < seconds + probe["periodSeconds"]
    assert env_of(rendering.container())["VLLM_ENGINE_READY_TIMEOUT_S"] == str(seconds)


def test_rules_3_and_4_probes_ask_the_guard_and_not_health() -> None:
    engine = container()
    asked = {name: engine[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert asked == {
        "startupProbe": {"path": "/tailguard/startup", "port": "tailguard"},
        "readinessProbe": {"path": "/tailguard/ready", "port": "tailguard"},
        "livenessProbe": {"path": "/tailguard/live", "port": "tailguard"},
    }
    # A probe must wait longer than the guard does for an engine that is slow to answer.
    assert all(engine[name]["timeoutSeconds"] > 3 for name in asked)


def test_rule_14_metrics_state_lies_in_memory() -> None:
    volumes = {v["name"]: v for v in ADAPTER.render(INPUT).volumes}
    assert volumes["state"]["emptyDir"]["medium"] == "Memory"


def test_rule_15_service_links_are_off() -> None:
    """A Service named vllm would inject VLLM_PORT, which vLLM refuses."""
    assert ADAPTER.render(INPUT).pod_spec()["enableServiceLinks"] is False


def test_an_engine_that_still_starts_can_be_stopped_since_it_is_not_process_1() -> None:
    assert ADAPTER.render(INPUT).pod_spec()["shareProcessNamespace"] is True


def test_rule_16_shared_memory_is_a_counted_memory_volume() -> None:
    rendering = ADAPTER.render(replace(INPUT, args=("-tp", "4", "--pipeline-parallel-size=2")))
    volume = next(v for v in rendering.volumes if v["name"] == "shm")
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": str(8 * 2**30)}
    assert {"name": "shm", "mountPath": "/dev/shm"} in rendering.volume_mounts
    assert rendering.memory_volume_bytes > 8 * 2**30


def test_rule_18_every_cache_is_writable_for_any_user() -> None:
    """Random UIDs have no home and no entry in /etc/passwd."""
    engine = container()
    cache = next(m["mountPath"] for m in engine["volumeMounts"] if m["name"] == "cache")
    environment = env_of(engine)
    for name in (
        "HOME", "HF_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR",
        "VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT",
    ):  # fmt: skip
        assert environment[name].startswith(cache), name
    assert environment["USER"], "getpass.getuser() fails without it"
    assert environment["HF_HUB_OFFLINE"] == "1"


def test_a_sidecar_cannot_hide_a_connection_from_the_guard() -> None:
    assert env_of(container())["FORWARDED_ALLOW_IPS"] == ""


def test_rule_35_no_host_port() -> None:
    assert all("hostPort" not in port for port in container()["ports"])


def test_buckets_resolve_ten_milliseconds() -> None:
    """Part 4: of 4,501 inter-token latencies 4,486 fell into vLLM's first bucket."""
    buckets = json.loads(flag(container(), "--custom-histogram-buckets"))
    assert set(buckets) == {"inter_token_latency", "time_to_first_token", "request_latency"}
    assert sum(bound < 0.01 for bound in buckets["inter_token_latency"]) >= 8
    assert sum(bound < 0.3 for bound in buckets["request_latency"]) >= 5
    for bounds in buckets.values():
        assert bounds == sorted(set(bounds))


def test_profile_variables_win_over_defaults_but_not_over_the_guards() -> None:
    secret = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    engine = container(
        env=(
            {"name": "HOME", "value": "/home/app"},
            {"name": "PYTHONPATH", "value": "/opt/kernels"},
            {"name": "TAILGUARD_PORT", "value": "1"},
            secret,
        )
    )
    environment = env_of(engine)
    assert environment["HOME"] == "/home/app"
    assert environment["PYTHONPATH"] == "/tailguard/lib:/opt/kernels"
    assert environment["TAILGUARD_PORT"] == "9901"
    assert secret in engine["env"]
    names = [entry["name"] for entry in engine["env"]]
    assert len(names) == len(set(names))


def test_guard_is_copied_by_an_init_container_that_runs_here(tmp_path: Path) -> None:
    (guard,) = ADAPTER.render(INPUT).init_containers
    assert guard["image"] == "guard"
    # When its command runs, with the volume's path replaced by a directory of this test
    command = [sys.executable, *guard["command"][1:-1], str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, env={"PYTHONPATH": ":".join(sys.path)})
    assert (tmp_path / "tailguard_runtime" / "guard" / "middleware.py").exists()
    mount = {m["name"]: m for m in container()["volumeMounts"]}["guard"]
    assert mount == {"name": "guard", "mountPath": guard["command"][-1], "readOnly": True}


def test_model_in_the_image_needs_no_volume() -> None:
    assert all(volume["name"] != "model" for volume in ADAPTER.render(INPUT).volumes)


def test_model_on_a_claim_is_mounted_read_only() -> None:
    rendering = ADAPTER.render(replace(INPUT, model_uri="pvc://models/qwen/8b"))
    assert rendering.model_path == "/tailguard/model/qwen/8b"
    claim = {"claimName": "models", "readOnly": True}
    assert {"name": "model", "persistentVolumeClaim": claim} in rendering.volumes
    assert {"name": "model", "mountPath": "/tailguard/model", "readOnly": True} in rendering.volume_mounts


def test_model_of_the_hub_is_fetched_first(tmp_path: Path) -> None:
    """R-172: the fetched revision is the one of the spec; the engine itself stays offline."""
    token = {"name": "HF_TOKEN", "value": "t"}
    rendering = ADAPTER.render(replace(INPUT, model_uri="hf://a/b", model_revision="v1", env=(token,)))
    _, fetch = rendering.init_containers
    assert fetch["image"] == "engine"
    assert token in fetch["env"]
    assert "HF_HUB_OFFLINE" not in env_of(fetch)
    assert rendering.model_path == fetch["command"][-1]
    assert env_of(rendering.container())["HF_HUB_OFFLINE"] == "1"
    # When its command runs against a library that only tells what it was asked
    (tmp_path / "huggingface_hub.py").write_text("def snapshot_download(*a, **k): return f'{a} {sorted(k.items())}'")
    command = [sys.executable, *fetch["command"][1:]]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)})
    assert "('a/b',)" in said.stdout
    assert "('local_dir', '/tailguard/model'), ('revision', 'v1')" in said.stdout


def test_unpinned_model_warns() -> None:
    """R-172: a model without a pinned revision warns."""
    (warning,) = ADAPTER.render(replace(INPUT, model_uri="hf://a/b")).warnings
    assert warning.field == "spec.model.revision"
    assert ADAPTER.render(replace(INPUT, model_uri="hf://a/b", model_revision="1" * 40)).warnings == ()


def test_bad_address_is_not_rendered() -> None:
    with pytest.raises(ModelUriError, match=r"spec\.model\.uri"):
        ADAPTER.render(replace(INPUT, model_uri="s3://x"))


def test_engine_without_an_adapter_names_the_known_ones() -> None:
    with pytest.raises(UnknownEngineError, match="'TensorRTLLM' has no adapter; allowed: VLLM"):
        adapter_for("TensorRTLLM")
