"""A broker of an older version, whose groups a newer one has led: members wait, nothing is lost."""

from broker.groups.decisions.batches import encode_newer
from broker.groups.decisions.formats import GroupKey, encode_key
from broker.groups.decisions.newer_records import NewerRecord
from logstore.records.batch import read_header
from logstore.wire.errors import ErrorCode
from tests.broker.group_calls import broker_on, commit, fetch_offset, heartbeat, join
from tests.broker.running import Running, Shared

NEWER = NewerRecord(encode_key(GroupKey("g")), b"\0\x09 of a version to come", "g")


def append_newer(running: Running) -> None:
    """As a newer version would have, while it led the group's partition."""
    leaders = running.log.topics["__consumer_offsets"].leaders.values()
    (leader,) = [one for one in leaders if one.log_end]
    batch = memoryview(encode_newer([NEWER], now_ms=0))
    running.do(lambda: leader.append(batch, read_header(batch, 0, len(batch))))
    running.wait_until(lambda: leader.high_watermark == leader.log_end)


def test_all_requests_for_a_group_of_a_newer_version_are_to_be_repeated() -> None:
    stores = Shared()
    with broker_on(stores) as running, running.connect() as client:
        running.create_topic("t")
        assert commit(client, "g", 7) == 0
        append_newer(running)

    with broker_on(stores) as running, running.connect() as client:
        assert commit(client, "other", 3) == 0
        assert fetch_offset(client, "other") == 3
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert commit(client, "g", 8) == loading
        assert join(client, "g").error_code == loading
        assert heartbeat(client, "g", "m") == 0, "as Kafka answers while it loads"
