"""Two broker processes on one directory, for clients that administer a cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from logstore.ports.clock import SystemClock
from logstore.wire.framing.client import Connection
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.scenarios.harness.brokers import bootstrap_of, start_broker

METADATA = 3
DEADLINE_S = 60.0


@contextmanager
def two_brokers(log: Path) -> Iterator[str]:
    """Brokers 1 and 2, which know each other; the address of the first."""
    with start_broker(str(log), more=("--broker", "1", "--rack", "a")) as first:
        bootstrap = bootstrap_of(first)
        with start_broker(str(log), more=("--broker", "2", "--rack", "b")) as second:
            for address in (bootstrap, bootstrap_of(second)):
                until(lambda address=address: brokers_of(address) == 2)  # type: ignore[misc]
            yield bootstrap


def until(holds: Callable[[], bool]) -> None:
    """Brokers learn of each other, and of changes, within a moment."""
    clock = SystemClock()
    deadline = clock.monotonic_s() + DEADLINE_S
    while not holds():
        assert clock.monotonic_s() < deadline, "it never came true"


def brokers_of(bootstrap: str) -> int:
    """How many the broker at `bootstrap` knows to be alive."""
    host, _, port = bootstrap.rpartition(":")
    with Connection.open(host, int(port), DEADLINE_S) as connection:
        return len(connection.call(METADATA, MetadataRequest([])).brokers)


def known_everywhere(bootstrap: str, name: str, partitions: int = 1) -> None:
    """Until every broker shows the topic with so many partitions."""
    host, _, port = bootstrap.rpartition(":")
    request = MetadataRequest([MetadataRequestTopic(name=name)], False)
    with Connection.open(host, int(port), DEADLINE_S) as first:
        brokers = first.call(METADATA, MetadataRequest([])).brokers
    for broker in brokers:
        with Connection.open(broker.host, broker.port, DEADLINE_S) as one:

            def shown(one: Connection = one) -> bool:
                (topic,) = one.call(METADATA, request).topics
                return len(topic.partitions) == partitions

            until(shown)
