"""ListOffsets: ends of partitions, and records by time, found inside their batches."""

import pytest

from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from logstore.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.broker.running import LIST_OFFSETS, Running, batch_of, produce

DELETE_RECORDS = 21
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING = -1, -2, -3, -4, -5, -6
TIMES = ([1000, 1500, 1200], [1100, 3000, 2000], [2500])


def list_one(
    client: Connection,
    name: str,
    timestamp: int,
    *,
    version: int = 10,
    partition: int = 0,
    epoch: int = -1,
    isolation_level: int = 0,
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(partition, epoch, timestamp)
    request = ListOffsetsRequest(-1, isolation_level, [ListOffsetsTopic(name, [wanted])], 9000)
    response: ListOffsetsResponse = client.call(LIST_OFFSETS, request, version)
    return response.topics[0].partitions[0]


def found(client: Connection, timestamp: int, **fields: int) -> tuple[int, int]:
    one = list_one(client, "times", timestamp, **fields)
    assert one.error_code == 0
    return one.offset, one.timestamp


@pytest.fixture
def times(running: Running, client: Connection) -> None:
    """Three batches whose records' timestamps do not rise: offsets 0-2, 3-5, 6."""
    if "times" in running.log.topics:
        return
    running.create_topic("times")
    for compression, stamps in zip(("none", "gzip", "zstd"), TIMES, strict=True):
        records = [Record(i, stamp, None, b"v") for i, stamp in enumerate(stamps)]
        produce(client, "times", encode_batch(records, compression=compression))  # type: ignore[arg-type]


@pytest.mark.usefixtures("times")
@pytest.mark.parametrize("version", range(1, 11))
def test_every_version_tells_both_ends(client: Connection, version: int) -> None:
    epoch = 0 if version >= 4 else -1
    for timestamp, offset in ((LATEST, 7), (EARLIEST, 0)):
        one = list_one(client, "times", timestamp, version=version)
        assert (one.error_code, one.offset, one.timestamp) == (0, offset, -1)
        assert one.leader_epoch == epoch


@pytest.mark.usefixtures("times")
def test_a_time_finds_the_first_record_that_is_not_older(client: Connection) -> None:
    assert found(client, 0) == (0, 1000)
    assert found(client, 1000) == (0, 1000)
    assert found(client, 1001) == (1, 1500)
    assert found(client, 1501) == (4, 3000)
    assert found(client, 3000) == (4, 3000)


@pytest.mark.usefixtures("times")
def test_a_time_after_everything_finds_nothing_and_is_no_error(client: Connection) -> None:
    assert found(client, 3001) == (-1, -1)


def test_a_time_is_looked_for_from_log_start_on_inside_its_batch_too(
    running: Running, client: Connection
) -> None:
    running.create_topic("cut")
    for stamps in ([1000, 50, 900], [2000]):
        records = [Record(i, stamp, None, b"v") for i, stamp in enumerate(stamps)]
        produce(client, "cut", encode_batch(records))
    below = DeleteRecordsTopic("cut", [DeleteRecordsPartition(0, 1)])
    client.call(DELETE_RECORDS, DeleteRecordsRequest([below], 10_000))

    assert list_one(client, "cut", 500).offset == 2
    assert list_one(client, "cut", 950).offset == 3


@pytest.mark.usefixtures("times")
def test_the_largest_timestamp_is_found_in_its_batch(client: Connection) -> None:
    assert found(client, MAX_TIMESTAMP) == (4, 3000)


def test_the_largest_timestamp_of_records_without_one_is_none_and_the_first_of_them(
    running: Running, client: Connection
) -> None:
    running.create_topic("timeless")
    for _ in range(3):
        produce(client, "timeless", batch_of(b"v", timestamp=-1))
    below = DeleteRecordsTopic("timeless", [DeleteRecordsPartition(0, 1)])
    client.call(DELETE_RECORDS, DeleteRecordsRequest([below], 10_000))

    one = list_one(client, "timeless", MAX_TIMESTAMP)
    assert (one.error_code, one.offset, one.timestamp, one.leader_epoch) == (0, 1, -1, 0)


@pytest.mark.usefixtures("times")
def test_read_committed_ends_at_the_last_stable_offset(client: Connection) -> None:
    assert found(client, LATEST, isolation_level=1) == (7, -1)
    assert found(client, 2000, isolation_level=1) == (4, 3000)


@pytest.mark.usefixtures("times")
def test_ends_of_tiers(client: Connection) -> None:
    assert found(client, EARLIEST_LOCAL) == (0, -1)
    assert found(client, LATEST_TIERED) == (-1, -1)
    assert found(client, PENDING, version=11) == (-1, -1)


@pytest.mark.usefixtures("times")
@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (PENDING, 10), (-99, 11)],
)
def test_a_question_that_a_version_does_not_know_is_unsupported(
    client: Connection, timestamp: int, version: int
) -> None:
    one = list_one(client, "times", timestamp, version=version)

    assert one.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_empty_partition_has_ends_and_no_times(running: Running, client: Connection) -> None:
    running.create_topic("empty")

    for timestamp, offset in ((LATEST, 0), (EARLIEST, 0), (5, -1), (MAX_TIMESTAMP, -1)):
        one = list_one(client, "empty", timestamp)
        assert (one.error_code, one.offset, one.timestamp) == (0, offset, -1)


@pytest.mark.usefixtures("times")
def test_what_is_not_there_and_what_is_led_otherwise(client: Connection) -> None:
    assert list_one(client, "nowhere", LATEST).error_code == 3
    assert list_one(client, "times", LATEST, partition=1).error_code == 3
    assert list_one(client, "times", LATEST, epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert list_one(client, "times", 5, epoch=0).error_code == 0


def test_what_is_not_committed_is_not_found(running: Running, client: Connection) -> None:
    running.create_topic("later")
    produce(client, "later", batch_of(b"a", timestamp=100))
    running.hold_store()
    produce(client, "later", batch_of(b"b", timestamp=200), timeout_ms=1)

    assert list_one(client, "later", LATEST).offset == 1
    assert list_one(client, "later", 150).offset == -1
    assert list_one(client, "later", MAX_TIMESTAMP).offset == 0
