"""The judge in the simulated store: which bytes under one key contradict each other."""

import random
from collections import Counter
from dataclasses import replace

from logstore.errors import AlreadyExists
from logstore.formats.segment import IDENTITY_BYTES
from logstore.formats.topic_record import TopicRecord, encode_record
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.objects.memory import MemoryObjects
from logstore.testing.simulated_store import SimulatedStore, StoreFaults
from logstore.testing.virtual_loop import VirtualClock, run

CONFIGS = {"message.timestamp.after.max.ms": "6048000000", "retention.bytes": "20000"}


def test_two_growths_may_try_one_version_of_a_topic() -> None:
    topic = TopicRow(b"t" * 16, TopicStatus.LIVE, 3, CONFIGS, version=2)
    one = encode_record(TopicRecord("orders", topic))
    other = encode_record(TopicRecord("orders", replace(topic, partitions=4)))
    assert one[:IDENTITY_BYTES] == other[:IDENTITY_BYTES]

    key = TopicRecord("orders", topic).key
    assert put_both(key, one, other) == []


def test_a_segment_that_changes_between_two_attempts_is_noticed() -> None:
    header = bytes(IDENTITY_BYTES)

    [violation] = put_both("chains/00/1/2", header + b"a", header + b"b")

    assert "rule 2" in violation


def put_both(key: str, one: bytes, other: bytes) -> list[str]:
    async def put() -> list[str]:
        objects = MemoryObjects(VirtualClock())
        store = SimulatedStore(objects, random.Random(1), StoreFaults(), Counter(), lambda _: None)
        await store.create(key, [one])
        try:
            await store.create(key, [other])
        except AlreadyExists:
            return store.violations
        raise AssertionError("a key was created twice")

    return run(put())
