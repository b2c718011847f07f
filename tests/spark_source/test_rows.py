"""Rows of a task: what executors make of segments, without Spark."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logstore.errors import Corrupt, Refused
from logstore.formats.keys import segment_key
from logstore.reading.direct.log_metadata import LogMetadata
from logstore.reading.direct.task_rows import BYTES_MAX, ROWS_MAX, read_rows
from logstore.reading.planning.tasks import ReadTask
from logstore.records.arrow import INFLATED_BYTES_MAX
from logstore.records.batch import CODECS, HEADER_BYTES, Codec
from logstore.records.compression import compress
from logstore.records.crc32c import crc32c
from logstore.records.encode import encode_batch, records_of
from logstore.records.record import Record
from logstore.wiring.open import open_objects
from spark_source.options import Mode, parse_options
from spark_source.planning.schema import KAFKA_COLUMNS
from spark_source.progress import Progress
from tests.spark_source.log_on_disk import LogOnDisk
from tests.transaction_markers import encode_marker

TIME_MS = 1_700_000_000_123


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogOnDisk]:
    with LogOnDisk(tmp_path / "log") as log:
        yield log


def planned(directory: Path | str, **options: str) -> tuple[list[ReadTask], dict[bytes, str]]:
    given = {"path": str(directory), "subscribe": "orders", **options}
    parsed = parse_options(given, Mode.BATCH)
    tasks, topics = Progress(parsed, LogMetadata(parsed.url, parsed.topics), 2).batch()
    return tasks, dict(topics)


def batches_of(
    directory: Path | str, columns: Sequence[str] = KAFKA_COLUMNS, **options: str
) -> list[pa.RecordBatch]:
    tasks, topics = planned(directory, **options)
    return [
        rows
        for task in tasks
        for rows in read_rows(open_objects(str(directory)), task, topics, columns)
    ]


def rows_of(directory: Path | str, *columns: str, **options: str) -> list[dict[str, Any]]:
    found = batches_of(directory, columns or KAFKA_COLUMNS, **options)
    return [row for rows in found for row in rows.to_pylist()]


def snappy_stream(batch: bytes) -> bytes:
    """The batch, its payload in the framing that Java's clients write."""
    plain = encode_batch(records_of([(b"k", b"v" * 50)] * 3, timestamp=TIME_MS))
    payload = compress("snappy", plain[HEADER_BYTES:], xerial=True)
    length = (len(batch[12:HEADER_BYTES]) + len(payload)).to_bytes(4, "big")
    tail = batch[21:HEADER_BYTES] + payload
    return batch[:8] + length + batch[12:17] + crc32c(tail).to_bytes(4, "big") + tail


