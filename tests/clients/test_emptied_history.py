"""The owner of a table deletes all its last rows: clients reach the end all the same.

A client that waits until its position is the end, as Kafka Streams does when it restores a store,
would wait for ever if its fetches got nothing at all.
"""

from collections.abc import Iterator

import confluent_kafka
import pytest
from deltalake import DeltaTable

from benchmarks.peers.moved import move_all
from tests.clients.other_languages import CODECS, program_of, why_not
from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker, stop
from tests.scenarios.harness.data import Writer
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.clients

TOPIC, COUNT, LEFT = "emptied", 30, 10
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of a log without segments, whose tables have the first `LEFT` of `COUNT` rows."""
    log = tmp_path_factory.mktemp("emptied") / "log"
    with start_broker(str(log)) as broker:
        for topic in (TOPIC, *CODECS):
            create_topic(bootstrap_of(broker), topic, 1)
            write(bootstrap_of(broker), topic, range(COUNT))
        stop(broker)
    move_all(log)
    for table in {folder.parent for folder in log.rglob("_delta_log")}:
        DeltaTable(str(table)).delete(f"offset >= {LEFT}")
    with start_broker(str(log)) as broker:
        yield bootstrap_of(broker)
        stop(broker)


def write(bootstrap: str, topic: str, numbers: range) -> None:
    writer = Writer(bootstrap, topic)
    writer.send([str(number) for number in numbers])
    assert writer.flush() == 0


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


@pytest.mark.parametrize("client", CODECS)
def test_a_client_goes_on_behind_the_rows_that_are_gone(bootstrap: str, client: str) -> None:
    """These do not say their position: they get there when they read what is written next."""
    if why_not(client):
        pytest.skip("clients in Go and for Node need these and their registries, once")
    arguments, program = ("assigned", bootstrap, client), program_of(client)
    with Process(arguments, program=program, listens=True) as reader:
        reader.wait_for(f"^read 0 {LEFT - 1} ", deadline_s=DEADLINE_S)
        write(bootstrap, client, range(COUNT, COUNT + 1))
        reader.wait_for(f"^read 0 {COUNT} ", deadline_s=DEADLINE_S)
        read = [line for line in reader.said if line.startswith("read")]
        assert len(read) == LEFT + 1
