"""The owner of a topic's table deletes all its last rows: clients reach the end all the same.

A client that waits until its position is the end, as Kafka Streams does when it restores a store,
would wait for ever if its fetches got nothing at all.
"""

from collections.abc import Iterator

import confluent_kafka
import pytest
from deltalake import DeltaTable

from benchmarks.peers.moved import move_all
from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker, stop
from tests.scenarios.harness.data import Writer
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.clients

TOPIC, COUNT, LEFT = "emptied", 30, 10
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of a log without segments, whose table has the first `LEFT` of `COUNT` rows."""
    log = tmp_path_factory.mktemp("emptied") / "log"
    with start_broker(str(log)) as broker:
        create_topic(bootstrap_of(broker), TOPIC, 1)
        writer = Writer(bootstrap_of(broker), TOPIC)
        writer.send([str(number) for number in range(COUNT)])
        assert writer.flush() == 0
        stop(broker)
    move_all(log)
    (table,) = {folder.parent for folder in log.rglob("_delta_log")}
    DeltaTable(str(table)).delete(f"offset >= {LEFT}")
    with start_broker(str(log)) as broker:
        yield bootstrap_of(broker)
        stop(broker)


def test_librdkafka_reports_the_end(bootstrap: str) -> None:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    for number in range(LEFT):
        message = consumer.poll(DEADLINE_S)
        assert message is not None and message.value() == b"%d" % number
    message = consumer.poll(DEADLINE_S)
    assert message is not None
    error = message.error()
    assert error is not None and error.code() == confluent_kafka.KafkaError._PARTITION_EOF
    assert message.offset() == COUNT
    consumer.close()


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_position_is_the_end(bootstrap: str, client: str) -> None:
    where = ("--bootstrap", bootstrap, "--topic", TOPIC, "--end", str(COUNT))
    with Process(("tests.clients.end_stories", client, *where)) as story:
        said = story.wait_for("^read (.*)$", deadline_s=DEADLINE_S)
        assert said[1] == str(LEFT)
        assert story.wait() == 0
