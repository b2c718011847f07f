"""Topics that stamp the time of appending, and batches that claim to be stamped."""

import pytest

from logstore.records.batch import check_crc, read_header
from logstore.wire.errors import ErrorCode
from tests.broker.running import NOW_MS, Running, batch_of, fetch, produce
from tools.full_wire import Connection

HOUR_MS = 3_600_000


@pytest.mark.parametrize("codec", ["producer", "lz4"])
def test_a_batch_that_claims_to_be_stamped_keeps_the_times_of_its_records(
    running: Running, client: Connection, codec: str
) -> None:
    name = f"claims-{codec}"
    running.create_topic(name, 1, {"compression.type": codec})
    claims = batch_of(b"x", b"y", log_append_time=True)
    assert produce(client, name, claims).error_code == 0
    stored = memoryview(fetch(client, name).records or b"")  # type: ignore[arg-type]
    header = read_header(stored, 0, len(stored))
    check_crc(stored, 0, header)
    assert not header.is_log_append_time
    assert header.max_timestamp == read_header(memoryview(claims), 0, len(claims)).max_timestamp


def test_a_topic_that_stamps_takes_no_batch_that_claims_to_be_stamped(
    running: Running, client: Connection
) -> None:
    running.create_topic("stamps", 1, {"message.timestamp.type": "LogAppendTime"})
    one = produce(client, "stamps", batch_of(b"x", b"y", log_append_time=True))
    assert one.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [bad.batch_index for bad in one.record_errors or ()] == [0, 1]


def test_a_topic_that_stamps_append_time_tells_it_and_keeps_the_crc_right(
    running: Running, client: Connection
) -> None:
    running.create_topic("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    one = produce(client, "stamped", batch_of(b"x", timestamp=NOW_MS + 9 * HOUR_MS))
    stored = memoryview(fetch(client, "stamped").records or b"")  # type: ignore[arg-type]
    header = read_header(stored, 0, len(stored))

    assert one.error_code == 0
    assert abs(one.log_append_time_ms - NOW_MS) < HOUR_MS
    assert header.is_log_append_time and header.max_timestamp == one.log_append_time_ms
    check_crc(stored, 0, header)
