"""What goes with every result, and when two environments can be compared."""

from dataclasses import replace

import pytest

from tailguard_runtime.engines import EngineInput, adapter_for, compare_manifests

ADAPTER = adapter_for("VLLM")
INPUT = EngineInput(
    service="chat",
    model_uri="hf://a/b",
    model_revision="main",
    image="engine@sha256:1",
    guard_image="guard",
    version="0.32.0",
)


def manifest(*args: str) -> dict[str, str]:
    return ADAPTER.manifest(replace(INPUT, args=args))


def test_settings_for_long_prompts_are_recorded_given_or_not() -> None:
    """R-093: chunked prefill, token budget and block size go with every result."""
    given = manifest("--max-num-batched-tokens=8k", "--block-size", "32", "--enable-chunked-prefill")
    assert given["max_num_batched_tokens"] == "8k"
    assert given["block_size"] == "32"
    assert given["enable_chunked_prefill"] == "True"
    unset = manifest()
    for name in ("max_num_batched_tokens", "block_size", "enable_chunked_prefill"):
        assert unset[name] == "engine default"
    assert (unset["dtype"], unset["kv_cache_dtype"], unset["seed"]) == ("auto", "auto", "0")


def test_manifest_names_engine_image_and_model() -> None:
    """R-171, R-172: the whole environment, the model's revision and remote code."""
    found = manifest("--trust-remote-code")
    assert found["engine"] == "VLLM"
    assert found["engine_version"] == "0.32.0"
    assert found["image"] == "engine@sha256:1"
    assert (found["model"], found["model_revision"]) == ("hf://a/b", "main")
    assert found["trust_remote_code"] == "True"
    assert manifest()["trust_remote_code"] == "False"


@pytest.mark.parametrize(
    ("args", "state"),
    [
        (("--enforce-eager",), "eager"),
        (("-O0",), "eager"),
        (("-cc.mode=0",), "eager"),
        (("--compilation-config", '{"mode": 0}'), "eager"),
        (("--no-enforce-eager",), "compiled, mode engine default, level 2"),
        (("-cc.mode=3",), "compiled, mode 3, level 2"),
        (("--compilation-config", '{"mode": 3}', "-O1"), "compiled, mode 3, level 1"),
        ((), "compiled, mode engine default, level 2"),
    ],
)
def test_compile_state_is_declared(args: tuple[str, ...], state: str) -> None:
    """R-175: eager or compiled, said with every result."""
    assert manifest(*args)["compile_state"] == state


def test_eager_against_compiled_is_refused_unless_the_revision_declares_it() -> None:
    """R-175 and R-171: only an undeclared difference refuses; a declared one is listed."""
    eager, compiled = manifest("--enforce-eager"), manifest()
    refused = compare_manifests(eager, compiled, declared=())
    assert not refused.comparable
    assert [d.name for d in refused.undeclared] == ["compile_state", "enforce_eager"]
    listed = compare_manifests(eager, compiled, declared={"compile_state", "enforce_eager"})
    assert listed.comparable
    assert [(d.name, d.canary, d.twin) for d in listed.declared][1] == ("enforce_eager", "True", "False")


def test_missing_entry_is_a_difference() -> None:
    comparison = compare_manifests({"driver": "550"}, {}, declared=())
    assert [(d.name, d.canary, d.twin) for d in comparison.undeclared] == [("driver", "550", "")]


def test_secrets_are_not_shown() -> None:
    secret = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    env = ({"name": "VLLM_API_KEY", "value": "s3cret"}, secret, {"name": "OMP_NUM_THREADS", "value": "1"})
    found = ADAPTER.manifest(replace(INPUT, env=env))
    assert found["env.VLLM_API_KEY"] == "set, not shown"
    assert found["env.HF_TOKEN"] == 'from {"secretKeyRef": {"key": "token", "name": "hub"}}'
    assert found["env.OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("args", "config", "tokens"),
    [
        (("--max-model-len=512",), {"max_position_embeddings": 1024}, 512),
        (("--max-model-len", "32k"), None, 32_000),
        (("--max-model-len", "32K"), None, 32_768),
        (("--max-model-len", "auto"), {"max_position_embeddings": 1024}, 1024),
        (("--max-model-len=-1",), {"n_positions": 2048}, 2048),
        ((), {"text_config": {"max_position_embeddings": 4096}}, 4096),
        ((), {}, None),
        ((), None, None),
    ],
)
def test_context_length_comes_from_the_flag_else_from_the_model(
    args: tuple[str, ...], config: dict[str, object] | None, tokens: int | None
) -> None:
    assert ADAPTER.context_length(args, config) == tokens
