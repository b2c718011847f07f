"""Requests about records: Produce, Fetch, ListOffsets, InitProducerId, epochs, DeleteRecords."""

from typing import Any

from logstore.records.batch import HEADER_BYTES
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.messages import (
    delete_records,
    describe_producers,
    fetch,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from tests.clients.differential.peer import STRANGE_ID, Peer, versions

PRODUCE, FETCH, LIST_OFFSETS, DELETE_RECORDS = 0, 1, 2, 21
INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH, DESCRIBE_PRODUCERS = 22, 23, 61
BY_ID_FROM = 13
PRODUCER_ID = 4_000_000
"""Of a producer whose id no server has given: it is taken all the same."""


def prepare(peer: Peer) -> None:
    peer.create("one")
    peer.create("refused")
    peer.create("still", 2)
    peer.create("sequences", 16)
    peer.create("four", 4)
    peer.create("empty")
    peer.create("compact", cleanup_policy="compact")
    peer.create("stamped", message_timestamp_type="LogAppendTime")
    peer.create("bits")
    peer.create("small", max_message_bytes="500")
    peer.create("cut")


def run(peer: Peer, now_ms: int) -> None:
    peer.wait_until(lambda: not _new_id(peer).error_code, "producer ids")
    for count in (1, 2, 3):
        peer.call(PRODUCE, 8, produced(peer, "still", batch(now_ms, count), 8))
    _produce(peer, now_ms)
    _produce_what_is_refused(peer, now_ms)
    _idempotent(peer, now_ms)
    _fetch(peer)
    _list_offsets(peer, now_ms)
    _producer_ids(peer)
    _epochs(peer)
    _delete_records(peer, now_ms)
    _producers(peer)


def batch(now_ms: int, count: int = 1, *, key: bytes | None = b"k", **fields: Any) -> bytes:
    records = [Record(one, now_ms + one, key, b"value %d" % one) for one in range(count)]
    return encode_batch(records, **fields)


def _append_timed(now_ms: int) -> bytes:
    records = [Record(one, now_ms, b"k", b"v") for one in range(2)]
    return encode_batch(records, log_append_time=True)


def produced(
    peer: Peer,
    topic: str,
    records: bytes | None,
    version: int,
    *,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
) -> produce.ProduceRequest:
    data = [produce.PartitionProduceData(partition, records)]
    topic_id = peer.topic_ids.get(topic, STRANGE_ID)
    topics = [produce.TopicProduceData(topic, topic_id, data)]
    return produce.ProduceRequest(transactional_id, acks, 10_000, topics)


def _produce(peer: Peer, now_ms: int) -> None:
    for version in versions(PRODUCE):
        for name in ("one", "stamped", "compact"):
            request = produced(peer, name, batch(now_ms, 3), version)
            peer.ask(f"three records to {name}", PRODUCE, version, request)
        for codec in ("gzip", "snappy", "lz4", "zstd"):
            packed = batch(now_ms, 2, compression=codec)
            peer.ask(f"{codec}", PRODUCE, version, produced(peer, "four", packed, version))


def _produce_what_is_refused(peer: Peer, now_ms: int) -> None:
    good = batch(now_ms, 2)
    day_ms = 86_400_000
    wrong: dict[str, tuple[str, bytes | None]] = {
        "an unknown topic": ("unknown", good),
        "an empty batch set": ("refused", b""),
        "a wrong CRC": ("refused", good[:-1] + b"?"),
        "two batches": ("refused", good + good),
        "a batch cut off": ("refused", good[:-5]),
        "a header cut off": ("refused", good[: HEADER_BYTES - 10]),
        "an old magic": ("refused", good[:16] + b"\1" + good[17:]),
        "a base offset": ("refused", batch(now_ms, 2, base_offset=7)),
        "no key, compacted": ("compact", batch(now_ms, key=None)),
        "too large": ("small", batch(now_ms, 60)),
        "from a far future": ("refused", batch(now_ms + 2 * day_ms)),
        "an append-time bit": ("bits", _append_timed(now_ms)),
        "an append-time bit, stamped": ("stamped", _append_timed(now_ms)),
        "a control batch": (
            "refused",
            batch(now_ms, control=True, producer_id=5, producer_epoch=0),
        ),
        "a name that no topic may have": ("one/two", good),
    }
    for version in versions(PRODUCE):
        for what, (name, records) in wrong.items():
            peer.ask(what, PRODUCE, version, produced(peer, name, records, version))
        request = produced(peer, "refused", good, version, partition=9)
        peer.ask("an unknown partition", PRODUCE, version, request)
        request = produced(peer, "refused", good, version, acks=2)
        peer.ask("strange acks", PRODUCE, version, request)
        peer.ask("nothing", PRODUCE, version, produce.ProduceRequest(None, -1, 1000, []))


def _idempotent(peer: Peer, now_ms: int) -> None:
    for version in versions(PRODUCE, 3):

        def send(what: str, epoch: int, sequence: int, version: int = version) -> None:
            fields: dict[str, Any] = {"producer_epoch": epoch, "base_sequence": sequence}
            records = batch(now_ms, 2, producer_id=PRODUCER_ID + version, **fields)
            request = produced(peer, "sequences", records, version, partition=version)
            peer.ask(f"idempotent, {what}", PRODUCE, version, request)

        send("first", 0, 0)
        send("next", 0, 2)
        send("the same again", 0, 2)
        send("the one before again", 0, 0)
        send("a gap", 0, 9)
        send("an overlap", 0, 3)
        send("a new epoch that goes on", 2, 4)
        send("a new epoch", 2, 0)
        send("an old epoch", 1, 0)
        send("no sequence", 2, -1)


def _fetch(peer: Peer) -> None:
    for version in versions(FETCH):

        def ask(what: str, topic: str = "still", version: int = version, **fields: Any) -> None:
            request = fetched(peer, topic, **fields)
            peer.ask(what, FETCH, version, request)

        ask("the first record", max_bytes=1)
        ask("all")
        ask("at the end", "empty")
        ask("beyond the end", offset=1_000_000)
        ask("below the start", offset=-1)
        ask("an unknown topic", "unknown")
        ask("an unknown partition", partition=9)
        ask("committed only", isolation_level=1)
        ask("strange isolation", isolation_level=7)
        if version >= 9:
            ask("an epoch that is to come", current_leader_epoch=9)
            ask("an epoch that was", current_leader_epoch=0)
        if version >= 7:
            ask("a session that is not there", session_id=77, session_epoch=1)
            ask("a session to end", session_id=77, session_epoch=-1)
            ask("a session's second fetch first", session_id=0, session_epoch=1)
            _session(peer, version)
        if version >= 12:
            ask("a last epoch that diverges", last_fetched_epoch=5, offset=1)
        empty = fetch.FetchRequest(-1, 0, 1, 1 << 20, 0, 0, -1, [])
        peer.ask("nothing", FETCH, version, empty)


def _session(peer: Peer, version: int) -> None:
    begun = peer.ask("begin a session", FETCH, version, fetched(peer, "empty", session_epoch=0))
    if begun is None:
        return
    for number, what in ((1, "go on"), (5, "a wrong epoch"), (2, "go on again")):
        request = fetch.FetchRequest(-1, 0, 1, 1 << 20, 0, begun.session_id, number, [])
        peer.ask(f"session: {what}", FETCH, version, request)


def fetched(
    peer: Peer,
    topic: str,
    *,
    partition: int = 0,
    offset: int = 0,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> fetch.FetchRequest:
    one = fetch.FetchPartition(
        partition, current_leader_epoch, offset, last_fetched_epoch, -1, partition_max_bytes
    )
    topic_id = peer.topic_ids.get(topic, STRANGE_ID)
    topics = [fetch.FetchTopic(topic, topic_id, [one])]
    return fetch.FetchRequest(
        -1, 0, 1, max_bytes, isolation_level, session_id, session_epoch, topics
    )


def _list_offsets(peer: Peer, now_ms: int) -> None:
    times = {
        "latest": -1, "earliest": -2, "largest timestamp": -3, "earliest local": -4,
        "latest tiered": -5, "earliest pending upload": -6, "a strange one": -7,
        "long ago": 0, "the second record": now_ms + 1, "to come": now_ms + 10**9,
    }  # fmt: skip
    for version in versions(LIST_OFFSETS):
        for what, time_ms in times.items():
            for topic in ("still", "empty"):
                one = list_offsets.ListOffsetsPartition(0, -1, time_ms)
                _ask_offsets(peer, f"{what} of {topic}", version, topic, one)
        cases: tuple[tuple[str, str, list_offsets.ListOffsetsPartition | None], ...] = (
            ("an unknown topic", "unknown", list_offsets.ListOffsetsPartition(0, -1, -1)),
            ("an unknown partition", "still", list_offsets.ListOffsetsPartition(9, -1, -1)),
            ("an epoch to come", "still", list_offsets.ListOffsetsPartition(0, 9, -1)),
            ("twice the same", "still", None),
        )
        for what, topic, wanted in cases:
            _ask_offsets(peer, what, version, topic, wanted)


def _ask_offsets(
    peer: Peer,
    what: str,
    version: int,
    topic: str,
    one: list_offsets.ListOffsetsPartition | None,
) -> None:
    partitions = [list_offsets.ListOffsetsPartition(0, -1, -1)] * 2 if one is None else [one]
    topics = [list_offsets.ListOffsetsTopic(topic, partitions)]
    request = list_offsets.ListOffsetsRequest(-1, 0, topics, 10_000)
    peer.ask(what, LIST_OFFSETS, version, request)


def _producer_ids(peer: Peer) -> None:
    for version in versions(INIT_PRODUCER_ID):
        request = init_producer_id.InitProducerIdRequest(None, 60_000)
        peer.ask("a new id", INIT_PRODUCER_ID, version, request)
        request = init_producer_id.InitProducerIdRequest("", 60_000)
        peer.ask("an empty transactional id", INIT_PRODUCER_ID, version, request)
        if version >= 3:
            request = init_producer_id.InitProducerIdRequest(None, 60_000, 17, 3)
            peer.ask("an id to go on with", INIT_PRODUCER_ID, version, request)
            request = init_producer_id.InitProducerIdRequest(None, 60_000, 17, -1)
            peer.ask("an id without its epoch", INIT_PRODUCER_ID, version, request)


def _new_id(peer: Peer) -> init_producer_id.InitProducerIdResponse:
    request = init_producer_id.InitProducerIdRequest(None, 60_000)
    answer: init_producer_id.InitProducerIdResponse = peer.call(INIT_PRODUCER_ID, 4, request)
    return answer


def _epochs(peer: Peer) -> None:
    part = offset_for_leader_epoch.OffsetForLeaderPartition
    for version in versions(OFFSET_FOR_LEADER_EPOCH):
        for what, topic, one in (
            ("the first epoch", "still", part(0, -1, 0)),
            ("an epoch to come", "still", part(0, -1, 5)),
            ("a negative epoch", "still", part(0, -1, -1)),
            ("a wrong current one", "still", part(0, 7, 0)),
            ("an unknown topic", "unknown", part(0, -1, 0)),
            ("an unknown partition", "still", part(9, -1, 0)),
        ):
            topics = [offset_for_leader_epoch.OffsetForLeaderTopic(topic, [one])]
            request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(-1, topics)
            peer.ask(what, OFFSET_FOR_LEADER_EPOCH, version, request)


def _delete_records(peer: Peer, now_ms: int) -> None:
    peer.call(PRODUCE, 8, produced(peer, "cut", batch(now_ms, 9), 8))
    for version in versions(DELETE_RECORDS):
        for what, topic, partition, offset in (
            ("below two", "cut", 0, 2 + version),
            ("below one", "cut", 0, 1),
            ("beyond the end", "cut", 0, 1_000),
            ("a strange offset", "cut", 0, -3),
            ("an unknown topic", "unknown", 0, 0),
            ("an unknown partition", "cut", 7, 0),
            ("of a compacted topic", "compact", 0, 1),
        ):
            part = delete_records.DeleteRecordsPartition(partition, offset)
            topics = [delete_records.DeleteRecordsTopic(topic, [part])]
            request = delete_records.DeleteRecordsRequest(topics, 10_000)
            peer.ask(what, DELETE_RECORDS, version, request)
        # last, since nothing is there afterwards
    part = delete_records.DeleteRecordsPartition(0, -1)
    topics = [delete_records.DeleteRecordsTopic("cut", [part])]
    request = delete_records.DeleteRecordsRequest(topics, 10_000)
    peer.ask("all", DELETE_RECORDS, 2, request)


def _producers(peer: Peer) -> None:
    for version in versions(DESCRIBE_PRODUCERS):
        for what, topic, partition in (
            ("some", "sequences", 5),
            ("none", "empty", 0),
            ("an unknown topic", "unknown", 0),
            ("an unknown partition", "four", 9),
        ):
            topics = [describe_producers.TopicRequest(topic, [partition])]
            request = describe_producers.DescribeProducersRequest(topics)
            peer.ask(what, DESCRIBE_PRODUCERS, version, request)
