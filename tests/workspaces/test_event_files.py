"""Event files: what is read of them while they grow, when they are torn, damaged, or full of other things."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.workspaces.event_files import (
    MAX_RECORD_BYTES,
    MAX_TAG_LENGTH,
    Restart,
    Scalar,
    is_event_file,
    masked_crc32c,
    read_events,
)
from tests.workspaces.event_records import FILE_VERSION, event, field, masked, record, scalar_record, simple, tensor

floats = st.floats(width=32, allow_nan=False)
scalars = st.lists(
    st.builds(
        Scalar,
        st.text(st.characters(codec="utf-8"), max_size=12),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(0, 4e9),
        floats,
    ),
    max_size=8,
)


def written(of: list[Scalar]) -> bytes:
    return FILE_VERSION + b"".join(scalar_record(*each) for each in of)


@given(st.binary(max_size=40))
def test_checksums_are_those_of_tfrecords(data: bytes) -> None:
    assert struct.pack("<I", masked_crc32c(data)) == masked(data)


@given(scalars)
def test_reads_what_was_written(of: list[Scalar]) -> None:
    data = written(of)
    chunk = read_events(data)
    assert (chunk.scalars, chunk.consumed, chunk.problem) == (of, len(data), "")


@given(scalars, st.data())
def test_a_file_that_grows_is_read_in_pieces_with_the_same_result(of: list[Scalar], data: st.DataObject) -> None:
    whole, offset, found = written(of), 0, []
    for end in [*sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5))), len(whole)]:
        chunk = read_events(whole[offset:end], offset=offset)
        assert chunk.problem == ""
        found += chunk.scalars
        offset += chunk.consumed
    assert (found, offset) == (of, len(whole))


@given(scalars, st.data())
def test_damage_is_reported_and_nothing_after_it_is_read(of: list[Scalar], data: st.DataObject) -> None:
    whole = bytearray(written(of))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    chunk = read_events(bytes(whole))
    assert chunk.scalars == of[: len(chunk.scalars)]
    assert chunk.consumed <= at
    assert "is damaged" in chunk.problem and f"byte {chunk.consumed}" in chunk.problem


@given(st.binary(max_size=200))
def test_no_record_raises(payload: bytes) -> None:
    chunk = read_events(record(payload))
    assert chunk.problem == "" or "is not an event" in chunk.problem


@pytest.mark.parametrize(
    ("name", "proto", "value"),
    [
        ("float, listed", b"\x08\x01" + field(5, struct.pack("<f", 0.5)), 0.5),
        ("float, not packed", b"\x08\x01\x2d" + struct.pack("<f", 0.5), 0.5),
        ("float, as content", b"\x08\x01" + field(4, struct.pack("<f", 0.5)), 0.5),
        ("double", b"\x08\x02" + field(4, struct.pack("<d", 0.1)), 0.1),
        ("int32", b"\x08\x03" + field(7, b"\x07"), 7.0),
        ("int64 below zero", b"\x08\x09" + field(10, b"\xff" * 9 + b"\x01"), -1.0),
        ("uint64", b"\x08\x17" + field(17, b"\xff" * 9 + b"\x01"), float(2**64 - 1)),
        ("half", b"\x08\x13" + field(13, b"\x80\x70"), 0.5),
        ("bfloat16", b"\x08\x0e" + field(4, b"\x00\x3f"), 0.5),
        ("zero, left out", b"\x08\x01", 0.0),
        ("a vector", b"\x08\x01" + field(4, struct.pack("<ff", 1, 2)), None),
        ("a listed vector", b"\x08\x03" + field(7, b"\x07\x08"), None),
        ("a string", b"\x08\x07" + field(8, b"text"), None),
    ],
)
def test_tensors_of_tensorflow_2(name: str, proto: bytes, value: float | None) -> None:
    found = read_events(record(event(3, 2.0, tensor("loss", proto)))).scalars
    assert found == ([Scalar("loss", 3, 2.0, value)] if value is not None else [])


def test_only_the_first_value_of_a_tag_names_its_plugin() -> None:
    one = b"\x08\x01" + field(4, struct.pack("<f", 1.0))
    first = read_events(record(event(1, 1.0, tensor("loss", one), tensor("words", one, "text"))))
    later = record(event(2, 2.0, tensor("loss", one, None), tensor("words", one, None)))
    assert [each.tag for each in first.scalars] == ["loss"]
    assert [each.tag for each in read_events(later, first.scalar_tags).scalars] == ["loss"]
    assert read_events(later).scalars == []


def test_several_values_in_one_event_and_values_that_are_not_finite() -> None:
    data = record(event(1, 1.0, simple("a", math.inf), simple("b", math.nan), field(1, b"image") + field(4, b"png")))
    a, b = read_events(data).scalars
    assert a == Scalar("a", 1, 1.0, math.inf) and b.tag == "b" and math.isnan(b.value)


def test_long_tags_are_cut_off() -> None:
    (only,) = read_events(scalar_record("x" * 1000, 1, 1.0, 1.0)).scalars
    assert only.tag == "x" * MAX_TAG_LENGTH


def test_large_records_are_skipped_before_they_are_complete() -> None:
    large = record(bytes(MAX_RECORD_BYTES + 1))
    data = large + scalar_record("loss", 1, 1.0, 0.5)
    begun = read_events(data[:5000])
    assert (begun.consumed, begun.skipped, begun.problem) == (len(large), 1, "")
    assert [each.tag for each in read_events(data[begun.consumed :]).scalars] == ["loss"]


def test_a_program_that_continues_from_a_checkpoint_says_so() -> None:
    data = record(event(100, 5.0, more=field(7, b"\x08\x01"))) + record(event(1, 6.0, more=field(7, b"\x08\x02")))
    assert read_events(data).restarts == [Restart(100, 5.0)]


def test_tags_without_end_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.workspaces.event_files.MAX_SCALAR_TAGS", 2)
    proto = b"\x08\x01" + field(4, struct.pack("<f", 0.5))
    chunk = read_events(b"".join(record(event(1, 1.0, tensor(f"tag {number}", proto))) for number in range(5)))
    assert (len(chunk.scalars), len(chunk.scalar_tags)) == (5, 2)


def test_names_of_event_files() -> None:
    assert is_event_file("runs/a/events.out.tfevents.1700000000.host.1.0")
    assert not is_event_file("tfevents/checkpoint.pt")
