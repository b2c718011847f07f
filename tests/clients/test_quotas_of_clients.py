"""Clients under a quota are throttled, lose nothing, and stay within it; Kafka's tool sets it.

Bounds by time are lower ones: however slow this machine is, a client takes at least so long.
"""

import random
from collections.abc import Iterator

import confluent_kafka
import pytest

from logstore.ports.clock import SystemClock
from tests.broker.quota_calls import set_quota
from tests.clients.java_users import run_tool, why_no_tools
from tests.clients.test_librdkafka import read
from tests.scenarios.harness.fleet import directory_place, fleet
from tests.scenarios.harness.process import Process
from tools.full_wire import Connection

pytestmark = pytest.mark.clients

DEADLINE_S = 120.0
LIMIT = 20_000
WINDOWS_S = 11
VALUE, COUNT = b"v" * 40_000, 7


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of two brokers, each of which has quotas of its own in force."""
    place = directory_place(tmp_path_factory.mktemp("quotas"))
    with fleet(place, 2, random.Random(), swallowed=False) as brokers:
        yield brokers.bootstrap


def limit(bootstrap: str, client_id: str, **values: float) -> None:
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with Connection.open(host, int(port), DEADLINE_S) as connection:
        set_quota(connection, {"client-id": client_id}, **values)


def test_librdkafka_is_throttled_and_stays_within_its_quota(bootstrap: str) -> None:
    limit(bootstrap, "limited", producer_byte_rate=LIMIT, consumer_byte_rate=LIMIT)
    clock, throttles, errors = SystemClock(), list[float](), list[object]()
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "limited",
            "linger.ms": 0,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    began_s = clock.monotonic_s()
    for _ in range(COUNT):
        producer.produce("limited", VALUE, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(DEADLINE_S) == 0
    took_s = clock.monotonic_s() - began_s

    # The last one is throttled as well, after it was sent.
    assert (COUNT - 1) * len(VALUE) <= LIMIT * (took_s + WINDOWS_S)
    assert errors == [None] * COUNT
    assert throttles
    assert 0 < max(throttles) <= COUNT * len(VALUE) / LIMIT
    offsets = [m.offset() for m in read(bootstrap, "limited", COUNT, client_id="limited")]
    assert offsets == list(range(COUNT))


def test_kafka_python_is_throttled(bootstrap: str) -> None:
    limit(bootstrap, "kp-limited", producer_byte_rate=LIMIT, consumer_byte_rate=LIMIT)
    story = ("tests.clients.python_stories", "kafka_python_quota", "--bootstrap", bootstrap)
    with Process(story) as reported:
        reported.wait_for("^done$", deadline_s=DEADLINE_S)


def test_kafka_configs_sets_shows_and_removes_quotas(bootstrap: str) -> None:
    if why_no_tools():
        pytest.skip("Apache Kafka's tools need Java 17 and Maven, once")

    def configs(*arguments: str) -> str:
        tool = "kafka.admin.ConfigCommand"
        return run_tool(tool, "--bootstrap-server", bootstrap, *arguments)

    user = ("--entity-type", "users", "--entity-name", "alice")
    both = (*user, "--entity-type", "clients", "--entity-name", "app")
    default = ("--entity-type", "clients", "--entity-default")
    address = ("--entity-type", "ips", "--entity-name", "10.9.8.7")
    rates = "producer_byte_rate=1000000,request_percentage=150.5"
    configs("--alter", *user, "--add-config", rates)
    configs("--alter", *both, "--add-config", "consumer_byte_rate=2000000")
    configs("--alter", *default, "--add-config", "controller_mutation_rate=10000")
    configs("--alter", *address, "--add-config", "connection_creation_rate=5")

    shown = configs("--describe", *user)
    assert "user-principal 'alice'" in shown
    assert "producer_byte_rate=1000000.0" in shown
    assert "request_percentage=150.5" in shown
    assert "consumer_byte_rate=2000000.0" in configs("--describe", *both)
    assert "connection_creation_rate=5.0" in configs("--describe", "--entity-type", "ips")

    configs("--alter", *user, "--delete-config", "producer_byte_rate,request_percentage")
    assert configs("--describe", "--entity-type", "users") == ""
