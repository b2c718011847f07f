"""Rows on their way to partitions: where each goes, in which order, and which are refused."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.config.topic_limits import TopicLimits
from logstore.errors import Invalid
from logstore.formats.staging_keys import SinkBatch, sink_hash
from logstore.formats.topic_partition import TopicPartition
from logstore.ports.clock import SystemClock
from logstore.records.crc32c import Buffer
from logstore.records.decode import decode_records
from logstore.records.murmur2 import partition_for_key
from logstore.records.record import Record
from logstore.staging.topics import SinkTopic
from spark_source.sink.rows import KEYLESS_RUN_ROWS, ROW_BYTES_MAX, RowRouter
from spark_source.sink.task import gathered, write_rows

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
LIMITS = TopicLimits(
    batch_bytes_max=1_000_000,
    is_compacted=False,
    stamps_append_time=False,
    before_ms_max=DAY_MS,
    after_ms_max=DAY_MS,
)
ORDERS = SinkTopic("orders", bytes([1]) * 16, 5, LIMITS)
OTHERS = SinkTopic("others", bytes([2]) * 16, 2, LIMITS)
TOPICS = {"orders": ORDERS, "others": OTHERS}
SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }
)
COLUMNS = {name: place for place, name in enumerate(SCHEMA.names)}

Row = dict[str, Any]


class Taken:
    """Batches as a stager would take them: the records of each partition, in order."""

    def __init__(self) -> None:
        self.records: dict[TopicPartition, list[Record]] = {}

    def next_offset(self, partition: TopicPartition) -> int:
        return len(self.records.get(partition, []))

    def add(self, partition: TopicPartition, batch: Buffer) -> None:
        found = decode_records(batch, max_bytes=1 << 24)
        self.records.setdefault(partition, []).extend(found)

    def values(self) -> dict[TopicPartition, list[str]]:
        return {
            one: [bytes(record.value or b"").decode() for record in records]
            for one, records in self.records.items()
        }


class At(SystemClock):
    def now_ms(self) -> int:
        return NOW_MS


def routed(
    rows: Sequence[Row],
    *,
    topics: dict[str, SinkTopic] = TOPICS,
    topic: str | None = None,
    columns: Sequence[str] = tuple(COLUMNS),
    batch: int = 3,
    task: int = 1,
    parts: int = 1,
) -> Taken:
    """Rows as `parts` Arrow batches, none of them joined, written by one task."""
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    given = pa.Table.from_pylist(list(rows), schema=schema)
    size = max(1, -(-given.num_rows // parts))
    router = RowRouter(
        {name: place for place, name in enumerate(columns)},
        topic,
        topics,
        SinkBatch(sink_hash("sink"), batch),
        task,
    )
    taken = Taken()
    write_rows(given.to_batches(size), router, taken, "lz4", At(), gathered_bytes=1)
    return taken


def test_small_arrow_batches_are_joined() -> None:
    given = pa.Table.from_pylist([{"value": b"x" * 100}] * 100).to_batches(3)
    found = list(gathered(given, 1000))

    assert pa.Table.from_batches(found) == pa.Table.from_batches(given)
    assert all(1000 <= batch.nbytes < 2000 for batch in found[:-1])
    assert list(gathered(given[:1], 1 << 20)) == given[:1]


rows_strategy = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.none() | st.binary(max_size=9),
            "topic": st.sampled_from(["orders", "others"]),
            "partition": st.none() | st.integers(0, 1),
        }
    ),
    max_size=40,
)


@given(rows_strategy, st.integers(1, 4))
def test_every_row_goes_once_where_kafkas_sink_would_put_it_in_its_order(
    drawn: list[Row], parts: int
) -> None:
    rows = [{**row, "value": str(number)} for number, row in enumerate(drawn)]
    found = routed(rows, parts=parts).values()

    everywhere = [value for values in found.values() for value in values]
    assert sorted(everywhere, key=int) == [row["value"] for row in rows]
    for values in found.values():
        assert values == sorted(values, key=int)
    where = {value: one for one, values in found.items() for value in values}
    for row in rows:
        topic, place = TOPICS[row["topic"]], where[row["value"]]
        assert place.topic_id == topic.topic_id
        if row["partition"] is not None:
            assert place.partition == row["partition"]
        elif row["key"] is not None:
            assert place.partition == partition_for_key(row["key"], topic.partitions)


def test_rows_without_a_key_change_partitions_each_thousand_and_alike_each_time() -> None:
    count = 12 * KEYLESS_RUN_ROWS
    rows = [{"value": str(number)} for number in range(count)]
    found = routed(rows, topic="orders", columns=["value"], parts=3).values()

    # Where they differ, pytest would take minutes to say how.
    is_alike = found == routed(rows, topic="orders", columns=["value"], parts=7).values()
    assert is_alike
    assert found != routed(rows, topic="orders", columns=["value"], task=2).values()
    assert found != routed(rows, topic="orders", columns=["value"], batch=4).values()
    assert len(found) > 1
    where = {int(value): one for one, values in found.items() for value in values}
    for number in range(count):
        assert where[number] == where[number - number % KEYLESS_RUN_ROWS]


def test_columns_become_records() -> None:
    time = datetime(2023, 11, 14, 12, tzinfo=UTC)
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    rows: list[Row] = [
        {"key": b"k", "value": "v", "timestamp": time, "headers": headers},
        {"key": b"k", "value": None, "timestamp": None, "headers": None},
    ]
    (records,) = routed(rows, topic="orders").records.values()

    first, second = records
    assert first.timestamp == int(time.timestamp() * 1000)
    assert (first.key, first.value) == (b"k", b"v")
    assert list(first.headers) == [("h", b"1"), ("h", None)]
    assert (second.timestamp, second.value, list(second.headers)) == (NOW_MS, None, [])


def test_the_option_wins_over_the_column() -> None:
    found = routed([{"value": "v", "topic": "others"}], topic="orders")

    assert [one.topic_id for one in found.records] == [ORDERS.topic_id]


def limited(**limits: Any) -> dict[str, SinkTopic]:
    fields = {name: getattr(LIMITS, name) for name in LIMITS.__dataclass_fields__}
    return {**TOPICS, "orders": ORDERS._replace(limits=TopicLimits(**{**fields, **limits}))}


GOOD = {"key": b"k", "value": "v", "topic": "orders"}


@pytest.mark.parametrize(
    "bad, topics, text",
    [
        ({"topic": None}, TOPICS, "a row without a topic: row=2"),
        ({"topic": "gone"}, TOPICS, "no such topic: row=2 topic=gone; create it first"),
        (
            {"partition": 5},
            TOPICS,
            "no such partition: row=2 topic=orders partition=5 partitions=5",
        ),
        ({"partition": -1}, TOPICS, "no such partition: row=2 topic=orders partition=-1"),
        (
            {"key": None},
            limited(is_compacted=True),
            "without a key on a compacted topic: row=2 topic=orders cleanup.policy=compact",
        ),
        (
            {"timestamp": datetime(2001, 1, 1, tzinfo=UTC)},
            TOPICS,
            r"timestamp out of range: row=2 topic=orders timestamp=978307200000 allowed=.*before",
        ),
        (
            {"timestamp": datetime(2101, 1, 1, tzinfo=UTC)},
            TOPICS,
            "timestamp out of range: row=2 topic=orders",
        ),
        (
            {"timestamp": datetime(1901, 1, 1, tzinfo=UTC)},
            limited(stamps_append_time=True),
            "timestamp out of range: row=2",
        ),
        (
            {"value": "".join(map(chr, range(256, 2256)))},
            limited(batch_bytes_max=1000),
            r"record larger than its topic allows: row=2 topic=orders bytes=\d+ "
            "max.message.bytes=1000",
        ),
    ],
)
def test_a_bad_row_fails_its_task_and_is_named(
    bad: Row, topics: dict[str, SinkTopic], text: str
) -> None:
    rows: list[Row] = [GOOD, GOOD, {**GOOD, **bad}, GOOD]
    with pytest.raises(Invalid, match=text):
        routed(rows, topics=topics, parts=2)


def test_a_topic_that_stamps_takes_old_timestamps() -> None:
    rows = [{**GOOD, "timestamp": datetime(2001, 1, 1, tzinfo=UTC)}]
    assert routed(rows, topics=limited(stamps_append_time=True)).records


def test_batches_are_no_larger_than_the_topic_allows() -> None:
    rows = [{**GOOD, "value": str(number) * 40} for number in range(500)]
    taken = routed(rows, topics=limited(batch_bytes_max=2000))

    assert sum(map(len, taken.records.values())) == 500


def test_a_row_that_no_leader_would_unpack_fails_its_task_however_small_it_is_packed() -> None:
    rows = pa.record_batch({"value": pa.array([b"x", bytes(ROW_BYTES_MAX + 1)], pa.binary())})
    router = RowRouter({"value": 0}, "orders", TOPICS, SinkBatch(sink_hash("s"), 0), 0)
    with pytest.raises(Invalid, match=f"row=1 topic=orders bytes={ROW_BYTES_MAX + 1}"):
        list(router.route(rows, NOW_MS))
