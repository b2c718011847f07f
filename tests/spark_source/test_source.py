"""The adapter to Spark's Python Data Source API, without Spark: what crosses between processes."""

import subprocess
import sys
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from pyspark.sql.types import BinaryType, LongType, StructType

import pyspark_logstore
from logstore.errors import Invalid
from logstore.records.encode import encode_batch, records_of
from spark_source.planning.offsets import position_of_json
from spark_source.source import BatchReader, LogstoreDataSource, StreamReader
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.scripted_broker import scripted_broker

T = TypeVar("T")

SCHEMA = StructType().add("offset", LongType()).add("value", BinaryType())


def over_the_wire(value: T) -> T:
    serializer: Any = CloudPickleSerializer()
    copy: T = serializer.loads(serializer.dumps(value))
    return copy


def source(directory: Path, **options: str) -> LogstoreDataSource:
    return LogstoreDataSource({"path": str(directory), "subscribe": "orders", **options})


def test_spark_finds_the_source_by_its_module() -> None:
    assert issubclass(pyspark_logstore.DefaultSource, DataSource)
    assert pyspark_logstore.DefaultSource.name() == "logstore"


def test_looking_for_sources_loads_no_store_and_no_arrow() -> None:
    program = (
        "import sys, pyspark.sql.datasource, pyspark.sql.streaming.datasource\n"
        "before = set(sys.modules)\n"
        "import pyspark_logstore\n"
        "loaded = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "heavy = {'pyarrow', 'sqlite3', 'asyncio', 'obstore', 'boto3', 'deltalake'}\n"
        "print(sorted(loaded & heavy), 'logstore.reading.direct.reader' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert answer.stdout == "[] False\n"


def test_the_schema_grows_by_headers_when_asked() -> None:
    assert "headers" not in LogstoreDataSource({}).schema()
    assert "headers array" in LogstoreDataSource({"includeHeaders": "true"}).schema()


def test_a_misspelt_option_is_refused_when_the_reader_is_made(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="did you mean minPartitions"):
        source(tmp_path, minPartition="2").reader(SCHEMA)


@pytest.mark.slow
def test_readers_and_partitions_cross_to_executors_and_read_there(tmp_path: Path) -> None:
    with LogOnDisk(tmp_path / "log") as log:
        log.create_topic("orders", 1)
        log.append("orders", 0, encode_batch(records_of([(None, b"v")] * 3, timestamp=1)))
    batch = source(tmp_path / "log").reader(SCHEMA)
    stream = source(tmp_path / "log", startingOffsets="earliest").streamReader(SCHEMA)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())

    plans: list[tuple[Any, Any]] = [
        (batch, batch.partitions()),
        (stream, stream.partitions(start, end)),
    ]
    for reader, partitions in plans:
        assert isinstance(partitions, list)
        (partition,) = over_the_wire(partitions)
        (rows,) = over_the_wire(reader).read(partition)
        assert rows.to_pylist() == [{"offset": n, "value": b"v"} for n in range(3)]
    stream.commit(end)
    newest = stream.reportLatestOffset()
    assert newest is not None
    assert position_of_json(newest) == position_of_json(end)


def test_the_partition_that_spark_makes_of_none_is_empty(tmp_path: Path) -> None:
    with LogOnDisk(tmp_path / "log") as log:
        log.create_topic("orders", 1)
    reader = source(tmp_path / "log").reader(SCHEMA)

    assert isinstance(reader, BatchReader)
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_a_limit_is_reported_to_spark(tmp_path: Path) -> None:
    def limit(**options: str) -> object:
        reader = source(tmp_path, **options).streamReader(SCHEMA)
        assert isinstance(reader, StreamReader)
        return reader.getDefaultReadLimit()

    assert limit() == ReadAllAvailable()
    assert limit(maxOffsetsPerTrigger="7") == ReadMaxRows(7)
    assert limit(maxBytesPerTrigger="7") == ReadMaxBytes(7)
    assert limit(maxOffsetsPerTrigger="7", maxBytesPerTrigger="9") == ReadMaxRows(7)
    assert limit(minOffsetsPerTrigger="5") == ReadMinRows(5)
    assert limit(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="7") == ReadMaxRows(7)


def test_options_without_effect_are_reported_once_by_the_process_that_plans(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LogOnDisk(tmp_path / "log") as log:
        log.create_topic("orders", 1)
    client = {"kafka.bootstrap.servers": "h:9092", "kafka.fetch.max.bytes": "1"}
    stream = source(tmp_path / "log", **client).streamReader(SCHEMA)
    start = stream.initialOffset()
    for _ in range(2):
        start = stream.latestOffset(start, ReadAllAvailable())

    (reported,) = caplog.messages
    assert reported.endswith(": kafka.bootstrap.servers, kafka.fetch.max.bytes")


def test_a_group_gets_what_is_done_and_never_where_a_query_began(tmp_path: Path) -> None:
    with LogOnDisk(tmp_path / "log") as log, scripted_broker() as broker:
        log.create_topic("orders", 1)
        log.append("orders", 0, encode_batch(records_of([(None, b"v")] * 3, timestamp=1)))
        host, port = broker.address
        group = {"commitGroup": "lag", "kafka.bootstrap.servers": f"{host}:{port}"}
        stream = source(tmp_path / "log", startingOffsets="earliest", **group)
        reader = stream.streamReader(SCHEMA)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        assert broker.commits == []
        reader.commit(end)
        assert isinstance(reader, StreamReader)
        reader.prepareForTriggerAvailableNow()
        assert reader.latestOffset(end, ReadAllAvailable()) == end, "the run ends"

        (request,) = broker.commits
        assert request.topics[0].partitions[0].committed_offset == 3
