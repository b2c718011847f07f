"""A broker whose older records lie in tables: what clients see on the wire, and when it is damaged."""

import logging
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from logstore.history.delta import Tables
from logstore.history.names import table_key
from logstore.history.snapshot import TableCommit
from logstore.history.write import TableWriter
from logstore.pieces import TopicPartition
from logstore.records.batch import Codec, split_batches
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.trimming import Trimmer, sealed
from logstore.wire.client import Connection
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.fetch import PartitionData
from tests.broker.running import Running, Shared, fetch, produce
from tests.broker.test_list_offsets import EARLIEST, EARLIEST_LOCAL, LATEST_REMOTE, list_one
from tests.broker.test_offset_for_leader_epoch import end_of
from tests.logstore.moved import decoded

MOVED = 24
"""Offsets of each topic that are in the table, of 30 written by the first broker."""


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


def read(client: Connection, name: str, offset: int = 0, **fields: int) -> list[tuple[int, int]]:
    """Base offset and leader epoch of every batch, as a consumer meets them."""
    found = []
    while records := bytes_of(fetch(client, name, offset=offset, **fields)):
        for _, header in split_batches(records):
            found.append((header.base_offset, header.leader_epoch))
            offset = header.next_offset
    return found


def move(running: Running, name: str, client: Connection, moved: int = MOVED) -> TopicPartition:
    """What compaction and trimming do, at once; the broker in between has begun anew."""
    key = TopicPartition(running.log.topics[name].topic_id, 0)
    data = bytes_of(fetch(client, name))
    writer = TableWriter(running.shared.objects, *key, "by-hand", 0, row_group_bytes=2000)
    for rows in decoded(data, 0, moved):
        writer.write(rows)
    tables = Tables("/memory", store=running.shared.objects)
    commit = TableCommit({0: 0}, {0: moved}, writer.close(), run="by-hand")
    tables.commit(tables.create(key.topic_id, name), commit)
    return key


@pytest.fixture(scope="module")
def old() -> Iterator[Old]:
    """Topics of which the first 24 or so of 60 offsets are in tables alone."""
    shared, held = Shared(), {}
    names = {"plain": {}, "zstd": {"compression.type": "zstd"}, "hurt": {}, "lost": {}}
    first = Running({}, 1, shared=shared)
    first.start()
    with first.connect() as client:
        for name, configs in names.items():
            first.create_topic(name, configs=configs)
            for number in range(10):
                produce(client, name, batch(number))
            held[move(first, name, client)] = MOVED
    first.stop()
    running = Running({}, 1, shared=shared)
    running.start()
    with running.connect() as client:
        for name in names:
            for number in range(10, 20):
                produce(client, name, batch(number, "gzip"))
        trim(running, dict.fromkeys(held, 30))  # a chain goes as a whole: see `move`
        yield Old(running, client)
    running.stop()


def trim(running: Running, held: dict[TopicPartition, int]) -> None:
    trimmer = Trimmer(running.log.cluster_id, grace_ms=0)
    for _ in range(2):
        running.wait_for(trimmer.trim_once(running.log.performer, sealed, held))
