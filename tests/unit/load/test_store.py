"""Slots are stored once, for good, under gapless numbers, whatever the API server says on the way."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tailguard_runtime.load import store as store_module
from tailguard_runtime.load.plan import BenchmarkRef
from tailguard_runtime.load.store import (
    MANIFEST_KEY,
    MOST_BYTES,
    SLOT_KEY,
    ConfigMapStore,
    FileStore,
    NumberTakenError,
    StoreError,
    digest,
    manifest,
    next_free,
)

if TYPE_CHECKING:
    from conftest import FakeApi

BENCHMARK = BenchmarkRef(name="chat-b1", namespace="default", uid="u-1", service="chat")


@pytest.fixture
def store(
    session: aiohttp.ClientSession, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ConfigMapStore:
    monkeypatch.setattr(store_module, "_FIRST_PAUSE_S", 0.001)
    (tmp_path / "token").write_text("secret-1\n")
    return ConfigMapStore(session, api.url, BENCHMARK, tmp_path / "token", False)


async def test_a_slot_becomes_an_immutable_object_of_the_benchmark(store: ConfigMapStore, api: FakeApi) -> None:
    # When
    await store.put(0, SLOT_KEY, b"\x00arrow")

    # Then
    stored = api.objects["chat-b1-0"]
    assert stored["immutable"] is True
    assert base64.b64decode(stored["binaryData"]["slot.arrow"]) == b"\x00arrow"
    assert stored["metadata"]["labels"]["tailguard.dev/service"] == "chat"
    assert stored["metadata"]["labels"]["tailguard.dev/benchmark"] == "chat-b1"
    assert stored["metadata"]["ownerReferences"] == [
        {"apiVersion": "tailguard.dev/v1alpha1", "kind": "Benchmark", "name": "chat-b1", "uid": "u-1"}
    ]


async def test_the_token_is_read_at_every_call(store: ConfigMapStore, api: FakeApi, tmp_path: Path) -> None:
    # Given
    await store.put(0, SLOT_KEY, b"a")
    (tmp_path / "token").write_text("secret-2")

    # When
    await store.put(1, SLOT_KEY, b"b")

    # Then
    assert [header for _, header in api.calls] == ["Bearer secret-1", "Bearer secret-2"]


async def test_the_manifest_is_text(store: ConfigMapStore, api: FakeApi) -> None:
    # When
    await store.put(1, MANIFEST_KEY, manifest({"chat-b1-0": digest(b"a")}, {"outcome": "Promote"}))

    # Then
    text = api.objects["chat-b1-1"]["data"]["manifest.json"]
    assert json.loads(text) == {"sha256": {"chat-b1-0": digest(b"a")}, "proposal": {"outcome": "Promote"}}


async def test_a_taken_number_is_told_and_left_alone(store: ConfigMapStore, api: FakeApi) -> None:
    # Given
    api.objects["chat-b1-0"] = {"whose": "another's"}

    # When / Then
    with pytest.raises(NumberTakenError, match="chat-b1-0"):
        await store.put(0, SLOT_KEY, b"mine")
    assert api.objects["chat-b1-0"] == {"whose": "another's"}


async def test_the_next_free_number_is_found_without_storing_anything(store: ConfigMapStore, api: FakeApi) -> None:
    # Given
    api.objects = {f"chat-b1-{number}": {} for number in range(7)}

    # When / Then
    assert await next_free(store, 4) == 7
    assert len(api.objects) == 7


@pytest.mark.parametrize("status", [403, 429, 500, 503])
async def test_what_may_pass_is_tried_again(store: ConfigMapStore, api: FakeApi, status: int) -> None:
    # Given
    api.script = [status, status]

    # When
    await store.put(0, SLOT_KEY, b"a")

    # Then
    assert list(api.objects) == ["chat-b1-0"] and len(api.calls) == 3


async def test_a_create_that_worked_without_an_answer_is_not_stored_twice(store: ConfigMapStore, api: FakeApi) -> None:
    """The same slot under two numbers would count as evidence twice."""
    # Given
    api.swallow_next = True

    # When
    await store.put(0, SLOT_KEY, b"a")

    # Then
    assert list(api.objects) == ["chat-b1-0"]


async def test_a_dry_run_without_an_answer_still_sees_a_taken_number(store: ConfigMapStore, api: FakeApi) -> None:
    # Given
    api.objects, api.script = {"chat-b1-0": {}}, [500]

    # Then
    assert not await store.is_free(0)


@pytest.mark.parametrize(("script", "calls"), [([403] * 9, 6), ([422], 1)])
async def test_refusals_end_with_the_servers_own_words(
    store: ConfigMapStore, api: FakeApi, script: list[int], calls: int
) -> None:
    # Given
    api.script = script

    # When / Then
    with pytest.raises(StoreError, match=r"chat-b1-0 can't be created: HTTP 4\d\d: not now"):
        await store.put(0, SLOT_KEY, b"a")
    assert len(api.calls) == calls


async def test_no_api_server_is_an_error_after_some_attempts(
    session: aiohttp.ClientSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given
    monkeypatch.setattr(store_module, "_FIRST_PAUSE_S", 0.001)
    (tmp_path / "token").write_text("t")
    store = ConfigMapStore(session, "http://127.0.0.1:1", BENCHMARK, tmp_path / "token", False)

    # Then
    with pytest.raises(StoreError, match="ClientConnector"):
        await store.put(0, SLOT_KEY, b"a")


async def test_what_is_too_large_is_refused_before_it_is_sent(store: ConfigMapStore, api: FakeApi) -> None:
    with pytest.raises(StoreError, match=r"chat-b1-0: 921601 bytes: at most 921600 .* smaller slot.requests"):
        await store.put(0, SLOT_KEY, bytes(MOST_BYTES + 1))
    assert api.calls == []


def test_outside_a_pod_the_way_out_is_named(session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(StoreError, match="--out DIR"):
        ConfigMapStore.in_cluster(session, BENCHMARK)


async def test_files_hold_the_same_and_are_never_overwritten(tmp_path: Path) -> None:
    # Given
    files = FileStore(tmp_path, "chat-b1")
    await files.put(0, SLOT_KEY, b"first")

    # When
    with pytest.raises(NumberTakenError):
        await files.put(0, SLOT_KEY, b"second")

    # Then
    assert await next_free(files, 0) == 1
    assert [p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()] == ["chat-b1-0/slot.arrow"]
    assert (tmp_path / "chat-b1-0" / "slot.arrow").read_bytes() == b"first"
