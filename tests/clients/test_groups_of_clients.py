"""Consumer groups by librdkafka, kafka-python and aiokafka, against a real broker process."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker, stop
from tests.scenarios.harness.process import Process
from tests.servers.child import free_port

pytestmark = pytest.mark.clients

DEADLINE_S = 90.0
SOONER = ("--set", "group.initial.rebalance.delay.ms=200")


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_broker(str(tmp_path_factory.mktemp("log")), more=SOONER) as broker:
        yield bootstrap_of(broker)


def tell(story: str, bootstrap: str, group: str | None = None) -> Process:
    return Process(
        ("tests.clients.group_stories", story, "--bootstrap", bootstrap, "--group", group or story),
        listens=True,
    )


@pytest.mark.parametrize(
    "story",
    [
        "librdkafka_shares",
        "librdkafka_cooperates",
        "librdkafka_static",
        "kafka_python_shares",
        "kafka_python_static",
        "kafka_python_administers",
        "aiokafka_shares",
        "aiokafka_static",
    ],
)
def test_a_story_ends_well(story: str, bootstrap: str) -> None:
    with tell(story, bootstrap) as reported:
        reported.wait_for("^done$", deadline_s=DEADLINE_S)


def test_clients_of_different_make_share_a_topic(bootstrap: str) -> None:
    with Process(("tests.clients.mixed_group", "--bootstrap", bootstrap)) as reported:
        reported.wait_for("^done$", deadline_s=DEADLINE_S)


def test_partitions_of_a_consumer_that_was_killed_go_to_the_others(bootstrap: str) -> None:
    create_topic(bootstrap, "holds-killed", 4)
    with tell("librdkafka_holds", bootstrap, "killed") as first:
        first.wait_for("^holds 4$", deadline_s=DEADLINE_S)
        with tell("librdkafka_holds", bootstrap, "killed") as second:
            second.wait_for("^holds 2$", deadline_s=DEADLINE_S)
            first.send(signal.SIGKILL)
            second.wait_for("^holds 4$", deadline_s=DEADLINE_S)
            with tell("librdkafka_holds", bootstrap, "killed") as third:
                third.wait_for("^holds 2$", deadline_s=DEADLINE_S)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_group_goes_on_where_it_was_when_its_broker_starts_again(
    how: signal.Signals, tmp_path: Path
) -> None:
    port, log = free_port(), str(tmp_path / "log")
    with ExitStack() as stack:
        first = stack.enter_context(start_broker(log, port=port, more=SOONER))
        reported = stack.enter_context(tell("librdkafka_goes_on", bootstrap_of(first)))
        reported.wait_for("^committed$", deadline_s=DEADLINE_S)
        first.send(how)
        first.wait(deadline_s=DEADLINE_S)
        second = stack.enter_context(start_broker(log, port=port, more=SOONER))
        reported.say("restarted")
        reported.wait_for("^done$", deadline_s=DEADLINE_S)
        stop(second)
