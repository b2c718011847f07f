"""Topics, partitions and tables as read from the registry's rows. Steps."""

from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter

from logstore.errors import Corrupt, LogstoreError
from logstore.formats.broker_row import BROKER, BrokerRow
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus
from logstore.formats.partition_row import (
    PartitionRow,
    partition_pk,
    partition_pks,
    partition_sk,
    topic_partition_of,
)
from logstore.formats.table_row import TABLE, TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.ports.registry import Row
from logstore.protocol.steps import Gather, GetRow, QueryRows, Steps, sliced
from logstore.slices import Slices, parts_of

POLICY, DELETE = "cleanup.policy", "delete"
SLICE_ROWS = 250
"""Some 3 ms of decoding."""
MERGED_ROWS = 1_000
"""The same of bringing decoded rows into their order."""


def read_brokers() -> Steps[dict[int, BrokerRow]]:
    """Every broker that there ever was and that was not unregistered, by id."""
    rows = yield QueryRows(BROKER)
    return {int(sk): BrokerRow.of(row) for sk, row in rows}


def read_topic_defaults() -> Steps[Mapping[str, str]]:
    """Configs of topics that say nothing themselves, as published by the broker that started last:
    those that differ from the product's.

    Unless an open chain's broker says that such topics are not deleted by age: that one prevails.
    One that was started without the setting, or by an older version, must delete no live key.
    """
    rows = yield QueryRows(CHAIN)
    chains = [ChainRow.of(row) for _, row in sorted(rows, key=lambda item: int(item[0]))]
    if not chains:
        return {}
    for chain in chains:
        policy = chain.topic_defaults.get(POLICY, DELETE)
        if chain.status is ChainStatus.OPEN and DELETE not in policy:
            return {**chains[-1].topic_defaults, POLICY: policy}
    return chains[-1].topic_defaults


def read_topics() -> Steps[dict[str, TopicRow]]:
    """Every topic there is, by name; those being deleted too."""
    rows = yield QueryRows(TOPIC)
    topics = {name: TopicRow.of(row) for name, row in rows}
    return {name: row for name, row in topics.items() if row.status is not TopicStatus.DELETED}


def read_topic_row(name: str) -> Steps[TopicRow | None]:
    row: Row | None = yield GetRow(TOPIC, name)
    return None if row is None else TopicRow.of(row)


def read_topics_by_id() -> Steps[dict[bytes, tuple[str, TopicRow]]]:
    """Every topic row, by topic id, with its name; those of deleted topics too."""
    rows = yield QueryRows(TOPIC)
    topics = [(name, TopicRow.of(row)) for name, row in rows]
    return {topic.topic_id: (name, topic) for name, topic in topics}


def read_partition_rows() -> Steps[dict[TopicPartition, PartitionRow]]:
    """Every partition row there is, in the order of topic ids and partitions."""
    parts: Sequence[Sequence[tuple[str, Row]] | LogstoreError] = yield Gather(
        [_query(pk) for pk in partition_pks()]
    )
    return (yield from sliced(_decoded_in_slices(parts)))


def _decoded_in_slices(
    parts: Sequence[Sequence[tuple[str, Row]] | LogstoreError],
) -> Slices[dict[TopicPartition, PartitionRow]]:
    decoded: list[list[tuple[TopicPartition, PartitionRow]]] = []
    row_count = sliced_count = 0
    for part in parts:
        if isinstance(part, LogstoreError):
            raise part
        decoded.append([])
        for some in parts_of(part, SLICE_ROWS):
            if row_count + len(some) > sliced_count + SLICE_ROWS:
                sliced_count = row_count
                yield
            decoded[-1] += [(topic_partition_of(sk), PartitionRow.of(row)) for sk, row in some]
            row_count += len(some)
    merged = merge(*decoded, key=itemgetter(0))  # a query's rows are in this order
    rows: dict[TopicPartition, PartitionRow] = {}
    for at in range(0, row_count, MERGED_ROWS):
        if at:
            yield
        rows.update(islice(merged, MERGED_ROWS))
    return rows


def read_partition_row(topic_id: bytes, partition: int) -> Steps[PartitionRow | None]:
    row = yield GetRow(partition_pk(topic_id, partition), partition_sk(topic_id, partition))
    return None if row is None else PartitionRow.of(row)


def read_table_rows() -> Steps[dict[bytes, TableRow]]:
    """The table pointer of every topic that has a table, or had one, by topic id."""
    rows = yield QueryRows(TABLE)
    try:
        return {bytes.fromhex(sk): TableRow.of(row) for sk, row in rows}
    except ValueError as error:
        raise Corrupt(f"table row with a strange key: {error}") from error


def _query(pk: str) -> Steps[Sequence[tuple[str, Row]]]:
    rows: Sequence[tuple[str, Row]] = yield QueryRows(pk)
    return rows
