"""kafka-python and aiokafka create topics, find records by time, and outlive a broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.harness.brokers import bootstrap_of, start_broker, stop
from tests.scenarios.harness.process import Process
from tests.servers.child import free_port

pytestmark = pytest.mark.clients

DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_broker(str(tmp_path_factory.mktemp("log"))) as broker:
        yield bootstrap_of(broker)


def tell(story: str, bootstrap: str) -> Process:
    return Process(("tests.clients.python_stories", story, "--bootstrap", bootstrap))


@pytest.mark.parametrize(
    "story",
    ["kafka_python_topics", "kafka_python_times", "aiokafka_topics", "aiokafka_subscribes"],
)
def test_a_story_ends_well(story: str, bootstrap: str) -> None:
    with tell(story, bootstrap) as reported:
        reported.wait_for("^done$", deadline_s=DEADLINE_S)


@pytest.mark.parametrize("story", ["aiokafka_restart", "aiokafka_restart_idempotent"])
def test_a_producer_outlives_its_broker(story: str, tmp_path: Path) -> None:
    port, log = free_port(), str(tmp_path / "log")
    with start_broker(log, port=port) as first, tell(story, bootstrap_of(first)) as reported:
        reported.wait_for("^written$", deadline_s=DEADLINE_S)
        stop(first)
        with start_broker(log, port=port) as second:
            reported.wait_for("^done$", deadline_s=DEADLINE_S)
            stop(second)
