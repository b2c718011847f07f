"""`logstore groups`, `produce` and `consume` beside a real broker process."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from logstore.cli.command import FAILED, OK
from tests.logstore.cli.conftest import Command
from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker, stop
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.clients

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    more = ("--set", "group.initial.rebalance.delay.ms=0")
    with start_broker(str(tmp_path_factory.mktemp("log")), more=more) as broker:
        yield bootstrap_of(broker)
        stop(broker)


def run(bootstrap: str, *arguments: object, lines: str = "") -> str:
    """What a command prints; standard input and output are real, since bytes go through them."""
    command = [sys.executable, "-m", "logstore.cli.main", *map(str, arguments)]
    command += ["--bootstrap", bootstrap]
    ended = subprocess.run(
        command, input=lines, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    assert ended.returncode == OK, ended.stderr
    return ended.stdout


def of_group(logstore: Command, bootstrap: str, *arguments: object) -> Any:
    answer = logstore("groups", "--bootstrap", bootstrap, *arguments, "--json")
    assert (answer.code, answer.err) == (OK, ""), answer
    return answer.json


def test_lines_written_are_lines_read(bootstrap: str) -> None:
    run(bootstrap, "produce", "lines", "--key-separator", ":", lines="a:1\nb:2\nnone\n")

    assert run(bootstrap, "consume", "lines") == "1\n2\nnone\n"
    assert run(bootstrap, "consume", "lines", "--key-separator", "=") == "a=1\nb=2\nnone\n"
    assert run(bootstrap, "consume", "lines", "--max", 1, "--from", 1) == "2\n"
    assert run(bootstrap, "consume", "lines", "--from", "latest") == ""


def test_json_lines_go_through_unchanged(bootstrap: str) -> None:
    records = [
        {"key": "k", "value": None},
        {"value": {"base64": "//4="}, "headers": {"h": "x"}, "timestamp": 1_000_000_000_000},
    ]
    lines = "".join(f"{json.dumps(record)}\n" for record in records)
    for codec in ("none", "zstd"):
        written = run(
            bootstrap, "produce", f"json-{codec}", "--json", "--compression", codec, lines=lines
        )
        assert json.loads(written)["records"] == 2
        text = run(bootstrap, "consume", f"json-{codec}", "--json")
        read = [json.loads(line) for line in text.splitlines()]
        assert [(r["offset"], r["key"], r["value"]) for r in read] == [
            (0, "k", None),
            (1, None, {"base64": "//4="}),
        ]
        assert (read[1]["headers"], read[1]["timestamp"]) == ({"h": "x"}, 1_000_000_000_000)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_consumer_that_is_ended_by_a_signal_commits_what_it_wrote(
    logstore: Command, bootstrap: str, number: signal.Signals
) -> None:
    topic = f"ended-{number}"
    create_topic(bootstrap, topic, 1)
    follow = ("consume", topic, "--bootstrap", bootstrap, "--follow", "--group", topic)
    run(bootstrap, "produce", topic, lines="1\n2\n3\n")
    with Process(("logstore.cli.main", *follow)) as consumer:
        consumer.wait_for("3")
        consumer.send(number)
        assert consumer.wait() == (-signal.SIGTERM if number == signal.SIGTERM else 130)
    (line,) = of_group(logstore, bootstrap, "describe", topic)["offsets"]
    # A signal between the write of the last record and the next step repeats that record.
    assert line["lag"] <= 1
    assert run(bootstrap, "consume", topic, "--group", topic) == "3\n" * line["lag"]


def test_a_group_goes_on_where_it_was(logstore: Command, bootstrap: str) -> None:
    create_topic(bootstrap, "goes-on", 2)
    for partition in (0, 1):
        run(bootstrap, "produce", "goes-on", "--partition", partition, lines="1\n2\n3\n")
    first = run(bootstrap, "consume", "goes-on", "--group", "cli", "--max", 4)
    described = of_group(logstore, bootstrap, "describe", "cli")

    assert len(first.splitlines()) == 4
    assert (described["state"], described["members"]) == ("Empty", [])
    assert sum(line["lag"] for line in described["offsets"]) == 2
    assert len(run(bootstrap, "consume", "goes-on", "--group", "cli").splitlines()) == 2
    assert run(bootstrap, "consume", "goes-on", "--group", "cli") == ""
    assert "cli" in {line["group"] for line in of_group(logstore, bootstrap, "list")}

    back = of_group(
        logstore, bootstrap, "reset-offsets", "cli", "--topic", "goes-on", "--shift-by", -1
    )
    assert [(line["before"], line["after"]) for line in back] == [(3, 2), (3, 2)]
    assert run(bootstrap, "consume", "goes-on", "--group", "cli") == "3\n3\n"
    for to, after in (("earliest", 0), ("latest", 3), ("1", 1), ("2000-01-01", 0)):
        lines = of_group(
            logstore, bootstrap, "reset-offsets", "cli", "--topic", "goes-on", "--to", to
        )
        assert [line["after"] for line in lines] == [after, after], to

    assert of_group(logstore, bootstrap, "delete", "cli") == {"deleted": "cli"}
    gone = logstore("groups", "--bootstrap", bootstrap, "describe", "cli")
    assert gone.code == FAILED
    assert "GROUP_ID_NOT_FOUND" in gone.err


def test_a_live_group_is_described_and_left_alone(logstore: Command, bootstrap: str) -> None:
    create_topic(bootstrap, "holds-live", 4)
    story = ("tests.clients.group_stories", "librdkafka_holds", "--bootstrap", bootstrap)
    with Process((*story, "--group", "live")) as consumer:
        consumer.wait_for("^holds 4$", deadline_s=DEADLINE_S)
        described = of_group(logstore, bootstrap, "describe", "live")
        assert described["state"] == "Stable"
        (member,) = described["members"]
        assert member["partitions"] == [f"holds-live-{n}" for n in range(4)]
        for refused in (
            ("reset-offsets", "live", "--topic", "holds-live", "--to", "earliest"),
            ("delete", "live"),
        ):
            answer = logstore("groups", "--bootstrap", bootstrap, *refused)
            assert answer.code == FAILED, refused
            assert answer.err.count("\n") == 1
