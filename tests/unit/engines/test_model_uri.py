"""The model's address: three schemes, and a clear refusal of everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_runtime.engines import ModelUriError, parse_model_uri


@pytest.mark.parametrize(
    ("uri", "revision", "expected"),
    [
        ("hf://Qwen/Qwen3-8B", "", ("hf", "", "", "Qwen/Qwen3-8B", "")),
        ("hf://gpt2", "main", ("hf", "", "", "gpt2", "main")),
        ("pvc://models/qwen/8b/", "", ("pvc", "qwen/8b", "models", "", "")),
        ("pvc://models", "", ("pvc", "", "models", "", "")),
        ("file:///models/tiny", "", ("file", "/models/tiny", "", "", "")),
        ("file:///models//tiny/./", "", ("file", "/models/tiny", "", "", "")),
    ],
)
def test_address_is_read(uri: str, revision: str, expected: tuple[str, ...]) -> None:
    source = parse_model_uri(uri, revision)
    assert (source.scheme, source.path, source.claim, source.repository, source.revision) == expected


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("Qwen/Qwen3-8B", "Did you mean hf://Qwen/Qwen3-8B?"),
        ("/models/tiny", "Did you mean file:///models/tiny?"),
        ("tiny", "has no scheme"),
        ("s3://bucket/model", "unknown scheme 's3'"),
        ("HF://Qwen/Qwen3-8B", "unknown scheme 'HF'"),
        ("hf://", "names no repository"),
        ("hf://a/b/c", "names no repository"),
        ("hf://../x", "names no repository"),
        ("hf://Qwen/Qwen3?x=1", "holds a space or one of"),
        ("hf://Qwen/Qwen 3", "holds a space"),
        ("pvc://", "names no claim"),
        ("pvc://Models/x", "names no claim"),
        ("pvc://models/../secret", "holds '..'"),
        ("file://models/tiny", "names no absolute path"),
        ("file:///", "names no absolute path"),
        ("file:///models/../etc", "holds '..'"),
        ("file:///models/%2e%2e/etc", "one of ? # % \\"),
    ],
)
def test_bad_address_is_refused_with_field_and_forms(uri: str, said: str) -> None:
    with pytest.raises(ModelUriError) as raised:
        parse_model_uri(uri)
    assert said in str(raised.value)
    assert str(raised.value).startswith("spec.model.uri: ")
    assert raised.value.allowed and raised.value.action


@pytest.mark.parametrize(("uri", "revision"), [("file:///m", "main"), ("hf://a/b", "-x"), ("hf://a/b", "a..b")])
def test_bad_revision_is_refused_under_its_own_field(uri: str, revision: str) -> None:
    with pytest.raises(ModelUriError, match=r"^spec\.model\.revision: "):
        parse_model_uri(uri, revision)


def test_only_a_commit_pins_a_repository() -> None:
    """R-172: the model is pinned by a commit; a branch can move."""
    assert parse_model_uri("hf://a/b", "0" * 40).pinned
    assert not parse_model_uri("hf://a/b", "main").pinned
    assert not parse_model_uri("hf://a/b").pinned
    assert parse_model_uri("file:///m").pinned


@given(st.text(max_size=40))
def test_path_never_leaves_its_root(rest: str) -> None:
    for scheme in ("file:///", "pvc://claim/"):
        try:
            source = parse_model_uri(scheme + rest)
        except ModelUriError:
            continue
        assert ".." not in source.path.split("/")
