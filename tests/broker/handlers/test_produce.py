"""Produce: what is taken gets offsets and an answer after its commit; what is refused says why."""

from collections.abc import Sequence

import pytest

from logstore.errors import OutcomeUnknown
from logstore.records.batch import HEADER, check_crc, read_header
from logstore.records.crc32c import crc32c
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import decode_response_header, encode_request_frame
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.broker.running import (
    NOW_MS,
    PRODUCE,
    Running,
    batch_of,
    fetch,
    produce,
    produce_request,
    running_broker,
)
from tools.full_wire import APIS, Connection

HOUR_MS = 3_600_000


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends(running: Running, client: Connection, version: int) -> None:
    topic = running.create_topic(f"versions-{version}")
    for expected in (0, 2):
        request = produce_request(topic.name, batch_of(b"a", b"b"), topic_id=topic.topic_id)
        response: ProduceResponse = client.call(PRODUCE, request, version)
        one = response.responses[0].partition_responses[0]

        assert (one.error_code, one.base_offset, one.log_append_time_ms) == (0, expected, -1)
        assert one.log_start_offset == (0 if version >= 5 else -1)
        assert response.responses[0].topic_id == (topic.topic_id if version >= 13 else bytes(16))


def test_partitions_have_outcomes_of_their_own(running: Running, client: Connection) -> None:
    running.create_topic("mixed", 2)
    damaged = bytearray(batch_of(b"x"))
    damaged[-1] ^= 1
    data = [
        PartitionProduceData(0, batch_of(b"good")),
        PartitionProduceData(1, bytes(damaged)),
        PartitionProduceData(2, batch_of(b"no such partition")),
        PartitionProduceData(-1, batch_of(b"nor this")),
    ]
    topics = [
        TopicProduceData("mixed", partition_data=data),
        TopicProduceData("nowhere", partition_data=[PartitionProduceData(0, batch_of(b"x"))]),
    ]
    response: ProduceResponse = client.call(PRODUCE, ProduceRequest(None, 1, 9000, topics), 11)
    codes = [[one.error_code for one in t.partition_responses] for t in response.responses]

    assert codes == [
        [0, ErrorCode.CORRUPT_MESSAGE, 3, 3],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ]
    assert response.responses[0].partition_responses[1].base_offset == -1
    assert "crc" in (response.responses[0].partition_responses[1].error_message or "")
    assert fetch(client, "mixed").high_watermark == 1


def test_an_unknown_topic_id_says_so(client: Connection) -> None:
    request = produce_request("", batch_of(b"x"), topic_id=b"i" * 16)
    response: ProduceResponse = client.call(PRODUCE, request, 13)

    one = response.responses[0]
    assert (one.topic_id, one.partition_responses[0].error_code) == (
        b"i" * 16,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )


def cut(batch: bytes) -> bytes:
    return batch[:-1]


def magic_1(batch: bytes) -> bytes:
    return batch[:16] + b"\x01" + batch[17:]


