"""The record of a topic: bytes that stay as they are, and which of several counts."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt, Refused
from logstore.formats.topic_record import (
    TopicRecord,
    decode_record,
    encode_record,
    record_key,
    record_place,
    record_problem,
    valid_record,
)
from logstore.formats.topic_row import TopicRow, TopicStatus
from tests.golden.samples import SAMPLES, TOPIC_ID, golden, topic_record

LIVE, DELETING, DELETED = TopicStatus.LIVE, TopicStatus.DELETING, TopicStatus.DELETED
KEY = record_key(TOPIC_ID, 4)

topic_rows = st.builds(
    TopicRow,
    st.binary(min_size=16, max_size=16),
    st.sampled_from(TopicStatus),
    st.integers(1, 10_000),
    st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
    st.integers(1, 100),
    st.integers(0, 2**62),
)


def of_version(version: int, status: TopicStatus = LIVE, partitions: int = 3) -> TopicRecord:
    return TopicRecord("orders", TopicRow(TOPIC_ID, status, partitions, {}, 1, version))


@given(st.text(max_size=9), topic_rows)
def test_what_is_written_is_read(name: str, topic: TopicRow) -> None:
    record = TopicRecord(name, topic)

    assert decode_record(record.key, encode_record(record)) == record
    assert record_place(record.key) == (topic.topic_id, topic.version)


def test_its_bytes_are_golden() -> None:
    assert SAMPLES["topic-record-1"]() == golden("topic-record-1")


def test_a_golden_record_reads_as_ever() -> None:
    assert decode_record(KEY, golden("topic-record-1")) == topic_record()


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(golden("topic-record-1")), **fields}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        golden("topic-record-1")[:-9],
        changed(status="asleep"),
        changed(topic_id="xyz"),
        changed(partitions="3"),
        changed(configs=[]),
        changed(version=5),
    ],
)
def test_what_is_not_the_record_of_its_key_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match=KEY):
        decode_record(KEY, data)


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(Refused, match="upgrade"):
        decode_record(KEY, b'{"format": 2}')


@pytest.mark.parametrize(
    "key",
    [
        "topics/",
        "topics//00000000000000000001",
        KEY + "0",
        KEY[:-1],
        KEY.upper(),
        KEY.replace("topics", "chains"),
    ],
)
def test_no_other_key_is_a_records(key: str) -> None:
    assert record_place(key) is None


def test_the_newest_counts_unless_one_says_deleted() -> None:
    older, newer, late = of_version(1), of_version(2), of_version(4)
    deletion = of_version(3, DELETED)

    assert valid_record([newer, older]) == newer
    assert valid_record([older, deletion, late]) == deletion


@pytest.mark.parametrize(
    ("status", "records", "is_problem"),
    [
        (LIVE, [of_version(2)], False),
        (LIVE, [of_version(1), of_version(2), of_version(3)], False),
        (LIVE, [], True),
        (LIVE, [of_version(1)], True),
        (LIVE, [of_version(2, partitions=4)], True),
        (LIVE, [of_version(2), of_version(3, DELETED)], True),
        (DELETING, [of_version(2)], False),
        (DELETING, [of_version(3, DELETED)], False),
        (DELETED, [of_version(1), of_version(2, DELETED)], False),
        (DELETED, [of_version(2)], True),
    ],
)
def test_row_and_records_agree(
    status: TopicStatus, records: list[TopicRecord], is_problem: bool
) -> None:
    row = replace(of_version(2).topic, status=status)

    assert (record_problem("orders", row, records) is not None) == is_problem
