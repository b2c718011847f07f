"""A broker whose older records lie in tables: what clients see of it, and of damage."""

import json
import logging
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import pytest

from logstore.formats.table_row import TABLE, TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.history.delta import Tables
from logstore.history.forms.names import entry_key, table_key
from logstore.history.forms.snapshot import TableCommit
from logstore.history.write import TableWriter
from logstore.protocol.deletion.trimming import Trimmer, sealed
from logstore.records.batch import BatchHeader, Codec, split_batches
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.fetch import PartitionData
from tests.broker.handlers.test_list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    list_one,
)
from tests.broker.handlers.test_offset_for_leader_epoch import ask
from tests.broker.running import Running, Shared, fetch, produce
from tests.logstore.moved import decoded

MOVED = 30
"""Offsets of each topic that are in the table alone; as many more are in segments."""

NAMES: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "zstd": {"compression.type": "zstd"},
    "damaged": {},
    "lost": {},
    "owned": {},
}


class Old(NamedTuple):
    running: Running
    client: Connection


def batch(number: int, compression: Codec = "none") -> bytes:
    stamps = (1000 + number, 2000 - number, 1500)
    records = [Record(i, at, b"k%d" % number, b"v" * 100) for i, at in enumerate(stamps)]
    return encode_batch(records, compression=compression)


def bytes_of(data: PartitionData) -> bytes:
    assert data.error_code == 0, ErrorCode(data.error_code)
    assert data.records is not None and not isinstance(data.records, list)
    return bytes(data.records)


def read(client: Connection, name: str, offset: int = 0, **fields: int) -> list[BatchHeader]:
    """Every batch, as a consumer meets them."""
    found = []
    while records := bytes_of(fetch(client, name, offset=offset, **fields)):
        headers = [header for _, header in split_batches(records)]
        found += headers
        offset = headers[-1].next_offset
    return found


def move(running: Running, name: str, client: Connection) -> TopicPartition:
    """What compaction does."""
    key = TopicPartition(running.log.topics[name].topic_id, 0)
    writer = TableWriter(running.shared.objects, *key, "by-hand", 0, row_group_bytes=2000)
    for rows in decoded(bytes_of(fetch(client, name)), 0, MOVED):
        writer.write(rows)
    tables = Tables("/memory", store=running.shared.objects)
    commit = TableCommit({0: 0}, {0: MOVED}, writer.close(), run="by-hand")
    tables.commit(tables.create(key.topic_id, name), commit)
    return key


def delete_tables_files(running: Running, name: str) -> list[str]:
    prefix = table_key(running.log.topics[name].topic_id) + "/partition="
    keys = [info.key for info in running.shared.objects.list(prefix)]
    for key in keys:
        running.shared.objects.delete(key)
    return keys


@pytest.fixture(scope="module")
def old() -> Iterator[Old]:
    """A chain's records were moved, it was trimmed as a whole, and another goes on."""
    shared = Shared()
    first = Running({}, 1, shared=shared)
    first.start()
    with first.connect() as client:
        for name, configs in NAMES.items():
            first.create_topic(name, configs=configs)
            for number in range(10):
                produce(client, name, batch(number))
        held = {move(first, name, client): MOVED for name in NAMES}
    first.stop()
    running = Running({}, 1, shared=shared)
    running.start()
    with running.connect() as client:
        for name in NAMES:
            for number in range(10, 20):
                produce(client, name, batch(number, "gzip"))
        trimmer = Trimmer(running.log.cluster_id, grace_ms=0)
        done = [
            running.wait_for(running.log.runner.run(trimmer.steps(sealed, held))) for _ in range(2)
        ]
        assert sum(done[-1].deleted.values()) > 0
        for key in delete_tables_files(running, "damaged"):
            shared.objects.create(key, [b"no parquet" * 1000])
        delete_tables_files(running, "lost")
        yield Old(running, client)
    running.stop()