REFUSED = {
    "null": (None, ErrorCode.INVALID_RECORD),
    "empty": (b"", ErrorCode.INVALID_RECORD),
    "two batches": (batch_of(b"x") + batch_of(b"y"), ErrorCode.INVALID_RECORD),
    "trailing bytes": (batch_of(b"x") + b"!", ErrorCode.INVALID_RECORD),
    "cut off": (cut(batch_of(b"x")), ErrorCode.INVALID_RECORD),
    "with a base offset": (batch_of(b"x", base_offset=7), ErrorCode.INVALID_RECORD),
    "old magic": (magic_1(batch_of(b"x")), ErrorCode.INVALID_RECORD),
    "control": (batch_of(b"x", control=True), ErrorCode.INVALID_RECORD),
    "transactional": (
        batch_of(b"x", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
        ErrorCode.INVALID_TXN_STATE,
    ),
    "gap in offsets": (batch_of(b"x", last_offset_delta=5), ErrorCode.INVALID_RECORD),
    "larger than max.message.bytes": (batch_of(b"x" * 1_048_588), ErrorCode.MESSAGE_TOO_LARGE),
    "timestamp far ahead": (
        batch_of(b"x", timestamp=NOW_MS + 3 * HOUR_MS),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "bad producer": (
        batch_of(b"x", producer_id=5, producer_epoch=-1, base_sequence=0),
        ErrorCode.INVALID_RECORD,
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_batch_that_breaks_a_rule_is_refused(
    running: Running, client: Connection, what: str
) -> None:
    name = "refused"
    if name not in running.log.topics:
        running.create_topic(name)
    batch, code = REFUSED[what]

    one = produce(client, name, batch)

    assert one.error_code == code
    assert one.error_message
    assert (one.base_offset, one.log_append_time_ms, one.log_start_offset) == (-1, -1, -1)
    assert fetch(client, name).high_watermark == 0


def test_a_timestamp_in_the_near_future_or_none_is_fine(
    running: Running, client: Connection
) -> None:
    running.create_topic("times")
    for timestamp in (NOW_MS + HOUR_MS // 2, 0, -1):
        assert produce(client, "times", batch_of(b"x", timestamp=timestamp)).error_code == 0


def test_a_topic_may_refuse_old_records(running: Running, client: Connection) -> None:
    running.create_topic("young", 1, {"message.timestamp.before.max.ms": str(HOUR_MS)})

    one = produce(client, "young", batch_of(b"x", timestamp=NOW_MS - 2 * HOUR_MS))

    assert one.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in one.record_errors] == [0]
    assert produce(client, "young", batch_of(b"x")).error_code == 0


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_compacted_topic_refuses_records_without_a_key(
    running: Running, client: Connection, codec: str
) -> None:
    name = f"compacted-{codec}"
    running.create_topic(name, 1, {"cleanup.policy": "compact,delete"})
    records = [Record(i, NOW_MS, key, b"v") for i, key in enumerate([b"k", None, b"", None])]

    one = produce(client, name, encode_batch(records, compression=codec))  # type: ignore[arg-type]

    assert one.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in one.record_errors] == [1, 3]
    assert produce(client, name, batch_of(b"v")).error_code == 0


def sealed(batch: bytes, *, at: int = 61, put: bytes = b"", end: int | None = None) -> bytes:
    """The batch with other bytes at `at`, cut at `end`; its length and CRC are right again."""
    changed = bytearray(batch[:end])
    changed[at : at + len(put)] = put
    changed[8:12] = (len(changed) - 12).to_bytes(4, "big")
    changed[17:21] = crc32c(changed[21:]).to_bytes(4, "big")
    return bytes(changed)


def three(*, offsets: Sequence[int] = (0, 1, 2), times: Sequence[int] = (0, 0, 0)) -> bytes:
    pairs = zip(offsets, times, strict=True)
    return encode_batch([Record(offset, NOW_MS + ms, b"k", b"v") for offset, ms in pairs])


def counting(batch: bytes, records: int) -> bytes:
    """Its header counts so many."""
    counted = sealed(batch, at=57, put=records.to_bytes(4, "big"))
    return sealed(counted, at=23, put=(records - 1).to_bytes(4, "big"))


SENSELESS = {
    "no records at all": sealed(batch_of(bytes(100)), put=b"\xff" * 100),
    "fewer than it counts": counting(three(), 4),
    "more than it counts": counting(three(), 2),
    "cut inside a record": sealed(three(), end=-2),
    "an offset twice": sealed(three(), at=61 + 9 + 3, put=b"\0"),
    "no payload of its codec": sealed(batch_of(bytes(100)), at=22, put=b"\4"),
}


@pytest.mark.parametrize("what", SENSELESS)
def test_records_that_are_not_what_their_batch_says_are_refused(
    running: Running, client: Connection, what: str
) -> None:
    """Their CRC is right, so each consumer of the partition would fail at them."""
    name = "senseless"
    if name not in running.log.topics:
        running.create_topic(name)

    one = produce(client, name, SENSELESS[what])

    assert one.error_code == ErrorCode.INVALID_RECORD, one
    assert one.error_message
    assert fetch(client, name).high_watermark == 0


def test_each_record_out_of_the_time_range_is_named(running: Running, client: Connection) -> None:
    running.create_topic("mistimed")

    one = produce(client, "mistimed", three(times=(0, 3 * HOUR_MS, 0)))

    assert one.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in one.record_errors] == [1]


def test_the_largest_timestamp_is_that_of_the_records(running: Running, client: Connection) -> None:
    """Whatever the header says: look-ups by time and retention rely on it."""
    running.create_topic("largest")
    wrong = sealed(three(times=(0, 7, 3)), at=35, put=(NOW_MS + 99).to_bytes(8, "big"))

    assert produce(client, "largest", wrong).error_code == 0

    stored = memoryview(fetch(client, "largest").records or b"")  # type: ignore[arg-type]
    header = read_header(stored, 0, len(stored))
    assert header.max_timestamp == NOW_MS + 7
    check_crc(stored, 0, header)


def bomb(key: bytes | None) -> bytes:
    """A few KB that unpack to more than is read on the event loop."""
    return encode_batch([Record(0, NOW_MS, key, bytes(8 << 20))], compression="zstd")


def test_keys_of_a_bomb_are_read_in_a_thread_and_what_came_behind_it_waits(
    running: Running, client: Connection
) -> None:
    running.create_topic("bombed", 1, {"cleanup.policy": "compact"})
    names = [b"first", bomb(b"k"), b"third", bomb(None), b"fifth"]
    for one in names:
        batch = one if len(one) > 9 else batch_of(one)
        client.send_raw(frame_of(produce_request("bombed", batch)))

    outcomes = []
    for _ in names:
        frame = client.read_frame()
        _, at = decode_response_header(frame, APIS[PRODUCE], 9)
        response: ProduceResponse = APIS[PRODUCE].decode_response(9, frame, at)
        outcomes.append(response.responses[0].partition_responses[0])

    refused = ErrorCode.INVALID_RECORD
    assert [(one.error_code, one.base_offset) for one in outcomes] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (refused, -1),
        (0, 3),
    ]
    assert [error.batch_index for error in outcomes[3].record_errors] == [0]


def test_zstd_needs_version_7(running: Running, client: Connection) -> None:
    running.create_topic("zstd")
    batch = batch_of(b"x" * 100, compression="zstd")

    assert produce(client, "zstd", batch, version=6).error_code == 76
    assert produce(client, "zstd", batch, version=7).error_code == 0


def test_limits_of_the_topic_prevail(running: Running, client: Connection) -> None:
    running.create_topic("small", 1, {"max.message.bytes": "200"})
    running.create_topic("tiny-segments", 1, {"segment.bytes": "100"})

    assert produce(client, "small", batch_of(b"x" * 200)).error_code == 10
    assert produce(client, "small", batch_of(b"x")).error_code == 0
    assert produce(client, "tiny-segments", batch_of(b"x" * 100)).error_code == 18


def test_a_batch_larger_than_a_segment_is_taken_and_read_back() -> None:
    settings = {"logstore.segment.bytes": "65536"}
    with running_broker(settings) as running, running.connect() as client:
        running.create_topic("large", 1, {"max.message.bytes": str(1 << 24)})
        running.create_topic("small")
        large = batch_of(bytes(range(256)) * 16_384)
        assert produce(client, "small", batch_of(b"1")).base_offset == 0
        assert produce(client, "large", large).base_offset == 0
        assert produce(client, "small", batch_of(b"2")).base_offset == 1

        assert len(fetch(client, "large").records or b"") == len(large)


@pytest.mark.parametrize("acks", [2, -2, 7])
def test_acks_of_another_number_are_refused(
    running: Running, client: Connection, acks: int
) -> None:
    if "acks" not in running.log.topics:
        running.create_topic("acks")

    one = produce(client, "acks", batch_of(b"x"), acks=acks)

    assert one.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert fetch(client, "acks").high_watermark == 0


def test_acks_0_is_not_answered_and_appends(running: Running, client: Connection) -> None:
    running.create_topic("silent")
    request = produce_request("silent", batch_of(b"x"), acks=0)
    with running.connect() as other:
        other.send_raw(frame_of(request))
        assert produce(other, "silent", batch_of(b"y")).base_offset == 1


def test_acks_0_that_fails_closes_the_connection(running: Running) -> None:
    with running.connect() as other:
        other.send_raw(frame_of(produce_request("nowhere", batch_of(b"x"), acks=0)))
        with pytest.raises(OutcomeUnknown):
            other.read_frame()


def frame_of(request: ProduceRequest) -> bytes:
    return b"".join(encode_request_frame(1, APIS[PRODUCE], 9, "me", request))


def test_an_answer_waits_for_the_commit_or_its_timeout(
    running: Running, client: Connection
) -> None:
    running.create_topic("slow")
    assert produce(client, "slow", batch_of(b"x")).error_code == 0
    running.hold_store()

    one = produce(client, "slow", batch_of(b"y"), timeout_ms=30)

    assert one.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert fetch(client, "slow").high_watermark == 1
    running.let_store_go()
    running.wait_until(lambda: running.log.topics["slow"].leaders[0].high_watermark == 2)


def broken(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


@pytest.mark.parametrize("what", ["damaged", "no such partition", "no such topic", "out of order"])
def test_a_refused_batch_hurries_no_answer_to_the_others(
    running: Running, client: Connection, what: str
) -> None:
    """Before and after the batch that is taken, whose answer waits for its commit."""
    name = what.replace(" ", "-")
    running.create_topic(name, 3)
    assert produce(client, name, idempotent(b"x", 0), partition=1).error_code == 0
    refused = {
        "damaged": TopicProduceData(
            name, partition_data=[PartitionProduceData(1, broken(batch_of(b"y")))]
        ),
        "no such partition": TopicProduceData(
            name, partition_data=[PartitionProduceData(9, batch_of(b"y"))]
        ),
        "no such topic": TopicProduceData(
            "nowhere", partition_data=[PartitionProduceData(0, batch_of(b"y"))]
        ),
        "out of order": TopicProduceData(
            name, partition_data=[PartitionProduceData(1, idempotent(b"y", 7))]
        ),
    }[what]
    taken = TopicProduceData(name, partition_data=[PartitionProduceData(0, batch_of(b"z"))])
    running.hold_store()
    for topics in ([refused, taken], [taken, refused]):
        response: ProduceResponse = client.call(PRODUCE, ProduceRequest(None, -1, 30, topics), 11)
        codes = [one.partition_responses[0].error_code for one in response.responses]
        assert codes[topics.index(taken)] == ErrorCode.REQUEST_TIMED_OUT
        assert codes[topics.index(refused)] not in (0, ErrorCode.REQUEST_TIMED_OUT)
    assert fetch(client, name).high_watermark == 0
    running.let_store_go()
    running.wait_until(lambda: running.log.topics[name].leaders[0].high_watermark == 2)


def idempotent(value: bytes, sequence: int, epoch: int = 0, count: int = 1) -> bytes:
    return batch_of(*[value] * count, producer_id=99, producer_epoch=epoch, base_sequence=sequence)


def test_a_repeat_gets_the_first_offset(running: Running, client: Connection) -> None:
    running.create_topic("repeat")
    offsets = [
        produce(client, "repeat", idempotent(b"x", sequence, count=2)).base_offset
        for sequence in (0, 2, 4, 2, 4, 0, 6)
    ]

    assert offsets == [0, 2, 4, 2, 4, 0, 6]
    assert fetch(client, "repeat").high_watermark == 8


def test_a_repeat_of_what_is_in_flight_waits_for_the_same_commit(
    running: Running, client: Connection
) -> None:
    running.create_topic("flight")
    running.hold_store()
    with running.connect() as first, running.connect() as second:
        frame = frame_of(produce_request("flight", idempotent(b"x", 0)))
        first.send_raw(frame)
        second.send_raw(frame)
        one = produce(client, "flight", idempotent(b"x", 0), timeout_ms=50)
        assert one.error_code == ErrorCode.REQUEST_TIMED_OUT
        running.let_store_go()

        assert first.read_frame() == second.read_frame()
    assert fetch(client, "flight").high_watermark == 1


def test_broken_sequences_and_old_epochs_have_their_codes(
    running: Running, client: Connection
) -> None:
    running.create_topic("sequence")
    assert produce(client, "sequence", idempotent(b"x", 0)).error_code == 0

    def code(sequence: int, epoch: int) -> int:
        return produce(client, "sequence", idempotent(b"x", sequence, epoch)).error_code

    assert code(5, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(3, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(0, 1) == 0
    assert code(1, 0) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_batch_that_overtook_the_first_of_its_producer_is_to_come_again(
    running: Running, client: Connection
) -> None:
    running.create_topic("overtaken")
    produce(client, "overtaken", batch_of(b"another's"))

    def code(sequence: int) -> int:
        return produce(client, "overtaken", idempotent(b"x", sequence)).error_code

    assert code(1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [code(sequence) for sequence in (0, 1)] == [0, 0]


def test_what_is_stored_is_what_was_sent_but_for_offset_and_epoch(
    running: Running, client: Connection
) -> None:
    running.create_topic("bytes")
    first, second = batch_of(b"a", b"b"), batch_of(b"c", compression="lz4")
    produce(client, "bytes", first)
    produce(client, "bytes", second)
    stored = bytes(fetch(client, "bytes").records or b"")  # type: ignore[arg-type]

    assert stored[12 + 4 : len(first)] == first[16:]
    assert HEADER.unpack_from(stored, len(first))[0] == 2
    assert stored[len(first) + 16 :] == second[16:]


def test_what_waits_when_the_broker_is_fenced_is_notified_and_nothing_after_it() -> None:
    with running_broker() as running, running.connect() as client:
        running.create_topic("fenced")
        running.hold_store()
        client.send_raw(frame_of(produce_request("fenced", batch_of(b"x"))))
        running.wait_until(lambda: running.log.topics["fenced"].leaders[0].log_end == 1)
        running.do(running.log.writer.stop)
        frame = client.read_frame()
        _, at = decode_response_header(frame, APIS[PRODUCE], 9)
        response: ProduceResponse = APIS[PRODUCE].decode_response(9, frame, at)
        one = response.responses[0].partition_responses[0]

        assert (one.error_code, one.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        client.send_raw(frame_of(produce_request("fenced", batch_of(b"y"))))
        running.stop()
        with pytest.raises(OutcomeUnknown):
            client.read_frame()
