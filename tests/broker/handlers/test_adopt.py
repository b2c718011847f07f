"""Adopt: a leader copies what tasks of a sink staged, once, in order, or says why not."""

import dataclasses
from collections.abc import Sequence

import pytest

from broker.answers.broker import ADOPTIONS_MAX
from broker.network.authorizer import Operation
from logstore.epoch.leader import Leader
from logstore.errors import OutcomeUnknown
from logstore.formats.keys import segment_key
from logstore.formats.partition_state import SINK_EXPIRATION_MS
from logstore.formats.segment import AdoptEnd, EntryKind, decode_front
from logstore.formats.staging_keys import BATCH_MAX
from logstore.protocol.sinks import adopt_plan
from logstore.protocol.sinks.verdicts import DAY_MS, SINKS_MAX
from logstore.records.batch import read_header
from logstore.wire.adopt import ADOPT_KEY, AdoptOutcome, AdoptRequest, AdoptResponse
from logstore.wire.framing.apis import PRIVATE_APIS, encode_request_frame
from logstore.wire.framing.client import Connection
from tests.broker.network.test_authorizer import deny
from tests.broker.running import NOW_MS, Running, batch_of, produce
from tests.broker.staging import Staging, adopt, connect, outcome, refusal, staging, values

ADOPTED, ALREADY, INVALID = AdoptOutcome.ADOPTED, AdoptOutcome.ALREADY, AdoptOutcome.INVALID
NOT_LEADER, BUSY = AdoptOutcome.NOT_LEADER, AdoptOutcome.BUSY


def leader(running: Running, name: str, partition: int = 0) -> Leader:
    return running.log.topics[name].leaders[partition]


def test_staged_batches_are_copied_in_the_manifests_order(running: Running) -> None:
    topic = running.create_topic("order", 2)
    found = staging(running, topic, "order")
    found.task({1: [["a", "b"], ["c"]], 0: [["x"]]})
    found.task({1: [["d"]]})
    found.small_task({1: [["e", "f"]]})
    found.put(running.shared.objects)
    zero, one = adopt(running, found.request(0, 1))

    assert (zero.outcome, zero.first_offset, zero.end_offset) == (ADOPTED, 0, 1)
    assert (one.outcome, one.first_offset, one.end_offset) == (ADOPTED, 0, 6)
    assert (values(running, "order", 0), values(running, "order", 1)) == (["x"], [*"abcdef"])


def test_a_repeat_copies_nothing_and_gets_the_same_offsets(running: Running) -> None:
    topic = running.create_topic("repeat")
    first = staging(running, topic, "repeat", 4)
    first.task({0: [["a"], ["b"]]})
    first.put(running.shared.objects)
    with running.connect() as client:
        produce(client, "repeat", batch_of(b"other"))

    assert outcome(running, first.request()) == (ADOPTED, 1, 3)
    assert outcome(running, first.request()) == (ALREADY, 1, 3)
    second = staging(running, topic, "repeat", 5)
    second.small_task({0: [["c"]]})
    second.put(running.shared.objects)
    assert outcome(running, second.request()) == (ADOPTED, 3, 4)
    assert outcome(running, first.request()) == (ALREADY, -1, -1), "a delayed request"
    assert outcome(running, second.request()) == (ALREADY, 3, 4)
    assert values(running, "repeat") == ["other", "a", "b", "c"]


def test_a_partition_without_rows_needs_nothing(running: Running) -> None:
    topic = running.create_topic("empty", 2)
    found = staging(running, topic, "empty")
    found.small_task({0: [["a"]]})
    found.put(running.shared.objects)

    assert outcome(running, found.request(1)) == (ALREADY, -1, -1)


def test_two_requests_at_once_copy_a_batch_once(running: Running) -> None:
    topic = running.create_topic("twice")
    found = staging(running, topic, "twice")
    found.task({0: [["a"], ["b"]]})
    found.put(running.shared.objects)
    running.hold_store()
    with connect(running) as one, connect(running) as two:
        for client in (one, two):
            send(client, found.request())
        running.wait_until(lambda: leader(running, "twice").log_end == 2)
        running.let_store_go()
        results = [receive(client) for client in (one, two)]

    assert sorted(result.topics[0].partitions[0].outcome for result in results) == [
        ADOPTED,
        ALREADY,
    ]
    assert {result.topics[0].partitions[0].first_offset for result in results} == {0}
    assert values(running, "twice") == ["a", "b"]


