"""Idempotent producers of a compacted topic are known by the partition's state, not by records."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from logstore.formats.topic_partition import TopicPartition
from logstore.history.delta import Tables
from logstore.history.forms.snapshot import TableCommit
from logstore.history.write import TableWriter
from logstore.protocol.deletion.trimming import Trimmer, sealed
from tests.broker.running import Running, Shared, batch_of, fetch, produce
from tests.broker.test_history import bytes_of, read
from tests.logstore.moved import decoded

PRODUCER: Any = {"producer_id": 7, "producer_epoch": 0}
TOPIC = "state"


@contextmanager
def life(shared: Shared) -> Iterator[Running]:
    running = Running({}, 1, shared=shared)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def test_a_producer_is_known_when_key_compaction_has_removed_all_of_its_records() -> None:
    """Its last batch is in no segment and in no table, and its repeat is one all the same."""
    shared = Shared()
    old, new = batch_of(b"old", base_sequence=0, **PRODUCER), batch_of(b"new")
    with life(shared) as running, running.connect() as client:
        running.create_topic(TOPIC, configs={"cleanup.policy": "compact"})
        assert [produce(client, TOPIC, one).base_offset for one in (old, new)] == [0, 1]
    with life(shared) as running, running.connect() as client:
        compact(running, bytes_of(fetch(client, TOPIC, offset=1)))
        (left,) = read(client, TOPIC)
        assert (left.base_offset, left.producer_id) == (1, -1)

        again = produce(client, TOPIC, old)
        assert (again.error_code, again.base_offset) == (0, 0)
        following = produce(client, TOPIC, batch_of(b"next", base_sequence=1, **PRODUCER))
        assert (following.error_code, following.base_offset) == (0, 2)


def compact(running: Running, kept: bytes) -> None:
    """The records of `kept`, from offset 1 on, are in the table; the chain before is deleted."""
    key = TopicPartition(running.log.topics[TOPIC].topic_id, 0)
    objects = running.shared.objects
    writer = TableWriter(objects, *key, "by-hand", 0, row_group_bytes=2000)
    for rows in decoded(kept, 1, 2):
        writer.write(rows)
    tables = Tables("/memory", store=objects)
    commit = TableCommit({0: 0}, {0: 2}, writer.close(), run="by-hand")
    tables.commit(tables.create(key.topic_id, TOPIC), commit)
    trimmer = Trimmer(running.log.cluster_id, grace_ms=0)
    steps = running.log.runner.run
    done = [running.wait_for(steps(trimmer.steps(sealed, {key: 2}))) for _ in range(2)]
    assert sum(done[-1].deleted.values()) > 0
