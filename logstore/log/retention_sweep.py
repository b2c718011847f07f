"""Retention over a whole log without a broker, for `logstore gc`: raises log starts in rows. Pure.

It knows what checkpoints hold, which is committed, and changes a row as its leader would: while it
names that leadership, upwards only. A live leader hears of it by the change feed.

What brokers were told as defaults (`log.retention.ms`) is nowhere in a log. So a topic is swept by
its own configs, and by others only where whoever calls says them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from logstore.changes import publish
from logstore.config.topics import TOPIC_SETTINGS
from logstore.errors import LogstoreError, Retryable
from logstore.index.lookup import IndexCache
from logstore.index.partition import ChainCheckpoints, locate_offset
from logstore.log.records_deletion import Raise, raise_log_starts
from logstore.log.retention import Ledger, Policy, parts_of_files, parts_of_rows
from logstore.metadata import read_partition_rows, read_topics
from logstore.history.snapshot import Snapshot
from logstore.rows import Change, PartitionRow, TopicStatus
from logstore.steps import NowMs, Steps

OFFSET_MAX = 2**63 - 1
FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}


class Swept(NamedTuple):
    """What one sweep did."""

    raised: int
    troubles: Sequence[str]


class _Partition(NamedTuple):
    topic: str
    topic_id: bytes
    number: int
    row: PartitionRow
    policy: Policy


def topics_to_sweep(defaults: Mapping[str, str]) -> Steps[dict[bytes, tuple[str, Policy]]]:
    """Topics that do not keep everything, and what they keep; `defaults` as those of a broker."""
    known = {name: setting.default for name, setting in TOPIC_SETTINGS.items()}
    held = {**known, **FOR_EVER, **defaults}
    topics = yield from read_topics()
    return {
        row.topic_id: (name, policy)
        for name, row in topics.items()
        if row.status is TopicStatus.LIVE
        and not name.startswith("__")
        and (policy := Policy.of(row.configs, held)) is not None
    }