def test_a_repeat_of_what_is_not_committed_waits_for_the_same_commit(running: Running) -> None:
    topic = running.create_topic("waits")
    found = staging(running, topic, "waits")
    found.task({0: [["a"]]})
    found.put(running.shared.objects)
    running.hold_store()
    first = outcome(running, found.request(timeout_ms=300))
    again = outcome(running, found.request(timeout_ms=300))
    running.let_store_go()

    assert first[0] == again[0] == BUSY
    assert outcome(running, found.request()) == (ALREADY, 0, 1)
    assert values(running, "waits") == ["a"]


def test_a_late_request_finds_the_batch_there_where_its_staging_was_swept(
    running: Running,
) -> None:
    topic = running.create_topic("late", 2)
    found = staging(running, topic, "late")
    found.task({0: [["a"]]})
    found.put(running.shared.objects)
    assert outcome(running, found.request(1))[0] == ALREADY  # the manifest is kept from now on
    reads = running.broker.store_reads
    count = running.broker.settings.number("logstore.cold.reads.max")

    async def hold_reads() -> None:
        for _ in range(count):
            await reads.acquire()

    def let_reads_go() -> None:
        for _ in range(count):
            reads.release()

    running.wait_for(hold_reads())
    with connect(running) as client:
        send(client, found.request())
        running.wait_until(lambda: is_copying(running))
        copy_in_part(running, found, "late", [b"a"], 1)
        for ref in found.objects:
            running.shared.objects.delete(ref.name.key(found.sink_batch))
        running.do(let_reads_go)
        (result,) = receive(client).topics[0].partitions

    assert (result.outcome, result.first_offset, result.end_offset) == (ALREADY, 0, 1)


def is_copying(running: Running) -> bool:
    return running.broker.adoptions._value < ADOPTIONS_MAX


def test_what_is_copied_lies_in_one_segment_with_the_memory_of_it(running: Running) -> None:
    topic = running.create_topic("together")
    found = staging(running, topic, "together")
    found.task({0: [[f"{number}"] for number in range(50)]})
    found.put(running.shared.objects)
    assert outcome(running, found.request()) == (ADOPTED, 0, 50)

    ends = 0
    for seq in range(1, running.log.writer.committed_end):
        data = running.shared.objects.get(segment_key(running.log.epoch, seq))
        entries = [e for e in decode_front(data).entries if e.topic_id == topic.topic_id]
        batches = [e for e in entries if e.kind == EntryKind.BATCH]
        for end in (e for e in entries if e.kind == EntryKind.ADOPT_END):
            ends += 1
            assert (end.base_offset, end.last_offset) == (0, 49)
            assert [e.base_offset for e in batches] == [*range(50)]
    assert ends == 1


