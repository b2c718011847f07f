"""Every way to read a topic with history, each to a digest of what it saw."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from confluent_kafka import Consumer, Message, TopicPartition
from deltalake import DeltaTable

from tests.scenarios.harness.digests import Digest, Headers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value", "headers")
POLL_S = 1.0
SILENCE_S = 120.0
BATCH = 2_000


class NothingCame(AssertionError): ...


def by_consumer(bootstrap: str, topic: str, ends: Mapping[int, int]) -> Digest:
    """A Kafka consumer from offset 0 to `ends`."""
    found = Digest()
    consume(bootstrap, topic, ends, found.add)
    return found


Add = Callable[[int, int, int, bytes | None, bytes | None, Headers], None]
"""Of a record: partition, offset, timestamp, key, value, headers."""


def consume(bootstrap: str, topic: str, ends: Mapping[int, int], add: Add) -> None:
    """Each record from offset 0 to `ends`, by a Kafka consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "history",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    left = {number for number, end in ends.items() if end}
    silence_s, count = 0.0, 0
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in sorted(left)])
        while left:
            messages = consumer.consume(BATCH, POLL_S)
            silence_s = 0.0 if messages else silence_s + POLL_S
            if silence_s > SILENCE_S:
                raise NothingCame(f"partitions {sorted(left)} of {topic}, {count} records")
            for message in messages:
                number, offset = _place(message)
                if offset < ends[number]:
                    count += 1
                    add(
                        number,
                        offset,
                        message.timestamp()[1],
                        message.key(),
                        message.value(),
                        _headers(message),
                    )
                if offset + 1 >= ends[number]:
                    left.discard(number)
    finally:
        consumer.close()


def _place(message: Message) -> tuple[int, int]:
    """Partition and offset. Raises `NothingCame` when it is an error instead."""
    error, number, offset = message.error(), message.partition(), message.offset()
    if error is not None or number is None or offset is None:
        raise NothingCame(str(error))
    return number, offset


def _headers(message: Message) -> Headers:
    given: Any = message.headers() or ()
    return [(name, value) for name, value in given]


def by_delta_rs(table: Path) -> Digest:
    found = Digest()
    found.add_rows(batches(DeltaTable(table)))
    return found


def by_duckdb(table: Path) -> Digest:
    """Through SQL, over the files that the table's log names."""
    history = DeltaTable(table).to_pyarrow_dataset()
    connection = duckdb.connect()
    connection.register("history", history)
    found = Digest()
    found.add_rows(
        connection.sql(f"SELECT {', '.join(map(_quoted, COLUMNS))} FROM history").to_arrow_reader(
            BATCH
        )
    )
    return found


def by_spark(rows: "DataFrame") -> Digest:
    """Counted where the rows are, so that no driver has to hold them."""
    return of_sums(summed(rows))


def summed(rows: "DataFrame") -> "DataFrame":
    """A row for each task and partition."""
    return rows.select(*COLUMNS).mapInArrow(_summed, "partition int, count bigint, sum string")


def of_sums(sums: "DataFrame") -> Digest:
    found = Digest()
    for number, count, total in sums.collect():
        found.counts[number] += count
        found.sums[number] = (found.sums[number] + int(total)) % (1 << 64)
    return found


def _summed(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    found = Digest()
    found.add_rows(batches)
    numbers = sorted(found.counts)
    yield pa.RecordBatch.from_pydict(
        {
            "partition": pa.array(numbers, pa.int32()),
            "count": pa.array([found.counts[number] for number in numbers], pa.int64()),
            "sum": pa.array([str(found.sums[number]) for number in numbers], pa.string()),
        }
    )


def batches(table: DeltaTable) -> "Iterator[pa.RecordBatch]":
    return iter(table.to_pyarrow_dataset().to_batches(columns=list(COLUMNS), batch_size=BATCH))


def _quoted(name: str) -> str:
    return f'"{name}"'
