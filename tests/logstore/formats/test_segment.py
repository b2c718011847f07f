"""Bytes of segments: what is written is read, what is damaged noticed, what is old read."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt, Refused
from logstore.formats.segment import (
    ENTRY,
    FORMAT,
    FORMAT_ADOPT_END,
    HEADER_BYTES,
    IDENTITY_BYTES,
    AdoptEnd,
    Entry,
    EntryKind,
    Header,
    SegmentKind,
    StagedObject,
    body_of,
    decode_front,
    decode_header,
    encode_front,
)
from logstore.formats.segment_builder import bare_header
from tests.golden.samples import BROKER, CLUSTER_ID, CREATED_MS, EPOCH, SAMPLES, SINK, golden, nonce

I64 = st.integers(-(2**63), 2**63 - 1)
U64 = st.integers(0, 2**63 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
U32 = st.integers(0, 2**32 - 1)

places = st.lists(
    st.builds(
        StagedObject,
        st.text("az09/-", min_size=1, max_size=40),
        st.binary(min_size=16, max_size=16),
    ),
    max_size=3,
)
BODY_BYTES = 10_000
entries = st.builds(
    Entry,
    kind=st.sampled_from([int(kind) for kind in EntryKind]),
    flags=st.integers(0, 7),
    place=st.just(0),
    partition=I32,
    topic_id=st.binary(min_size=16, max_size=16),
    leader_epoch=I32,
    length=st.integers(0, 5_000),
    position=st.integers(0, 5_000),
    base_offset=I64,
    last_offset=I64,
    producer_id=I64,
    producer_epoch=st.integers(-(2**15), 2**15 - 1),
    base_sequence=I32,
    max_timestamp=I64,
    max_timestamp_offset=I64,
    record_count=st.integers(0, 2**32 - 1),
    crc=st.integers(0, 2**32 - 1),
)
headers = st.builds(
    bare_header,
    st.sampled_from(SegmentKind),
    cluster_id=st.binary(min_size=16, max_size=16),
    epoch=U64,
    seq=U64,
    broker=I32,
    nonce=st.binary(min_size=16, max_size=16),
    previous_nonce=st.binary(min_size=16, max_size=16),
    created_ms=I64,
    body_bytes=st.just(BODY_BYTES),
    body_crc=st.integers(0, 2**32 - 1),
)


def front_of(*entries: Entry, body_bytes: int = BODY_BYTES) -> bytes:
    header = bare_header(
        SegmentKind.DATA,
        cluster_id=CLUSTER_ID,
        epoch=EPOCH,
        seq=3,
        broker=BROKER,
        nonce=nonce(3),
        previous_nonce=nonce(2),
        created_ms=CREATED_MS,
        body_bytes=body_bytes,
    )
    return encode_front(header, b"".join(ENTRY.pack(*entry) for entry in entries), [])


BATCH = Entry(1, 0, 0, 0, bytes(16), 0, 10, 0, 0, 0, -1, -1, -1, 0, 0, 1, 0)


@given(headers, st.lists(entries, max_size=5), places)
def test_what_is_encoded_is_decoded(
    header: Header, found: list[Entry], table: list[StagedObject]
) -> None:
    front = encode_front(header, b"".join(ENTRY.pack(*entry) for entry in found), table)
    index = decode_front(front + b"the body")

    assert list(index.entries) == found
    assert list(index.places) == table
    assert index.header.body_at == len(front)
    counts = (index.header.entry_count, index.header.index_bytes, index.header.place_count)
    assert index.header == replace(
        header, entry_count=counts[0], index_bytes=counts[1], place_count=counts[2]
    )


@pytest.mark.parametrize("name", [name for name in SAMPLES if name.startswith("segment")])
def test_segments_are_written_as_ever(name: str) -> None:
    assert SAMPLES[name]() == golden(name)


def test_a_golden_segment_that_forgets_reads_as_ever() -> None:
    forget, cut = decode_front(golden("segment-2-forgetting")).entries

    assert (forget.kind, forget.leader_epoch, forget.base_offset) == (EntryKind.FORGET, 2, 45)
    assert (cut.kind, cut.partition, cut.base_offset) == (EntryKind.CUT, -1, 1)


def test_a_golden_segment_that_says_what_was_deleted_reads_as_ever() -> None:
    (entry,) = decode_front(golden("segment-3-deleted-below")).entries

    kind = EntryKind.DELETED_BELOW
    assert (entry.kind, entry.partition, entry.base_offset) == (kind, 1, 43)


def test_a_golden_segment_with_copied_batches_reads_as_ever() -> None:
    first, second, end = decode_front(golden("segment-4-adopt-end")).entries

    assert (first.kind, second.kind, end.kind) == (
        EntryKind.BATCH,
        EntryKind.BATCH,
        EntryKind.ADOPT_END,
    )
    assert AdoptEnd.of(end) == AdoptEnd(SINK, 13, 2, 3, 45, 48)


@given(st.builds(AdoptEnd, st.binary(min_size=16, max_size=16), I64, I32, U32, I64, I64), I32, I32)
def test_an_adopt_end_is_read_as_it_was_written(end: AdoptEnd, partition: int, epoch: int) -> None:
    entry = end.entry(b"t" * 16, partition, epoch)
    (stored,) = decode_front(front_of(entry)).entries

    assert (stored, AdoptEnd.of(stored)) == (entry, end)
    assert decode_header_format(front_of(entry)) == FORMAT_ADOPT_END
    assert decode_header_format(front_of(BATCH)) == FORMAT


def decode_header_format(front: bytes) -> int:
    return int.from_bytes(front[4:6], "big")


def test_a_golden_segment_reads_as_ever() -> None:
    data = golden("segment-1-data")
    index = decode_front(data)
    header = index.header

    assert (header.kind, header.epoch, header.seq, header.broker) == (SegmentKind.DATA, 5, 1, 7)
    assert (header.cluster_id, header.nonce, header.previous_nonce) == (
        CLUSTER_ID,
        nonce(1),
        nonce(0),
    )
    take, batch = index.entries
    assert (take.kind, take.base_offset, take.last_offset) == (EntryKind.TAKE, 43, 42)
    assert (batch.kind, batch.base_offset, batch.last_offset) == (EntryKind.BATCH, 43, 44)
    assert batch.position + batch.length == header.body_bytes
    assert len(body_of(data, header)) == header.body_bytes


@given(st.integers(0, len(golden("segment-1-data")) - 1))
def test_a_segment_cut_short_is_noticed(length: int) -> None:
    data = golden("segment-1-data")[:length]

    with pytest.raises(Corrupt):
        body_of(data, decode_front(data).header)


@given(st.binary(max_size=300))
def test_no_bytes_from_outside_break_the_decoder(data: bytes) -> None:
    with pytest.raises((Corrupt, Refused)):
        decode_front(data)


def test_an_unknown_kind_of_entry_is_refused_not_skipped() -> None:
    with pytest.raises(Refused, match="unknown kind: kind=10"):
        decode_front(front_of(BATCH._replace(kind=10)))


@pytest.mark.parametrize("at, value, text", [(4, b"\0\5", "format=5"), (6, b"\4", "kind=4")])
def test_a_newer_format_is_refused_before_anything_is_believed(
    at: int, value: bytes, text: str
) -> None:
    front = bytearray(front_of(BATCH))
    front[at : at + len(value)] = value

    with pytest.raises(Refused, match=text):
        decode_header(bytes(front))


@pytest.mark.parametrize("entry", [BATCH._replace(position=BODY_BYTES), BATCH._replace(place=1)])
def test_an_entry_that_points_outside_is_corrupt(entry: Entry) -> None:
    with pytest.raises(Corrupt, match=r"points past the body|names no place"):
        decode_front(front_of(entry))


def test_the_identity_is_all_that_tells_two_segments_apart() -> None:
    """A writer that finds these bytes under a key knows whose put won."""
    one, other = front_of(BATCH), front_of(BATCH._replace(partition=9))

    assert one[:IDENTITY_BYTES] == other[:IDENTITY_BYTES]
    assert nonce(3) in one[:IDENTITY_BYTES] and nonce(2) in one[:IDENTITY_BYTES]
    assert struct.unpack_from(">QQ", one, 24) == (EPOCH, 3)
    assert len(one) == HEADER_BYTES + ENTRY.size
