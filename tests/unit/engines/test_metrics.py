"""Metrics are read under any of their names, and absent is never 0."""

from tailguard_runtime.engines import Metric, adapter_for, parse_exposition

NAMES = adapter_for("VLLM").metric_names()

# Lines of a real scrape of vLLM 0.32.
SCRAPE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 2.0
vllm:num_requests_running{engine="1",model_name="tiny"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="tiny"} 1503.0
vllm:iteration_tokens_total_count{engine="0",model_name="tiny"} 3007.0
vllm:iteration_tokens_total_sum{engine="0",model_name="tiny"} 4537.0
vllm:generation_tokens_created{engine="0",model_name="tiny"} 1.7960962128422635e+09
"""


def test_rule_1_a_renamed_metric_is_found_under_its_old_name() -> None:
    """vllm#18354, #29330: gpu_cache_usage_perc became kv_cache_usage_perc."""
    old = parse_exposition('vllm:gpu_cache_usage_perc{model_name="m"} 0.5\n')
    assert NAMES.read(old, Metric.KV_CACHE_USAGE) == 0.5
    both = parse_exposition("vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.75\n")
    assert NAMES.read(both, Metric.KV_CACHE_USAGE) == 0.75


def test_rule_1_absent_is_not_zero() -> None:
    exposition = parse_exposition(SCRAPE)
    assert NAMES.read(exposition, Metric.PREEMPTIONS) is None
    assert NAMES.read(exposition, Metric.GENERATION_TOKENS) is None, "_created is no count"
    assert NAMES.read(parse_exposition("vllm:num_preemptions_total 0.0\n"), Metric.PREEMPTIONS) == 0.0


def test_engines_of_one_server_are_summed() -> None:
    exposition = parse_exposition(SCRAPE)
    assert NAMES.read(exposition, Metric.REQUESTS_RUNNING) == 3.0
    assert NAMES.read(exposition, Metric.ITERATIONS) == 3007.0


def test_rule_28_undefined_labels_count_as_none() -> None:
    """aibrix#2004: TensorRT-LLM 1.2 exports labels with the value "undefined"."""
    exposition = parse_exposition('request_success_total{model_name="undefined",engine_type="trtllm"} 4\n')
    (series,) = exposition.series["request_success_total"]
    assert series.labels == {"engine_type": "trtllm"}


def test_guard_and_adapter_know_the_same_names() -> None:
    """The guard is copied alone into engine images, so its names are written twice."""
    from tailguard_runtime.guard.engine import _FIGURES

    text = "".join(f"{names[0]} 1.0\n" for names in _FIGURES.values())
    exposition = parse_exposition(text)
    known = {
        "running": Metric.REQUESTS_RUNNING,
        "waiting": Metric.REQUESTS_WAITING,
    } | {name: Metric(name) for name in _FIGURES if name not in ("running", "waiting")}
    assert all(NAMES.read(exposition, metric) == 1.0 for metric in known.values())
