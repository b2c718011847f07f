"""`logstore topics` and `logstore inspect` beside a real broker process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.cli.command import FAILED, OK
from tests.logstore.cli.conftest import Command
from tests.scenarios.harness.brokers import bootstrap_of, start_broker, stop

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
