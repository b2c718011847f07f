"""librdkafka, as Spark's and Python's users have it, against a broker process on a directory."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TIMESTAMP_LOG_APPEND_TIME, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from tests.scenarios.harness.brokers import bootstrap_of, start_broker, stop
from tests.servers.child import free_port

pytestmark = pytest.mark.clients

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_broker(str(tmp_path_factory.mktemp("log"))) as broker:
        yield bootstrap_of(broker)


def admin_of(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def create(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    config = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, partitions, 1, config=config)
    admin = admin_of(bootstrap)  # its futures live no longer than it does
    admin.create_topics([topic])[name].result(DEADLINE_S)


class Producer:
    """Sends and waits; keeps (offset, error) of every record."""

    def __init__(self, bootstrap: str, **settings: str | int | bool) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "log_level": 0, **given}
        )
        self.offsets: list[int] = []

    def send(self, topic: str, *values: bytes | None, **fields: int | bytes) -> list[int]:
        """The offsets of these records."""
        before = len(self.offsets)
        for value in values:
            self._producer.produce(topic, value=value, on_delivery=self._report, **fields)  # type: ignore[arg-type]
        assert self._producer.flush(DEADLINE_S) == 0
        return sorted(self.offsets[before:])

    def _report(self, error: object, message: confluent_kafka.Message) -> None:
        assert error is None, error
        offset = message.offset()
        assert offset is not None
        self.offsets.append(offset)


def consumer_of(bootstrap: str, **settings: str | bool) -> confluent_kafka.Consumer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
            "log_level": 0,
            **given,
        }
    )


def read(
    bootstrap: str, topic: str, count: int, *, offset: int = OFFSET_BEGINNING, **settings: str
) -> list[confluent_kafka.Message]:
    consumer = consumer_of(bootstrap, **settings)
    consumer.assign([TopicPartition(topic, 0, offset)])
    messages: list[confluent_kafka.Message] = []
    while len(messages) < count:
        came = consumer.consume(count - len(messages), timeout=DEADLINE_S)
        assert came, f"only {len(messages)} of {count} came"
        for message in came:
            assert message.error() is None, message.error()
            messages.append(message)
    consumer.close()
    return messages


def test_a_topic_is_created_by_writing_to_it(bootstrap: str) -> None:
    assert Producer(bootstrap).send("by-writing", b"a", b"b") == [0, 1]
    assert [m.value() for m in read(bootstrap, "by-writing", 2)] == [b"a", b"b"]


@pytest.mark.parametrize("idempotent", [False, True])
def test_nulls_and_empties_stay_what_they_are(bootstrap: str, idempotent: bool) -> None:
    topic = f"nulls-{idempotent}"
    producer = Producer(bootstrap, enable_idempotence=idempotent)
    producer.send(topic, None, b"", b"value")
    producer.send(topic, b"keyed", key=b"")

    messages = read(bootstrap, topic, 4)

    assert [m.value() for m in messages[:3]] == [None, b"", b"value"]
    assert [m.key() for m in messages] == [None, None, None, b""]


def test_a_topic_that_stamps_append_time_says_so(bootstrap: str) -> None:
    create(bootstrap, "stamped", message_timestamp_type="LogAppendTime")
    Producer(bootstrap).send("stamped", b"x", timestamp=1_000)

    kind, timestamp = read(bootstrap, "stamped", 1)[0].timestamp()

    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert timestamp > 1_700_000_000_000


def test_offsets_are_found_by_time(bootstrap: str) -> None:
    create(bootstrap, "times")
    producer = Producer(bootstrap)
    for timestamp in (1_000, 2_000, 3_000):
        producer.send("times", b"x", b"y", timestamp=timestamp)
    consumer = consumer_of(bootstrap)

    def at(timestamp: int) -> int:
        asked = [TopicPartition("times", 0, timestamp)]
        return consumer.offsets_for_times(asked, DEADLINE_S)[0].offset

    assert (at(0), at(2_000), at(2_001), at(9_000)) == (0, 2, 4, OFFSET_END)
    assert consumer.get_watermark_offsets(TopicPartition("times", 0), DEADLINE_S) == (0, 6)
    consumer.close()
    admin = admin_of(bootstrap)
    wanted = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
    latest = admin.list_offsets({TopicPartition("times", 0): wanted})
    assert next(iter(latest.values())).result(DEADLINE_S).offset == 4


def test_reading_may_begin_inside_a_batch_and_read_committed_sees_all(bootstrap: str) -> None:
    create(bootstrap, "inside")
    Producer(bootstrap, linger_ms=50).send("inside", *[b"%d" % n for n in range(100)])

    messages = read(bootstrap, "inside", 60, offset=40, isolation_level="read_committed")

    assert [m.offset() for m in messages] == list(range(40, 100))


def test_a_message_larger_than_a_fetch_comes_all_the_same(bootstrap: str) -> None:
    create(bootstrap, "large", max_message_bytes="20000000")
    value = bytes(range(256)) * 40_000
    Producer(bootstrap, message_max_bytes=20_000_000).send("large", value)

    (message,) = read(bootstrap, "large", 1, fetch_message_max_bytes="1000")

    assert message.value() == value


def test_a_topic_is_deleted_and_created_again(bootstrap: str) -> None:
    admin = admin_of(bootstrap)
    create(bootstrap, "again", 2)
    Producer(bootstrap).send("again", b"old", partition=0)
    admin.delete_topics(["again"])["again"].result(DEADLINE_S)
    with pytest.raises(confluent_kafka.KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        admin.delete_topics(["again"])["again"].result(DEADLINE_S)
    create(bootstrap, "again")

    assert Producer(bootstrap).send("again", b"new") == [0]
    assert [m.value() for m in read(bootstrap, "again", 1)] == [b"new"]


def test_a_broker_that_starts_again_serves_the_same_and_takes_more(tmp_path: Path) -> None:
    port = free_port()
    log = str(tmp_path / "log")
    with start_broker(log, port=port) as broker:
        bootstrap = bootstrap_of(broker)
        create(bootstrap, "kept")
        producer = Producer(bootstrap, enable_idempotence=True)
        assert producer.send("kept", b"1", b"2") == [0, 1]
        stop(broker)
    with start_broker(log, port=port) as broker:
        assert "epoch 2 " in broker.wait_for(" listening on .*").string
        # The producer never knew: its sequence goes on where the log's memory of it ends.
        assert producer.send("kept", b"3") == [2]
        assert [m.value() for m in read(bootstrap, "kept", 3)] == [b"1", b"2", b"3"]
        stop(broker)
    with start_broker(log, port=port) as broker:
        bootstrap_of(broker)
        assert producer.send("kept", b"4") == [3]
        stop(broker)
