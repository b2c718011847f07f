"""A broker process: what it says, how it ends, and that it takes arguments from anywhere."""

import asyncio
import random
import signal
from pathlib import Path

import pytest

from logstore.config.authorizer_settings import AUTHORIZER, STANDARD_AUTHORIZER
from logstore.formats.acl_record import acl_record_key
from logstore.formats.broker_row import BROKER
from logstore.ports.clock import SystemClock
from logstore.ports.registry import RowExists
from logstore.wire.framing.client import Connection
from logstore.wire.messages.metadata import MetadataRequest, MetadataResponse
from logstore.wiring.open import open_log
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.slow

LISTENING = (
    r"^logstore: broker (\d+) epoch (\d+) listening on 127\.0\.0\.1:(\d+) "
    r"\(log (.*), cluster ([\w-]{22})\)$"
)


def serve(log: Path, *more: str) -> Process:
    return Process(("broker", "--url", str(log), "--listen", "127.0.0.1:0", *more))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_one_line_when_it_accepts_and_one_when_it_stopped(
    tmp_path: Path, number: signal.Signals
) -> None:
    with serve(tmp_path / "log") as broker:
        said = broker.wait_for(LISTENING)
        assert said.group(1, 2, 4) == ("1", "1", str(tmp_path / "log"))
        broker.send(number)

        assert broker.wait() == 0
        said_aloud = [line for line in broker.lines if line.startswith("logstore:")]
        assert said_aloud == [said.string, "logstore: broker 1 epoch 1 stopped"]


def test_settings_come_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text('num.partitions = 3\n"auto.create.topics.enable" = true\n')
    named = ("--broker", "7", "--advertise", "example.org:1234", "--rack", "r1")
    more = ("--config", str(config), "--set", "num.partitions=5", *named)
    with serve(tmp_path / "log", *more) as broker:
        port = int(broker.wait_for(LISTENING)[3])
        with Connection.open("127.0.0.1", port) as client:
            response: MetadataResponse = client.call(3, MetadataRequest([]))
        (reported,) = response.brokers

        assert (reported.node_id, reported.host, reported.port, reported.rack) == (
            7,
            "example.org",
            1234,
            "r1",
        )


def test_a_second_process_of_the_same_broker_is_refused(tmp_path: Path) -> None:
    with serve(tmp_path / "log") as first:
        first.wait_for(LISTENING)
        with serve(tmp_path / "log") as second:
            assert second.wait() == 1
            (line,) = second.lines

        assert f"pid={first.pid}" in line
        assert "stop it, or choose another --broker" in line


def test_equal_processes_are_a_cluster_and_a_restart_keeps_its_number(tmp_path: Path) -> None:
    with serve(tmp_path / "log", "--broker", "auto") as first:
        assert first.wait_for(LISTENING)[1] == "1"
        with serve(tmp_path / "log", "--broker", "auto") as second:
            assert second.wait_for(LISTENING)[1] == "2"
            first.send(signal.SIGKILL)
            first.wait()
            with serve(tmp_path / "log", "--broker", "auto") as again:
                assert again.wait_for(LISTENING)[1] == "1"


def test_a_broker_whose_place_was_taken_says_so_and_starts_again(tmp_path: Path) -> None:
    async def take_its_place() -> None:
        opened = await open_log(str(tmp_path / "log"), clock=SystemClock(), rng=random.Random(1))
        await opened.runner.registry.update_if(BROKER, "1", {"epoch": 99}, RowExists())
        await opened.close()

    with serve(tmp_path / "log") as broker:
        broker.wait_for(LISTENING)
        asyncio.run(take_its_place())

        broker.wait_for("epoch 1 ended: another broker took over its partitions")
        broker.wait_for("epoch 2 listening on")
        broker.send(signal.SIGTERM)
        assert broker.wait() == 0


def test_a_broker_that_cannot_read_what_clients_may_do_serves_no_client(tmp_path: Path) -> None:
    """A record of ACLs is damaged; a broker without an authorizer does not ask for it."""
    record = tmp_path / "log" / acl_record_key("3", 1)
    with serve(tmp_path / "log") as broker:
        broker.wait_for(LISTENING)
        record.parent.mkdir(parents=True)
        record.write_bytes(b"{}")
        broker.send(signal.SIGTERM)
        assert broker.wait() == 0
    with serve(tmp_path / "log", "--set", f"{AUTHORIZER}={STANDARD_AUTHORIZER}") as broker:
        assert broker.wait() == 1
        assert any(
            f"record of ACLs cannot be read: key={acl_record_key('3', 1)}" in line
            for line in broker.lines
        )
        assert not any("listening" in line for line in broker.lines)
    with serve(tmp_path / "log") as broker:
        broker.wait_for(LISTENING)
