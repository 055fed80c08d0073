"""`tailguard replay`: the same verdict from the stored samples, or it says what differs."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from tailguard_runtime.judge import encode_slot

NAME = "chat-bbbb-b2"


def test_the_same_samples_give_the_same_verdict(api: Any, tailguard: Any, samples: Any, stored: Any) -> None:
    """R-022: a drift is told with both numbers."""
    # Given a Benchmark with a drift of 40 %, as Job and operator stored it
    stored(samples(30, ratio=1.4))
    # When it is replayed
    ended = tailguard("replay", NAME)
    # Then the verdict is the same, and the message has both figures and the tolerance
    assert ended.code == 0
    assert "the same verdict as the stored one" in ended.text
    assert "1.40 times the twin's" in ended.text and "tolerance 1.08" in ended.text
    assert "1382 ms against 963 ms" in ended.text


def test_a_promotion_is_replayed_with_its_claim(tailguard: Any, samples: Any, stored: Any) -> None:
    # Given a proved change
    stored(samples(120, noise=0.02))
    # When it is replayed
    ended = tailguard("replay", NAME)
    # Then it says what was proven
    assert ended.code == 0
    assert ended.text.startswith("Promote after") and "Proven" in ended.text


def test_a_changed_sample_is_noticed(api: Any, tailguard: Any, samples: Any, stored: Any) -> None:
    # Given a stored verdict
    measured = samples(30, ratio=1.4)
    stored(measured)
    # When one latency of one stored slot is another
    half = measured[2].canary
    latencies = half.e2e_s.copy()
    latencies[7] *= 3
    forged = replace(measured[2], canary=replace(half, e2e_s=latencies))
    data = base64.b64encode(encode_slot(forged, benchmark=NAME)).decode()
    api.put_config_map(f"{NAME}-2", binaryData={"slot.arrow": data}, immutable=True)
    ended = tailguard("replay", NAME)
    # Then the verdict differs in a figure, and the exit code is 1
    assert ended.code == 1
    assert "differs: estimates[" in ended.text


def test_a_sample_that_changes_no_figure_is_found_by_its_digest(
    api: Any, tailguard: Any, samples: Any, stored: Any
) -> None:
    # Given a record whose manifest lists the digest of every slot
    measured = samples(12, ratio=1.4)
    stored(measured)
    digests = {f"{NAME}-{s.number}": hashlib.sha256(encode_slot(s, benchmark=NAME)).hexdigest() for s in measured}
    api.put_config_map(f"{NAME}-12", data={"manifest.json": json.dumps({"sha256": digests})})
    assert tailguard("replay", NAME).code == 0
    # When a note in a slot behind the deciding one is another, which no figure shows
    forged = replace(measured[11], facts={"seed": "8"})
    data = base64.b64encode(encode_slot(forged, benchmark=NAME)).decode()
    api.put_config_map(f"{NAME}-11", binaryData={"slot.arrow": data})
    # Then the record is refused and the slot is named
    ended = tailguard("replay", NAME)
    assert ended.code == 1
    assert f"{NAME}-11 are not those that were stored" in ended.text


def test_a_changed_verdict_is_noticed(api: Any, tailguard: Any, samples: Any, stored: Any) -> None:
    # Given a rollback
    benchmark = stored(samples(30, ratio=1.4))
    # When the stored verdict says something else
    benchmark["status"]["verdict"] |= {"outcome": "Promote", "reason": "NonInferior"}
    ended = tailguard("replay", NAME)
    # Then both are told
    assert ended.code == 1
    assert "differs: outcome: stored Promote, now GrossAlarm" in ended.text


def test_slots_behind_a_manifest_are_counted_by_their_place(
    api: Any, tailguard: Any, samples: Any, stored: Any
) -> None:
    # Given a record of two Jobs: the first ended with a manifest, the second went on behind it
    measured = samples(60, noise=0.1)
    stored(measured)
    for slot in measured[5:]:
        moved = encode_slot(replace(slot, number=slot.number + 1), benchmark=NAME)
        api.put_config_map(f"{NAME}-{slot.number + 1}", binaryData={"slot.arrow": base64.b64encode(moved).decode()})
    api.put_config_map(f"{NAME}-5", data={"manifest.json": json.dumps({"sha256": {}})})
    # When it is replayed, it is the same verdict
    assert tailguard("replay", NAME).code == 0


def test_slots_stored_after_the_end_do_not_count(tailguard: Any, api: Any, samples: Any, stored: Any) -> None:
    # Given a Benchmark that was ended by hand after five slots, while its Job stored two more
    measured = samples(7)
    benchmark = stored(measured[:5])
    for slot in measured[5:]:
        data = base64.b64encode(encode_slot(slot, benchmark=NAME)).decode()
        api.put_config_map(f"{NAME}-{slot.number}", binaryData={"slot.arrow": data})
    # When it is replayed, it is the verdict of then
    assert benchmark["status"]["verdict"]["slots"] == 5
    assert tailguard("replay", NAME).code == 0


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        ("nothing", "there is no Benchmark chat-bbbb-b2 in namespace default"),
        ("no samples", "Benchmark chat-bbbb-b2 in namespace default has no stored samples"),
        ("no verdict", "has no verdict to compare with yet"),
    ],
)
def test_no_data_is_an_error_of_its_own(
    prepare: str, sentence: str, api: Any, tailguard: Any, samples: Any, stored: Any
) -> None:
    """R-020, R-022: nothing to judge is neither pass nor fail: exit code 3."""
    # Given a Benchmark that is not there, has no samples, or no verdict
    if prepare != "nothing":
        stored(samples(0 if prepare == "no samples" else 3), verdict=prepare != "no verdict")
    # When it is replayed
    ended = tailguard("replay", NAME)
    # Then the exit code is 3 and the sentence says what is missing
    assert (ended.code, sentence in ended.text) == (3, True), ended.text


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ({"binaryData": {"slot.arrow": "bm90IGFycm93"}}, "error:"),
        ({"binaryData": {"slot.arrow": "!!"}}, "ConfigMap chat-bbbb-b2-1 can't be read"),
        ({"data": {"x": "y"}}, "ConfigMap chat-bbbb-b2-1 can't be read"),
        ({"data": {"manifest.json": "{"}}, "ConfigMap chat-bbbb-b2-1 can't be read"),
    ],
)
def test_samples_that_cannot_be_read_are_never_a_pass(
    damage: dict[str, Any], sentence: str, api: Any, tailguard: Any, samples: Any, stored: Any
) -> None:
    """R-020: unreadable evidence is an error."""
    # Given a record with a damaged ConfigMap
    stored(samples(3))
    api.put_config_map(f"{NAME}-1", **damage)
    # When it is replayed
    ended = tailguard("replay", NAME)
    # Then the exit code is 1 and the ConfigMap or what is wrong with it is named
    assert ended.code == 1
    assert sentence in ended.text