@pytest.mark.parametrize("part", [1, 3, 7])
def test_a_batch_in_several_parts_is_whole(
    running: Running, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(adopt_plan, "PART_BATCHES", part)
    monkeypatch.setattr(adopt_plan, "WINDOW_BYTES", 400)
    topic = running.create_topic(f"parts-{part}")
    found = staging(running, topic, f"parts-{part}")
    found.task({0: [[f"a{number}"] for number in range(9)]})
    found.task({0: [[f"b{number}"] for number in range(8)]})
    found.put(running.shared.objects)

    assert outcome(running, found.request()) == (ADOPTED, 0, 17)
    expected = [f"a{number}" for number in range(9)] + [f"b{number}" for number in range(8)]
    assert values(running, f"parts-{part}") == expected


@pytest.mark.parametrize("done", [1, 2, 4, 5])
def test_a_batch_that_is_here_in_part_goes_on_where_it_was(running: Running, done: int) -> None:
    """As a leader that died between two parts left it."""
    name = f"go-on-{done}"
    topic = running.create_topic(name)
    found = staging(running, topic, name)
    ref = found.task({0: [[f"{number}"] for number in range(3)]})
    found.task({0: [[f"{number}"] for number in range(3, 6)]})
    found.put(running.shared.objects)
    copy_in_part(running, found, name, [b"%d" % number for number in range(done)], 6)

    assert outcome(running, found.request()) == (ADOPTED, 0, 6)
    assert values(running, name) == [f"{number}" for number in range(6)]
    assert ref in found.objects


def copy_in_part(
    running: Running, found: Staging, name: str, first: Sequence[bytes], total: int
) -> None:
    """Copy the first batches, with one value each."""

    def copy() -> None:
        part = []
        for value in first:
            data = memoryview(batch_of(value))
            part.append((data, read_header(data, 0, len(data))))
        leader(running, name).adopt(found.sink_batch, part, batches_done=0, batches_total=total)

    running.do(copy)


def test_log_append_time_is_stamped(running: Running) -> None:
    topic = running.create_topic("stamped", configs={"message.timestamp.type": "LogAppendTime"})
    found = staging(running, topic, "stamped")
    found.task({0: [["a"], ["b"]]})
    found.put(running.shared.objects)
    running.clock.ahead_ms = 60_000

    assert outcome(running, found.request()) == (ADOPTED, 0, 2)
    assert leader(running, "stamped").epoch_range.max_timestamp >= NOW_MS + 60_000


# Refused


def test_an_old_manifest_is_refused(running: Running) -> None:
    topic = running.create_topic("old")
    for batch, age_ms in ((0, SINK_EXPIRATION_MS - DAY_MS), (BATCH_MAX, 2 * DAY_MS)):
        found = staging(running, topic, f"old-{batch}", batch)
        found.created_ms = NOW_MS - age_ms
        found.small_task({0: [["a"]]})
        found.put(running.shared.objects)
        assert "too old" in refusal(running, found.request(), INVALID)
    ahead = staging(running, topic, "ahead")
    ahead.created_ms = NOW_MS + 2 * DAY_MS
    ahead.small_task({0: [["a"]]})
    ahead.put(running.shared.objects)
    assert "of the future" in refusal(running, ahead.request(), INVALID)
    assert values(running, "old") == []


@pytest.mark.parametrize("ahead_days", [10, -10])
def test_a_manifest_is_as_old_as_the_chain_says_whatever_the_date_of_the_host(
    running: Running, ahead_days: int
) -> None:
    """Sinks are forgotten by the chain's time: a manifest judged by another could be copied after
    its sink is forgotten, or be refused while it could finish its batch."""
    topic = running.create_topic(
        f"wrong-date{ahead_days}", configs={"message.timestamp.after.max.ms": str(100 * DAY_MS)}
    )
    running.clock.ahead_ms = ahead_days * DAY_MS
    young, old = (staging(running, topic, f"{age}{ahead_days}") for age in ("young", "old"))
    young.created_ms = NOW_MS - 20 * DAY_MS
    old.created_ms = NOW_MS - 29 * DAY_MS
    for found in (young, old):
        found.small_task({0: [["a"]]})
        found.put(running.shared.objects)

    assert outcome(running, young.request()) == (ADOPTED, 0, 1)
    assert "too old" in refusal(running, old.request(), INVALID)


def test_a_void_manifest_is_refused(running: Running) -> None:
    topic = running.create_topic("void")
    found = staging(running, topic, "void")
    found.put(running.shared.objects, found.void())

    assert "void" in refusal(running, found.request(), INVALID)


def test_another_manifest_than_was_asked_for_is_refused(running: Running) -> None:
    topic = running.create_topic("nonce")
    found = staging(running, topic, "nonce")
    found.small_task({0: [["a"]]})
    found.put(running.shared.objects)
    request = found.request()
    request.manifest_nonce = b"n" * 16

    assert found.sink_batch.manifest_key in refusal(running, request, INVALID)
    assert outcome(running, found.request())[0] == ADOPTED


@pytest.mark.parametrize("key", ["chains/00/1/1", "staging/ab/1/manifest", "", "../cluster.json"])
def test_what_is_no_manifests_key_is_refused(running: Running, key: str) -> None:
    topic = running.log.topics.get("key") or running.create_topic("key")
    request = staging(running, topic, "key").request()
    request.manifest_key = key

    assert "not the key of a manifest" in refusal(running, request, INVALID)


def test_a_manifest_that_is_not_there_is_refused(running: Running) -> None:
    topic = running.create_topic("nothing")
    found = staging(running, topic, "nothing")

    assert found.sink_batch.manifest_key in refusal(running, found.request(), INVALID)


def test_records_that_the_topic_refuses_are_refused(running: Running) -> None:
    topic = running.create_topic("large", configs={"max.message.bytes": "200"})
    found = staging(running, topic, "large")
    found.task({0: [["a"], ["b" * 300]]})
    found.put(running.shared.objects)

    assert "max.message.bytes" in refusal(running, found.request(), INVALID)
    assert leader(running, "large").log_end == 0


def test_a_sink_too_many_is_refused_by_name(running: Running) -> None:
    topic = running.create_topic("many")
    state = leader(running, "many").epoch_range.state

    def fill() -> None:
        for number in range(SINKS_MAX):
            end = AdoptEnd(number.to_bytes(16, "big"), 0, 1, 1, 0, -1)
            state.apply_adopted(end, NOW_MS)

    running.do(fill)
    found = staging(running, topic, "many")
    found.small_task({0: [["a"]]})
    found.put(running.shared.objects)
    assert "too many sinks" in refusal(running, found.request(), INVALID)


def test_a_later_batch_waits_for_the_rest_of_the_one_before(running: Running) -> None:
    topic = running.create_topic("rest")
    found = staging(running, topic, "rest", 1)
    copy_in_part(running, found, "rest", [b"a", b"b"], 6)
    later = staging(running, topic, "rest", 2)
    later.small_task({0: [["a"]]})
    later.put(running.shared.objects)

    assert "not complete" in refusal(running, later.request(), INVALID)


def test_writing_must_be_allowed(running: Running) -> None:
    topic = running.create_topic("guarded")
    found = staging(running, topic, "guarded")
    found.small_task({0: [["a"]]})
    found.put(running.shared.objects)
    deny(running, Operation.WRITE)

    assert "no right" in refusal(running, found.request(), AdoptOutcome.NOT_ALLOWED)
    assert leader(running, "guarded").log_end == 0


def test_a_deleted_topic_is_unknown_and_a_new_one_of_its_name_is_another(running: Running) -> None:
    topic = running.create_topic("gone")
    found = staging(running, topic, "gone")
    found.small_task({0: [["a"]]})
    found.put(running.shared.objects)
    running.delete_topic("gone")
    running.wait_until(lambda: topic.topic_id not in running.log.topics_by_id)
    message = refusal(running, found.request(), AdoptOutcome.UNKNOWN_TOPIC_ID)
    assert "gone" in message
    running.create_topic("gone")
    refusal(running, found.request(), AdoptOutcome.UNKNOWN_TOPIC_ID)
    assert leader(running, "gone").log_end == 0


def test_another_leader_epoch_or_partition_is_to_be_looked_up_again(running: Running) -> None:
    topic = running.create_topic("epoch")
    found = staging(running, topic, "epoch")
    found.small_task({0: [["a"]]})
    found.put(running.shared.objects)

    refusal(running, found.request(leader_epoch=1), NOT_LEADER)
    refusal(running, found.request(3), NOT_LEADER)
    assert outcome(running, found.request(leader_epoch=0)) == (ADOPTED, 0, 1)


def test_a_broker_with_a_full_backlog_is_busy(running: Running) -> None:
    topic = running.create_topic("full")
    found = staging(running, topic, "full")
    found.small_task({0: [["a"]]})
    found.put(running.shared.objects)
    settings = running.log.writer._settings
    running.do(lambda: set_backlog(running, 0))
    try:
        assert "ask again" in refusal(running, found.request(), BUSY)
        assert leader(running, "full").log_end == 0
    finally:
        running.do(lambda: set_backlog(running, settings.backlog_bytes_max))
    assert outcome(running, found.request()) == (ADOPTED, 0, 1)


def set_backlog(running: Running, bytes_max: int) -> None:
    writer = running.log.writer
    writer._settings = dataclasses.replace(writer._settings, backlog_bytes_max=bytes_max)


def test_a_request_that_names_a_partition_twice_ends_its_connection(running: Running) -> None:
    topic = running.create_topic("named")
    found = staging(running, topic, "named")
    found.small_task({0: [["a"]]})
    found.put(running.shared.objects)

    with pytest.raises(OutcomeUnknown):
        adopt(running, found.request(0, 0))
    assert leader(running, "named").log_end == 0


def send(client: Connection, request: AdoptRequest) -> None:
    frame = encode_request_frame(1, PRIVATE_APIS[ADOPT_KEY], 0, "me", request)
    client._peer.sendall(b"".join(frame))


def receive(client: Connection) -> AdoptResponse:
    frame = client._read_frame(client._deadline())
    response: AdoptResponse = PRIVATE_APIS[ADOPT_KEY].decode_response(0, frame, 4)
    return response
