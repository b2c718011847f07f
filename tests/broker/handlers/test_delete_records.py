"""DeleteRecords: what lies below is gone when the answer leaves, and stays gone."""

import pytest

from broker.network.authorizer import Operation
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running, batch_of, fetch, produce

DELETE_RECORDS = 21
ALL = -1


def delete(
    client: Connection, name: str, *offsets: int, version: int = 2, timeout_ms: int = 20_000
) -> list[DeleteRecordsPartitionResult]:
    """`offsets` of partitions 0, 1 and so on."""
    partitions = [DeleteRecordsPartition(n, offset) for n, offset in enumerate(offsets)]
    request = DeleteRecordsRequest([DeleteRecordsTopic(name, partitions)], timeout_ms)
    response: DeleteRecordsResponse = client.call(DELETE_RECORDS, request, version)
    return response.topics[0].partitions


def fill(running: Running, client: Connection, name: str, **configs: str) -> None:
    """Partition 0 of a new topic, with offsets [0, 10)."""
    running.create_topic(name, 2, {key.replace("_", "."): v for key, v in configs.items()})
    for _ in range(5):
        assert produce(client, name, batch_of(b"x", b"y")).error_code == 0


@pytest.mark.parametrize("version", range(3))
def test_every_version_raises_log_start(running: Running, client: Connection, version: int) -> None:
    name = f"versions-{version}"
    fill(running, client, name)
    (result,) = delete(client, name, 4, version=version)

    assert (result.partition_index, result.low_watermark, result.error_code) == (0, 4, 0)
    assert fetch(client, name, offset=3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    kept = fetch(client, name, offset=4)
    assert (kept.error_code, kept.log_start_offset, kept.high_watermark) == (0, 4, 10)


def test_the_registry_knows_so_the_next_leader_does(running: Running, client: Connection) -> None:
    fill(running, client, "kept")
    delete(client, "kept", 4)
    topic = running.log.topics["kept"]
    place = (partition_pk(topic.topic_id, 0), partition_sk(topic.topic_id, 0))
    stored = running.shared.rows.peek(*place)

    assert PartitionRow.of(stored).log_start == 4
    running.wait_until(lambda: topic.rows[0].log_start == 4)


def test_minus_one_deletes_all_that_is_committed(running: Running, client: Connection) -> None:
    fill(running, client, "all")
    results = delete(client, "all", ALL, ALL)

    assert [(one.low_watermark, one.error_code) for one in results] == [(10, 0), (0, 0)]
    assert produce(client, "all", batch_of(b"z")).base_offset == 10
    assert fetch(client, "all", offset=10).log_start_offset == 10


def test_log_start_never_goes_back(running: Running, client: Connection) -> None:
    fill(running, client, "up")
    delete(client, "up", 6)
    (again,) = delete(client, "up", 2)

    assert (again.low_watermark, again.error_code) == (6, 0)


@pytest.mark.parametrize("offset", [-2, 11])
def test_a_log_cannot_start_where_there_is_nothing(
    running: Running, client: Connection, offset: int
) -> None:
    if "range" not in running.log.topics:
        fill(running, client, "range")
    (result,) = delete(client, "range", offset)

    assert (result.low_watermark, result.error_code) == (-1, ErrorCode.OFFSET_OUT_OF_RANGE)


def test_topics_that_only_compact_keep_their_records(running: Running, client: Connection) -> None:
    fill(running, client, "compacted", cleanup_policy="compact")
    fill(running, client, "both", cleanup_policy="compact,delete")

    assert delete(client, "compacted", 1)[0].error_code == ErrorCode.POLICY_VIOLATION
    assert delete(client, "both", 1)[0].error_code == 0


def test_unknown_partitions_are_reported(running: Running, client: Connection) -> None:
    running.create_topic("small")

    codes = [one.error_code for one in delete(client, "small", 0, 0)]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert delete(client, "nowhere", 0)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deleting_records_needs_delete(running: Running, client: Connection) -> None:
    fill(running, client, "guarded")
    deny(running, Operation.DELETE)

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert delete(client, "guarded", 4)[0].error_code == code
    assert delete(client, "nowhere", 4)[0].error_code == code
