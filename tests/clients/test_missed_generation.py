"""A member that missed a generation goes on where the group has committed, not where it was."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.java_users import why_no_tools
from tests.scenarios.harness.brokers import bootstrap_of, start_broker
from tests.scenarios.harness.missed_generation import MISSING, RECORDS, first_read_again
from tests.scenarios.harness.process import Process
from tests.servers.child import free_port

pytestmark = pytest.mark.clients

SOONER = ("--set", "group.initial.rebalance.delay.ms=200")


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Process]:
    """In front of a broker that calls this address its own."""
    port, advertised = free_port(), free_port()
    address = f"127.0.0.1:{advertised}"
    arguments = (
        *("tests.scenarios.harness.sync_holder", "--listen", address),
        *("--upstream", f"127.0.0.1:{port}", "--client-id", MISSING),
    )
    more = ("--advertise", address, *SOONER)
    with start_broker(str(tmp_path / "log"), port=port, more=more) as broker:
        bootstrap_of(broker)
        with Process(arguments, listens=True) as holder:
            yield holder


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python", "aiokafka", "java"])
def test_a_member_that_missed_a_generation_reads_on_where_the_group_has_committed(
    client: str, tmp_path: Path, holder: Process
) -> None:
    if client == "java" and why_no_tools():
        pytest.skip("Apache Kafka's tools need Java 17 and Maven, once")
    assert first_read_again(client, tmp_path, holder) == 2 * RECORDS


def test_kafka_python_by_itself_reads_on_where_it_was(tmp_path: Path, holder: Process) -> None:
    """Its own doing, with Apache Kafka 4.3.1 too. Another offset here: it was mended, and neither
    `group_member` nor docs/consumers.md needs to know of it."""
    assert first_read_again("kafka-python-alone", tmp_path, holder) == RECORDS