def test_a_consumer_reads_from_the_beginning_over_the_seam(old: Old) -> None:
    found = read(old.client, "plain", partition_max_bytes=700)

    assert (found[0].base_offset, found[-1].next_offset) == (0, 2 * MOVED)
    assert all(one.next_offset == two.base_offset for one, two in pairwise(found))
    assert all(one.record_count == one.next_offset - one.base_offset for one in found)
    assert all(one.leader_epoch == (one.base_offset >= MOVED) for one in found)


@pytest.mark.parametrize(
    ("name", "of_table", "of_segments"), [("plain", "lz4", "gzip"), ("zstd", "zstd", "zstd")]
)
def test_batches_are_compressed_as_the_topic_says(
    old: Old, name: str, of_table: str, of_segments: str
) -> None:
    """They came as gzip."""
    found = read(old.client, name)

    assert found[0].compression == of_table
    assert found[-1].compression == of_segments


def test_what_can_be_read_and_where_it_lies_is_reported(old: Old) -> None:
    data = fetch(old.client, "plain")
    assert (data.high_watermark, data.log_start_offset) == (60, 0)
    assert list_one(old.client, "plain", EARLIEST).offset == 0
    assert list_one(old.client, "plain", EARLIEST_LOCAL).offset == MOVED


def test_the_last_tiered_offset_is_what_the_copy_row_says(old: Old) -> None:
    topic_id = old.running.log.topics["plain"].topic_id
    row = TableRow(version=1, ends={0: MOVED}).row()
    registry = old.running.log.runner.registry
    old.running.wait_for(registry.put_if(TABLE, topic_id.hex(), row))

    assert list_one(old.client, "plain", LATEST_TIERED).offset == MOVED - 1


def test_times_are_found_in_the_table_first(old: Old) -> None:
    for timestamp, offset, epoch in ((0, 0, 0), (1500, 1, 0), (1992, 1, 0), (2000, 1, 0)):
        one = list_one(old.client, "plain", timestamp)
        assert (one.error_code, one.offset, one.leader_epoch) == (0, offset, epoch)
    latest = list_one(old.client, "plain", MAX_TIMESTAMP)
    assert (latest.offset, latest.timestamp, latest.leader_epoch) == (1, 2000, 0)
    assert list_one(old.client, "plain", 2001).offset == -1


def test_a_stretch_that_is_only_in_the_table_ended_where_the_next_began(old: Old) -> None:
    answer = ask(old.client, "plain", 0)

    assert (answer.error_code, answer.end_offset) == (0, MOVED)


@pytest.mark.parametrize(
    ("name", "trouble"), [("damaged", "cannot be read"), ("lost", "names a file that is gone")]
)
def test_what_is_damaged_is_reported_and_the_rest_is_served(
    old: Old, name: str, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        data = fetch(old.client, name)
        by_time = list_one(old.client, name, 1500)

    storage_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert (data.error_code, by_time.error_code) == (storage_error, storage_error)
    assert any(trouble in record.getMessage() for record in caplog.records)
    assert read(old.client, name, MOVED)[-1].next_offset == 2 * MOVED
    assert read(old.client, "plain")[-1].next_offset == 2 * MOVED


def test_below_log_start_is_out_of_range_as_ever(old: Old) -> None:
    leader = old.running.log.topics["zstd"].leaders[0]
    old.running.do(lambda: leader.raise_log_start(10))

    assert fetch(old.client, "zstd", offset=9).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert read(old.client, "zstd", 10)[0].base_offset <= 10
    assert list_one(old.client, "zstd", 0).offset == 10


def test_a_table_with_deletion_vectors_is_refused_with_what_to_do(
    old: Old, caplog: pytest.LogCaptureFixture
) -> None:
    topic_id = old.running.log.topics["owned"].topic_id
    feature = ["deletionVectors"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": feature,
        "writerFeatures": feature,
    }
    entry = json.dumps({"protocol": protocol}).encode()
    old.running.shared.objects.create(entry_key(topic_id, 2), [entry])
    with caplog.at_level(logging.ERROR):
        data = fetch(old.client, "owned")

    assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert any("DROP FEATURE deletionVectors" in one.getMessage() for one in caplog.records)
    assert read(old.client, "owned", MOVED)[-1].next_offset == 2 * MOVED
