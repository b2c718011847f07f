"""`logstore topics` and `logstore inspect` beside a real broker process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logstore.cli.command import FAILED, OK
from tests.clients.two_brokers import known_everywhere, two_brokers, until
from tests.logstore.cli.conftest import Command
from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker, stop

pytestmark = pytest.mark.clients


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def bootstrap(log: Path) -> Iterator[str]:
    broker = start_broker(str(log))
    try:
        yield bootstrap_of(broker)
        stop(broker)
    finally:
        broker.kill()


@pytest.fixture(scope="module")
def one_topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker with a topic `t` of one partition, which stays as it is."""
    with start_broker(str(tmp_path_factory.mktemp("log"))) as broker:
        address = bootstrap_of(broker)
        create_topic(address, "t", 1)
        yield address


def test_a_topic_lives_from_creation_to_deletion(
    logstore: Command, bootstrap: str, log: Path
) -> None:
    def topics(*arguments: object) -> object:
        answer = logstore("topics", "--bootstrap", bootstrap, *arguments)
        assert (answer.code, answer.err) == (OK, ""), arguments
        return answer.json if "--json" in arguments else answer.out

    assert topics("list", "--json") == []

    created = topics("create", "t", "--partitions", 3, "--config", "retention.ms=5000", "--json")
    assert isinstance(created, dict)
    assert (created["name"], created["partition_count"]) == ("t", 3)
    assert len(created["topic_id"]) == 22

    assert topics("list") == "t\n"
    assert topics("list", "--json") == [created]

    described = topics("describe", "t", "--json")
    assert isinstance(described, dict)
    assert [(p["partition"], p["start"], p["end"]) for p in described["partitions"]] == [
        (0, 0, 0), (1, 0, 0), (2, 0, 0),
    ]  # fmt: skip
    stored = logstore("inspect", "--url", log, "--json").json
    assert [(t["name"], t["configs"]) for t in stored["topics"]] == [
        ("t", {"retention.ms": "5000"})
    ]

    assert topics("delete", "t") == "deleted t\n"
    assert topics("list") == ""


def test_without_a_number_a_topic_gets_the_broker_s_number_of_partitions(
    logstore: Command, bootstrap: str
) -> None:
    answer = logstore("topics", "--bootstrap", bootstrap, "create", "t")

    assert (answer.code, answer.out) == (OK, "created t: partitions=1\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("create", "bad/name"), "INVALID_TOPIC_EXCEPTION"),
        (("create", "t", "--config", "no.such=1"), "INVALID_CONFIG"),
        (("create", "t", "--partitions", 1_000_000), "INVALID_PARTITIONS"),
        (("describe", "nope"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("delete", "nope"), "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
    ids=str,
)
def test_what_the_broker_refuses_is_one_line_with_kafka_s_name_for_it(
    logstore: Command, bootstrap: str, arguments: tuple[object, ...], error: str
) -> None:
    answer = logstore("topics", "--bootstrap", bootstrap, *arguments)

    assert answer.code == FAILED
    assert f"error={error}" in answer.err
    assert answer.err.count("\n") == 1


def test_a_broker_that_does_not_answer_is_passed_over(logstore: Command, bootstrap: str) -> None:
    answer = logstore("topics", "--bootstrap", f"127.0.0.1:1,{bootstrap}", "list")

    assert answer.code == OK


@pytest.fixture
def pair(log: Path) -> Iterator[str]:
    """Brokers 1 and 2 on one log, which know each other; the address of the first."""
    with two_brokers(log) as address:
        yield address


def test_a_topic_of_two_brokers_grows_and_moves(logstore: Command, pair: str) -> None:
    def topics(*arguments: object) -> dict[str, Any]:
        answer = logstore("topics", "--bootstrap", pair, "--json", *arguments)
        assert (answer.code, answer.err) == (OK, ""), arguments
        assert isinstance(answer.json, dict)
        return answer.json

    def row(partition: int) -> tuple[int, list[int], list[int]]:
        reported = topics("describe", "t")["partitions"][partition]
        return reported["leader"], reported["replicas"], reported["in_sync"]

    topics("create", "t", "--partitions", 2, "--replicas", 2)
    known_everywhere(pair, "t", 2)
    assert all(sorted(row(partition)[1]) == [1, 2] for partition in (0, 1))

    grown = topics("alter", "t", "--partitions", 3, "--config", "retention.ms=5")
    assert grown == {"altered": "t", "partitions": 3, "set": {"retention.ms": "5"}, "unset": []}
    assert topics("alter", "t", "--unset", "retention.ms")["unset"] == ["retention.ms"]
    known_everywhere(pair, "t", 3)

    moved = topics("reassign", "t", "--partition", 0, "--replicas", "2")
    assert (moved["partitions"], moved["to"]) == ([0], [2])
    until(lambda: row(0) == (2, [2], [2]))
    topics("reassign", "t", "--partition", 0, "--replicas", "1,2")
    until(lambda: row(0)[1] == [1, 2])
    topics("elect", "t")
    until(lambda: row(0) == (1, [1, 2], [1, 2]))
    assert topics("elect", "t", "--partition", 0)["partitions"] == []
    assert topics("reassign", "t", "--cancel")["partitions"] == []


def test_the_output_names_replicas_and_what_was_done(logstore: Command, bootstrap: str) -> None:
    def said(*arguments: object) -> str:
        answer = logstore("topics", "--bootstrap", bootstrap, *arguments)
        assert (answer.code, answer.err) == (OK, ""), arguments
        return answer.out

    said("create", "t")
    assert said("alter", "t", "--partitions", 2) == "altered t\n"
    assert said("reassign", "t", "--replicas", 1) == ("reassigned t: partitions=0,1 to brokers 1\n")
    assert said("elect", "t") == "elected t: every partition is led by its first replica\n"
    assert "leader epoch  replicas  in sync" in said("describe", "t")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("alter", "t", "--partitions", 1), "INVALID_PARTITIONS"),
        (("alter", "nope", "--partitions", 2), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("alter", "t", "--config", "retention.ms=soon"), "INVALID_CONFIG"),
        (("alter", "t", "--unset", "no.such"), "INVALID_CONFIG"),
        (("alter", "t"), "nothing to change"),
        (("reassign", "t", "--replicas", "7"), "INVALID_REPLICA_ASSIGNMENT"),
        (("reassign", "t", "--partition", 0, "--cancel"), "NO_REASSIGNMENT_IN_PROGRESS"),
        (("reassign", "t", "--partition", 5, "--replicas", 1), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("elect", "t", "--partition", 5), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("elect", "nope"), "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
    ids=str,
)
def test_a_change_that_cannot_be_is_refused_in_one_line(
    logstore: Command, one_topic: str, arguments: tuple[object, ...], error: str
) -> None:
    answer = logstore("topics", "--bootstrap", one_topic, *arguments)

    assert answer.code == FAILED
    assert error in answer.err
    assert answer.err.count("\n") == 1
