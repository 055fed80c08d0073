"""The check of a user's flags: every problem names field, value, what is allowed and what to do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_runtime.engines import ArgProblem, Severity, adapter_for, check_args, errors, latest_flag_table
from tailguard_runtime.engines.managed import MANAGED, RESTRICTED

TABLE = latest_flag_table()


def check(*args: str) -> list[ArgProblem]:
    return check_args(args, TABLE)


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--max-num-seqs=64",),
        ("--max-num-seqs", "64"),
        ("--max_num_seqs", "64"),
        ("-tp", "2"),
        ("-tp=2",),
        ("-O3",),
        ("-O=3",),
        ("-O", "3"),
        ("--enforce-eager",),
        ("--no-enable-prefix-caching",),
        ("--dtype", "bfloat16"),
        ("--max-model-len", "32k"),
        ("--max-model-len=auto",),
        ("--max-model-len", "-1"),
        ("--seed", "-5"),
        ("--kv-cache-memory-bytes", "1.5G"),
        ("--compilation-config", '{"mode": 3}'),
        ("--compilation-config.mode", "3", "--compilation-config.backend=inductor"),
        ("-cc.mode=3", "-cc.custom_ops+", "none,+rms_norm"),
        ("--speculative-config", '{"method":"ngram","num_speculative_tokens":3}'),
        ("--kv-cache-dtype-skip-layers", "0", "1", "2"),
        ("--hf-overrides", "some.function"),
        ("--moe-backend", "Deep-Gemm"),
        ("--runner", "generate"),
    ],
)
def test_a_flag_that_the_engine_takes_is_no_problem(args: tuple[str, ...]) -> None:
    """R-093: settings for long prompts (budget, block size, chunking) are set in engine.args."""
    assert check(*args) == []


@pytest.mark.parametrize(
    ("args", "field", "value", "said"),
    [
        (("--max-num-seq=4",), 0, "--max-num-seq", "Did you mean --max-num-seqs?"),
        (("--enforce-eager", "--max-numseqs", "4"), 1, "--max-numseqs", "Did you mean --max-num-seqs?"),
        (("-tpp", "2"), 0, "-tpp", "Did you mean -tp?"),
        (("--qqqqqqqqqq",), 0, "--qqqqqqqqqq", "is not a flag of the engine"),
        (("llama",), 0, "llama", "belongs to no flag"),
        (("--enforce-eager", "true"), 1, "true", "belongs to no flag"),
        (("--max-num-seqs", "4", "5"), 2, "5", "belongs to no flag"),
        (("--max-num-seqs",), 0, "--max-num-seqs", "has no value"),
        (("--max-num-seqs", "--enforce-eager"), 0, "--max-num-seqs", "has no value"),
        (("--max-num-seqs=",), 0, "--max-num-seqs", "has no value"),
        (("--max-num-seqs", "many"), 1, "many", "allowed: an integer"),
        (("--max-num-seqs=1.5",), 0, "1.5", "allowed: an integer"),
        (("--gpu-memory-utilization", "most"), 1, "most", "allowed: a number"),
        (("--max-num-batched-tokens", "8kb"), 1, "8kb", "32k"),
        (("--dtype=int3",), 0, "int3", "float32, half"),
        (("--compilation-config", "{mode: 3}"), 1, "{mode: 3}", "allowed: JSON"),
        (("--max-num-seqs.x=3",), 0, "--max-num-seqs.x=3", "has no entries"),
        (("-cc.mode",), 0, "-cc.mode", "has no value"),
        (("--enforce-eager=1",), 0, "--enforce-eager=1", "--no-enforce-eager turns it off"),
        (("--runner=pooling",), 0, "pooling", "not a generating engine"),
    ],
)
def test_a_wrong_flag_names_field_value_and_remedy(args: tuple[str, ...], field: int, value: str, said: str) -> None:
    (problem,) = check(*args)
    assert problem.severity is Severity.ERROR
    assert problem.field == f"spec.engine.args[{field}]"
    assert problem.value == value
    assert said in problem.message
    assert problem.allowed and problem.action


@pytest.mark.parametrize("name", sorted(MANAGED))
def test_a_flag_that_tailguard_manages_is_refused_with_what_to_do_instead(name: str) -> None:
    (problem, *_) = check(f"{name}=x")
    assert problem.severity is Severity.ERROR
    assert problem.value == name
    assert "is set by Tailguard" in problem.reason
    assert problem.action == MANAGED[name]


def test_managed_and_restricted_flags_exist_under_their_main_names() -> None:
    """A misspelt entry of these lists would let the flag through."""
    for name in [*MANAGED, *RESTRICTED]:
        assert TABLE.by_name[name].name == name


@pytest.mark.parametrize(
    "args",
    [
        ("--max-num-seqs=1", "--max-num-seqs=2"),
        ("-tp", "1", "--tensor-parallel-size=2"),
        ("--max_num_seqs=1", "--max-num-seqs=2"),
        ("--enforce-eager", "--no-enforce-eager"),
        ("-cc.mode=1", "--compilation-config.mode=2"),
    ],
)
def test_a_flag_given_twice_is_an_error_under_any_of_its_names(args: tuple[str, ...]) -> None:
    (problem,) = check(*args)
    assert problem.reason == "is given twice"
    assert problem.action.startswith("Keep one of spec.engine.args[0] and ")


def test_two_entries_of_one_json_flag_are_not_the_same_flag() -> None:
    assert check("-cc.mode=1", "-cc.backend=inductor") == []


def test_trust_remote_code_warns() -> None:
    """R-172: remote code runs foreign Python; it needs the flag, and the flag a warning."""
    (problem,) = check("--trust-remote-code")
    assert problem.severity is Severity.WARNING
    assert errors([problem]) == []
    assert check("--no-trust-remote-code") == []


def test_version_without_a_table_checks_names_only_and_says_so() -> None:
    # Given an engine version that nobody has cut a table from
    problems = adapter_for("VLLM").check(("--max-num-seq=4", "--dtype=new", "--port=1"), "0.99.0")
    # Then names are warnings, values pass, and what Tailguard manages stays an error
    assert [(p.severity.value, p.value) for p in problems] == [
        ("Warning", "0.99.0"),
        ("Warning", "--max-num-seq"),
        ("Error", "--port"),
    ]
    assert "only names are checked" in problems[0].message


def test_patch_releases_share_a_table() -> None:
    assert adapter_for("VLLM").check(("--max-num-seqs=4",), "v0.32.1") == []


def test_table_holds_every_flag_of_the_release() -> None:
    assert len(TABLE.flags) == 317
    assert (TABLE.engine, TABLE.version) == ("VLLM", "0.32")
    assert TABLE.flag("kv_cache_dtype").choices[0] == "auto"
    assert {"-tp", "--tensor-parallel-size"} == set(TABLE.flag("tensor_parallel_size").names)


@given(
    st.lists(
        st.sampled_from(
            [
                "--a",
                "-b",
                "x",
                "1",
                "--max-num-seqs",
                "-tp",
                "--no-",
                "-",
                "--",
                "=",
                "-cc.x",
                "-O",
                "",
                "--x.y=",
            ]
        )
    )
)
def test_any_list_gets_an_answer_that_points_into_it(args: list[str]) -> None:
    for problem in check(*args):
        index = int(problem.field.removeprefix("spec.engine.args[").removesuffix("]"))
        assert 0 <= index < len(args)
        assert problem.message.startswith(problem.field)
