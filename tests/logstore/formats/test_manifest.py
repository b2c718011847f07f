"""Manifests: what a driver fixes, leaders read; what lies is noticed."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt, Invalid, Refused
from logstore.formats.manifest import (
    INLINE_BYTES_MAX,
    Manifest,
    ManifestHead,
    ManifestTopic,
    decode_manifest,
    encode_manifest,
)
from logstore.formats.segment import ENTRY, Entry, decode_front, encode_front
from logstore.formats.staged_object import StagedBuilder, StagedRef, batches_of
from logstore.formats.staging_keys import StagedName
from logstore.formats.topic_partition import TopicPartition
from logstore.records.crc32c import crc32c
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

texts = st.text(max_size=60)
topic_lists = st.lists(
    st.builds(ManifestTopic, texts, st.binary(min_size=16, max_size=16), st.integers(1, 9)),
    max_size=3,
    unique_by=lambda topic: topic.topic_id,
)

attempts = st.lists(st.tuples(st.integers(0, 2**60), st.integers(1, 3)), max_size=3)


@st.composite
def heads(draw: st.DrawFn) -> tuple[ManifestHead, StagedBuilder]:
    topics = draw(topic_lists)
    inline, rows = StagedBuilder(), dict[TopicPartition, int]()
    refs = [
        StagedRef(StagedName(2 * task, attempt, number), draw(nonces), 999)
        for task, (attempt, count) in enumerate(draw(attempts))
        for number in range(count)
    ]
    for topic in topics:
        for partition in draw(st.sets(st.integers(0, topic.partitions - 1))):
            one = TopicPartition(topic.topic_id, partition)
            inline_rows = draw(st.integers(0 if refs else 1, 3))
            for _ in range(inline_rows):
                inline.add(one, staged_batch(b"k"))
            rows[one] = inline_rows + (draw(st.integers(1, 2**40)) if refs else 0)
    head = ManifestHead(
        query_id=draw(texts),
        run_id=draw(texts),
        topics=sorted(topics, key=lambda topic: topic.topic_id),
        rows=rows,
        objects=refs,
    )
    return head, inline


nonces = st.binary(min_size=16, max_size=16)


def encoded(head: ManifestHead, inline: StagedBuilder | None = None) -> bytes:
    parts = encode_manifest(
        SINK_BATCH,
        head,
        inline or StagedBuilder(),
        cluster_id=CLUSTER_ID,
        nonce=nonce(1),
        created_ms=CREATED_MS,
    )
    return b"".join(parts)


def decoded(data: bytes) -> Manifest:
    return decode_manifest(data, SINK_BATCH, cluster_id=CLUSTER_ID)


@given(heads())
def test_what_is_encoded_is_decoded(drawn: tuple[ManifestHead, StagedBuilder]) -> None:
    head, inline = drawn
    data = encoded(head, inline)

    found = decoded(data)

    assert found.head == head
    assert (found.nonce, found.key) == (nonce(1), SINK_BATCH.manifest_key)
    assert {one.partition: one.row_count for one in found.inline} == inline.rows()
    body = memoryview(data)[found.header.body_at :]
    for one in found.inline:
        assert len(list(batches_of(one, body[one.start : one.end], "key"))) == len(one.entries)


@pytest.mark.parametrize("name", ["manifest-1", "manifest-1-void"])
def test_its_bytes_are_golden(name: str) -> None:
    assert SAMPLES[name]() == golden(name)


def test_a_golden_manifest_reads_as_ever() -> None:
    found = decoded(golden("manifest-1"))

    head = found.head
    assert (head.query_id, head.run_id, head.is_void) == ("query", "run", False)
    assert head.topics == [ManifestTopic("orders", TOPIC_ID, 3)]
    assert head.rows == {TopicPartition(TOPIC_ID, 0): 1, TopicPartition(TOPIC_ID, 1): 3}
    assert head.objects == [staged_ref()]
    assert [(one.partition.partition, one.row_count) for one in found.inline] == [(1, 1)]


def test_a_golden_void_manifest_reads_as_ever() -> None:
    head = decoded(golden("manifest-1-void")).head

    assert head.is_void and head.query_id == "sweeper"
    assert not (head.topics or head.rows or head.objects)


HEAD = decoded(golden("manifest-1")).head
ONE = TopicPartition(TOPIC_ID, 1)


def ref(task: int, attempt: int, number: int) -> StagedRef:
    return StagedRef(StagedName(task, attempt, number), nonce(1), 400)


@pytest.mark.parametrize(
    "head",
    [
        replace(HEAD, rows={TopicPartition(TOPIC_ID, 3): 1}),
        replace(HEAD, rows={ONE: 0}),
        replace(HEAD, is_void=True),
        replace(HEAD, objects=[ref(1, 5, 1)]),
        replace(HEAD, objects=[ref(1, 5, 0), ref(1, 6, 1)]),
        replace(HEAD, objects=[ref(1, 5, 0), ref(1, 6, 0)]),
        replace(HEAD, objects=[ref(1, 5, 0), ref(0, 6, 0)]),
        replace(HEAD, objects=[ref(1, 5, 0), ref(1, 5, 0)]),
        replace(HEAD, topics=[*HEAD.topics, *HEAD.topics]),
        replace(HEAD, query_id="q" * 256),
    ],
    ids=[
        "partition beyond the topic",
        "no rows",
        "void",
        "numbers from 1",
        "two attempts",
        "two attempts of a task",
        "tasks fall",
        "twice",
        "a topic twice",
        "long id",
    ],
)
def test_a_head_that_no_reader_accepts_is_not_written(head: ManifestHead) -> None:
    with pytest.raises((Corrupt, Invalid)):
        encoded(head)


def test_more_bytes_than_a_manifest_holds_are_not_written() -> None:
    inline = StagedBuilder()
    inline.size_bytes = INLINE_BYTES_MAX + 1

    with pytest.raises(Invalid, match="too many bytes in a manifest"):
        encoded(ManifestHead(query_id="", run_id="", rows={}), inline)


@pytest.mark.parametrize(
    "rows, objects",
    [
        ({ONE: 2}, []),
        ({}, []),
        ({ONE: 1, TopicPartition(TOPIC_ID, 2): 1}, []),
        ({}, [ref(0, 0, 0)]),
    ],
    ids=["too many", "too few", "of no batch", "too few beside an object"],
)
def test_rows_that_are_miscounted_are_noticed(
    rows: dict[TopicPartition, int], objects: Sequence[StagedRef]
) -> None:
    inline = StagedBuilder()
    inline.add(ONE, staged_batch(b"k"))
    data = encoded(replace(HEAD, rows=rows, objects=objects), inline)

    with pytest.raises(Corrupt, match=r"(miscounts|lie nowhere).*key=staging/"):
        decoded(data)


def with_head(change: Callable[[bytes], bytes]) -> bytes:
    """The golden void manifest with another head, and checksums that say it is right."""
    data = golden("manifest-1-void")
    index = decode_front(data)
    head = change(data[index.header.body_at :])
    entry = Entry(*ENTRY.unpack(data[112:208]))._replace(length=len(head), crc=crc32c(head))
    header = replace(index.header, body_bytes=len(head), body_crc=crc32c(head))
    return encode_front(header, ENTRY.pack(*entry), []) + head


@pytest.mark.parametrize(
    "change, error, text",
    [
        (lambda head: b"\0\2" + head[2:], Refused, "unknown version: version=2"),
        (lambda head: head[:2] + b"\3" + head[3:], Refused, "unknown version: version=1 flags=3"),
        (lambda head: head + b"\0", Corrupt, "bytes left over"),
        (lambda head: head[:-1], Corrupt, "cut short"),
        (lambda head: head[:-4] + struct.pack(">I", 2**31), Corrupt, "cut short"),
        (lambda head: head[:3] + b"\1\xff" + head[11:], Corrupt, "cut short"),
        (lambda head: b"", Corrupt, "cut short"),
    ],
)
def test_heads_that_lie_are_noticed(
    change: Callable[[bytes], bytes], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as raised:
        decoded(with_head(change))
    assert "key=staging/" in str(raised.value)


def test_a_staged_object_is_no_manifest() -> None:
    with pytest.raises(Corrupt, match="manifest without a head: key="):
        decoded(golden("staged-1"))
    with pytest.raises(Corrupt, match="does not match its key: key="):
        decode_manifest(golden("manifest-1"), SINK_BATCH._replace(batch=8), cluster_id=CLUSTER_ID)


@given(st.binary(max_size=300))
def test_no_bytes_of_a_head_break_the_decoder(head: bytes) -> None:
    with pytest.raises((Corrupt, Refused)):
        decoded(with_head(lambda _: b"\0\1" + head + b"\1"))
