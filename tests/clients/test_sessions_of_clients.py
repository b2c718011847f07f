"""A client in a fetch session reads on while partitions come and go and its broker restarts.

librdkafka and aiokafka use none; Kafka's own tools do (`test_kafka_tools`).
"""

from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker, stop
from tests.scenarios.harness.process import Process
from tests.servers.child import free_port

pytestmark = pytest.mark.clients

DEADLINE_S = 300.0


def write(bootstrap: str, topic: str, partition: int, value: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(DEADLINE_S) == 0


def test_kafka_python_reads_on_in_sessions(tmp_path: Path) -> None:
    port, log = free_port(), str(tmp_path / "log")
    with start_broker(log, port=port) as first:
        bootstrap = bootstrap_of(first)
        create_topic(bootstrap, "a", 3)
        create_topic(bootstrap, "b", 1)
        with Process(("tests.clients.session_stories", "--bootstrap", bootstrap)) as reader:

            def read(topic: str, partition: int, value: str) -> None:
                write(bootstrap, topic, partition, value)
                reader.wait_for(f"^read {value}$", deadline_s=DEADLINE_S)

            read("a", 0, "one")
            read("a", 1, "two")
            read("a", 0, "session")
            write(bootstrap, "b", 0, "three")
            read("a", 1, "add")
            reader.wait_for("^read three$", deadline_s=DEADLINE_S)
            read("a", 2, "four")
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.delete_topics(["b"])["b"].result(DEADLINE_S)
            read("a", 0, "five")
            stop(first)
            with start_broker(log, port=port) as second:
                bootstrap_of(second)
                read("a", 1, "six")
                read("a", 2, "seven")
                read("a", 0, "end")
                assert reader.wait(deadline_s=DEADLINE_S) == 0
                stop(second)