def test_a_row_has_what_the_record_had(log: LogOnDisk) -> None:
    log.create_topic("orders", 2)
    headers = (("trace", b"\x00\xff"), ("empty", None), ("trace", b"2"))
    records = [
        Record(0, TIME_MS, b"key", b"value", headers),
        Record(1, TIME_MS + 1, None, None),
        Record(2, TIME_MS - 5, b"", b""),
    ]
    log.append("orders", 1, encode_batch(records))

    rows = rows_of(log.directory)

    assert [row.pop("timestamp").timestamp() * 1000 for row in rows] == pytest.approx(
        [TIME_MS, TIME_MS + 1, TIME_MS - 5], abs=0.001
    )
    same = {"topic": "orders", "partition": 1, "timestampType": 0}
    items = [{"key": name, "value": value} for name, value in headers]
    assert rows == [
        {"key": b"key", "value": b"value", "offset": 0, "headers": items, **same},
        {"key": None, "value": None, "offset": 1, "headers": [], **same},
        {"key": b"", "value": b"", "offset": 2, "headers": [], **same},
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read(log: LogOnDisk, codec: Codec) -> None:
    log.create_topic("orders", 1)
    records = records_of([(b"k", b"v" * 50)] * 3, timestamp=TIME_MS)
    log.append("orders", 0, encode_batch(records, compression=codec))

    assert [row["value"] for row in rows_of(log.directory, "value")] == [b"v" * 50] * 3


def test_snappy_as_java_frames_it_is_read(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    records = records_of([(b"k", b"v" * 50)] * 3, timestamp=TIME_MS)
    log.append("orders", 0, snappy_stream(encode_batch(records, compression="snappy")))

    assert [row["value"] for row in rows_of(log.directory, "value")] == [b"v" * 50] * 3


def test_append_time_is_reported_as_type_1(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    batch = encode_batch(records_of([(None, b"v")] * 2, timestamp=5))
    log.append_all([("orders", 0, batch)], append_time_ms=TIME_MS)

    rows = rows_of(log.directory, "timestampType", "timestamp")

    assert [row["timestampType"] for row in rows] == [1, 1]
    assert {round(row["timestamp"].timestamp() * 1000) for row in rows} == {TIME_MS}


def test_control_batches_have_no_rows_and_keep_their_offsets(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    batch = encode_batch(records_of([(None, b"v")], timestamp=1))
    marker = encode_marker(
        commit=True, producer_id=-1, producer_epoch=-1, coordinator_epoch=0, timestamp=1
    )
    log.append("orders", 0, batch, marker, batch)

    assert [row["offset"] for row in rows_of(log.directory, "offset")] == [0, 2]


def test_records_of_transactions_are_refused_while_their_outcome_is_not_known(
    log: LogOnDisk,
) -> None:
    log.create_topic("orders", 1)
    records = records_of([(None, b"v")], timestamp=1)
    log.append("orders", 0, encode_batch(records, transactional=True))

    with pytest.raises(Refused, match=r"transactional batches .*chain=1 seq=\d+ .*offset=0 to 0"):
        rows_of(log.directory)


def test_columns_come_as_they_are_asked_for(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, encode_batch(records_of([(b"k", b"v")], timestamp=1)))

    assert rows_of(log.directory, "partition", "topic") == [{"partition": 0, "topic": "orders"}]
    assert list(rows_of(log.directory, "offset", "key")[0]) == ["offset", "key"]


def test_arrow_types_are_those_that_spark_expects(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, encode_batch(records_of([(b"k", b"v")], timestamp=1)))

    (rows,) = batches_of(log.directory)

    item = pa.struct([("key", pa.string()), ("value", pa.binary())])
    assert rows.schema == pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestampType", pa.int32()),
            ("headers", pa.list_(pa.field("element", item))),
        ]
    )


def test_arrow_batches_are_neither_large_nor_many(log: LogOnDisk) -> None:
    log.create_topic("orders", 50)
    small = encode_batch(records_of([(b"k", b"v" * 10)] * 7, timestamp=1))
    log.append_all([("orders", partition, small) for partition in range(50)] * 40)
    wide = encode_batch(records_of([(b"k", bytes(500_000))] * 20, timestamp=1))
    log.append("orders", 0, wide, wide)

    found = batches_of(log.directory)

    assert sum(rows.num_rows for rows in found) == 50 * 40 * 7 + 40
    assert max(rows.num_rows for rows in found) <= ROWS_MAX
    assert max(rows.nbytes for rows in found) <= BYTES_MAX
    assert len(found) <= 10


def test_rows_of_a_partition_come_in_offset_order(log: LogOnDisk) -> None:
    log.create_topic("orders", 3)
    for number in range(30):
        batch = encode_batch(records_of([(None, b"v")] * (number % 4 + 1), timestamp=1))
        log.append("orders", number % 3, batch)

    rows = rows_of(log.directory, "partition", "offset")

    for partition in range(3):
        offsets = [row["offset"] for row in rows if row["partition"] == partition]
        assert offsets == list(range(log.end("orders", partition)))


def test_a_damaged_batch_is_named(tmp_path: Path) -> None:
    with LogOnDisk(tmp_path / "log") as log:
        log.create_topic("orders", 2)
        for _ in range(3):
            batch = encode_batch(records_of([(None, b"precious")] * 2, timestamp=1))
            log.append("orders", 1, batch)
    tasks, topics = planned(tmp_path / "log")
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "log", copy)
    seq = next(
        seq for seq in range(1, 10) if b"precious" in (copy / segment_key(1, seq)).read_bytes()
    )
    segment = copy / segment_key(1, seq + 1)
    segment.chmod(0o644)
    segment.write_bytes(segment.read_bytes().replace(b"precious", b"prexious"))

    with pytest.raises(
        Corrupt, match=rf"chain=1 seq={seq + 1} .*partition=1 offset=2 to 3 cause=bad crc"
    ):
        for task in tasks:
            list(read_rows(open_objects(str(copy)), task, topics, ("offset",)))


@pytest.mark.slow
def test_a_batch_that_inflates_beyond_the_bound_of_compaction_is_named(log: LogOnDisk) -> None:
    """A worker that made room for it would be killed, and the query with it, again and again."""
    log.create_topic("orders", 1)
    log.append("orders", 0, encode_batch(records_of([(None, b"small")], timestamp=1)))
    mib = bytes(1 << 20)
    values = [(None, mib)] * (INFLATED_BYTES_MAX // len(mib) + 1)
    log.append("orders", 0, encode_batch(records_of(values, timestamp=1), compression="zstd"))

    with pytest.raises(Corrupt, match=rf"inflates to more than {INFLATED_BYTES_MAX} bytes: .*"):
        rows_of(log.directory, "offset")
