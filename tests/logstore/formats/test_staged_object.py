"""Staged objects: what tasks build, leaders read; what lies is noticed."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt, Invalid
from logstore.formats.segment import (
    ENTRY,
    ENTRY_BYTES,
    HEADER_BYTES,
    Entry,
    SegmentKind,
    decode_front,
    encode_front,
)
from logstore.formats.segment_builder import bare_header
from logstore.formats.staged_object import (
    _SLICE_ENTRIES,
    StagedBuilder,
    StagedIndex,
    StagedRef,
    batches_of,
    decode_staged,
    one_leader,
)
from logstore.formats.staging_keys import SinkBatch, StagedName
from logstore.formats.topic_partition import TopicPartition
from logstore.records.batch import BatchHeader, stamp
from logstore.records.encode import encode_batch, records_of
from logstore.slices import finish
from tests.golden.samples import (
    CLUSTER_ID,
    CREATED_MS,
    SAMPLES,
    SINK_BATCH,
    TOPIC_ID,
    golden,
    nonce,
    staged_batch,
    staged_ref,
)

TOPICS = (TOPIC_ID, bytes(16))
partitions = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 3))
added_batches = st.lists(st.tuples(partitions, st.integers(1, 4)), max_size=12)


def batch_of(count: int, number: int = 0) -> bytes:
    values = [(b"%d" % number, b"%d" % row) for row in range(count)]
    return encode_batch(records_of(values, timestamp=CREATED_MS + number))


def frozen(builder: StagedBuilder, leader_of: Callable[[TopicPartition], int]) -> bytes:
    parts = builder.freeze(
        SINK_BATCH,
        cluster_id=CLUSTER_ID,
        nonce=nonce(1),
        created_ms=CREATED_MS,
        leader_of=leader_of,
    )
    return b"".join(parts)


def decoded(data: bytes) -> StagedIndex:
    ref = StagedRef(StagedName(0, 1, 2), nonce(1), len(data))
    return finish(decode_staged(data, SINK_BATCH, ref, cluster_id=CLUSTER_ID))


def read(data: bytes) -> dict[TopicPartition, list[tuple[Entry, BatchHeader, bytes]]]:
    index = decoded(data)
    body = memoryview(data)[index.header.body_at :]
    found = {}
    for one in index.ranges:
        some = body[one.start : one.end]
        found[one.partition] = [
            (entry, header, bytes(some[entry.position - one.start :][: entry.length]))
            for entry, header in batches_of(one, some, "key")
        ]
    return found


@given(added_batches)
def test_what_is_staged_is_read(added: list[tuple[TopicPartition, int]]) -> None:
    builder = StagedBuilder()
    wanted: dict[TopicPartition, list[bytes]] = {}
    for number, (partition, count) in enumerate(added):
        batch = bytearray(batch_of(count, number))
        builder.add(partition, bytes(batch))
        before = wanted.setdefault(partition, [])
        stamp(batch, 0, sum(decode_count(one) for one in before), -1)
        before.append(bytes(batch))
    data = frozen(builder, lambda one: -one.partition)

    found = read(data)

    assert {one: [line[2] for line in lines] for one, lines in found.items()} == wanted
    assert builder.size_bytes == sum(len(one) for some in wanted.values() for one in some)
    assert builder.rows() == {one: sum(map(decode_count, some)) for one, some in wanted.items()}
    assert [one.row_count for one in decoded(data).ranges] == [
        builder.next_offset(one.partition) for one in decoded(data).ranges
    ]
    order = [(-one.partition.partition, one.partition) for one in decoded(data).ranges]
    assert order == sorted(order)


def decode_count(batch: bytes) -> int:
    return int.from_bytes(batch[57:61], "big")


def test_its_bytes_are_golden() -> None:
    assert SAMPLES["staged-1"]() == golden("staged-1")


def test_a_golden_object_reads_as_ever() -> None:
    data = golden("staged-1")
    index = finish(decode_staged(data, SINK_BATCH, staged_ref(), cluster_id=CLUSTER_ID))

    assert [(one.partition.partition, len(one.entries)) for one in index.ranges] == [(0, 1), (1, 2)]
    assert [one.row_count for one in index.ranges] == [1, 2]
    assert (index.header.kind, index.header.seq) == (SegmentKind.STAGED, SINK_BATCH.batch)
    assert index.header.created_ms == CREATED_MS + 10


@pytest.mark.parametrize(
    "batch",
    [
        encode_batch(records_of([(None, b"v")], timestamp=1), producer_id=1, producer_epoch=0),
        encode_batch(records_of([(None, b"v")], timestamp=1), transactional=True),
        encode_batch(records_of([(None, b"v")], timestamp=1), control=True),
        encode_batch(records_of([(None, b"v")], timestamp=1), log_append_time=True),
        encode_batch(records_of([(None, b"v")], timestamp=1), last_offset_delta=3),
        batch_of(1) + batch_of(1),
    ],
    ids=["producer", "transactional", "control", "log append time", "gap", "two"],
)
def test_only_plain_batches_are_staged(batch: bytes) -> None:
    with pytest.raises(Invalid):
        StagedBuilder().add(TopicPartition(TOPIC_ID, 0), batch)


@pytest.mark.parametrize(
    "changed, text",
    [
        ({"ref": staged_ref()._replace(nonce=nonce(9))}, "another one than its manifest names"),
        ({"ref": staged_ref()._replace(size_bytes=17)}, "of another size"),
        ({"batch": SINK_BATCH._replace(batch=8)}, "does not match its key"),
        ({"batch": SinkBatch(bytes(16), 9)}, "does not match its key"),
        ({"cluster_id": bytes(16)}, "of another cluster"),
    ],
)
def test_an_object_counts_only_under_its_own_name(changed: dict[str, object], text: str) -> None:
    asked = {"batch": SINK_BATCH, "ref": staged_ref(), "cluster_id": CLUSTER_ID, **changed}

    with pytest.raises(Corrupt, match=text) as raised:
        finish(decode_staged(golden("staged-1"), **asked))  # type: ignore[arg-type]
    assert "key=staging/" in str(raised.value)


def with_entries(change: Callable[[list[Entry]], None]) -> bytes:
    """The golden object with other entries, and checksums that say they are right."""
    data = golden("staged-1")
    index = decode_front(data)
    entries = list(index.entries)
    change(entries)
    front = encode_front(index.header, b"".join(ENTRY.pack(*one) for one in entries), [])
    return front + data[index.header.body_at :]


def replaced(number: int, **fields: Any) -> Callable[[list[Entry]], None]:
    def change(entries: list[Entry]) -> None:
        entries[number] = entries[number]._replace(**fields)

    return change


@pytest.mark.parametrize(
    "change",
    [
        replaced(0, kind=4),
        replaced(0, flags=1),
        replaced(0, partition=-1),
        replaced(0, leader_epoch=0),
        replaced(0, base_offset=1, last_offset=1),
        replaced(2, base_offset=0, last_offset=0),
        replaced(1, record_count=2),
        replaced(1, record_count=0),
        replaced(1, producer_id=7),
        replaced(1, position=0),
        replaced(1, partition=0),
        list.reverse,
        list.pop,
        list.clear,
    ],
)
def test_entries_that_lie_are_noticed(change: Callable[[list[Entry]], None]) -> None:
    data = with_entries(change)
    ref = staged_ref()._replace(size_bytes=len(data))

    with pytest.raises(Corrupt, match="key=staging/"):
        finish(decode_staged(data, SINK_BATCH, ref, cluster_id=CLUSTER_ID))


def test_batches_that_are_not_their_entries_are_noticed() -> None:
    data = with_entries(replaced(0, max_timestamp=5))
    index = finish(decode_staged(data, SINK_BATCH, staged_ref(), cluster_id=CLUSTER_ID))
    one = index.ranges[0]
    body = memoryview(data)[index.header.body_at :]

    with pytest.raises(Corrupt, match="other records than its entry: key=k"):
        list(batches_of(one, body[one.start : one.end], "k"))
    with pytest.raises(Corrupt, match="cut short: key=k"):
        list(batches_of(one, body[one.start : one.end - 1], "k"))


def test_an_ordinary_segment_is_no_staged_object() -> None:
    data = golden("segment-1-data")
    ref = StagedRef(StagedName(0, 0, 0), nonce(1), len(data))

    with pytest.raises(Corrupt, match="does not match its key"):
        finish(decode_staged(data, SINK_BATCH, ref, cluster_id=CLUSTER_ID))


def test_an_object_without_batches_is_read() -> None:
    assert not decoded(frozen(StagedBuilder(), lambda _: 0)).ranges


def test_places_are_refused() -> None:
    header = bare_header(
        SegmentKind.STAGED, cluster_id=CLUSTER_ID, epoch=0, seq=9, broker=-1, nonce=bytes(16),
        previous_nonce=SINK_BATCH.sink, created_ms=1,
    )  # fmt: skip
    ref = StagedRef(StagedName(0, 0, 0), bytes(16), HEADER_BYTES)

    with pytest.raises(Corrupt, match="of a bad form"):
        finish(decode_staged(encode_front(header, b"", []), SINK_BATCH, ref, cluster_id=CLUSTER_ID))


def test_one_batch_costs_one_entry() -> None:
    builder = StagedBuilder()
    builder.add(TopicPartition(TOPIC_ID, 0), staged_batch(b"k"))

    assert len(frozen(builder, lambda _: 0)) == HEADER_BYTES + ENTRY_BYTES + builder.size_bytes


def test_a_large_index_is_decoded_in_slices() -> None:
    builder = StagedBuilder()
    batch = batch_of(1, 0)
    count = 3 * _SLICE_ENTRIES + 1
    for number in range(count):
        builder.add(TopicPartition(bytes(16), number % 7), batch)
    data = frozen(builder, one_leader)
    ref = StagedRef(StagedName(0, 1, 2), nonce(1), len(data))
    slices = decode_staged(data, SINK_BATCH, ref, cluster_id=CLUSTER_ID)
    breaths = sum(1 for _ in slices)

    assert breaths == 3
    index = decoded(data)
    assert sum(len(one.entries) for one in index.ranges) == count
