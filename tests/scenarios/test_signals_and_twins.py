"""Signals under load, and two processes that are one broker: nothing is lost, one of them ends."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.scenarios.harness.brokers import bootstrap_of, create_topic, refusal, start_broker, stop
from tests.scenarios.harness.data import Writer, read, write
from tests.scenarios.harness.process import Process
from tests.servers.child import free_port

pytestmark = pytest.mark.clients

TOPIC = "kept"
PARTITIONS = 4
PRODUCERS = 8
ACKED = 1000
VALUES = [f"value {number}" for number in range(50)]


@dataclass(frozen=True, slots=True)
class Load:
    """Clients that go on whatever becomes of the broker, and a judge of what it did."""

    directory: Path
    port: int
    load: Process
    watch: Process

    def await_acked(self, more: int = ACKED) -> None:
        reported, after = r"^progress acked=(\d+)", len(self.load.lines)
        base = int(self.load.wait_for(reported, after=after)[1])
        self.load.wait_for(
            reported, where=lambda now: int(now[1]) >= base + more, after=after, deadline_s=60
        )

    def await_progress_lines(self, count: int) -> None:
        """Ten of them are a second."""
        lines = iter(range(1, count))
        self.load.wait_for(
            "^progress",
            where=lambda _: next(lines, None) is None,
            after=len(self.load.lines),
            deadline_s=count,
        )

    def end(self) -> None:
        """Everything that was sent is answered."""
        self.load.send(signal.SIGTERM)
        assert self.load.wait(deadline_s=90) == 0, self.load.lines[-5:]
        self.watch.send(signal.SIGTERM)
        assert self.watch.wait() == 0

    def verdict(self) -> dict[str, object]:
        arguments = (
            *("tests.scenarios.harness.judge", "--url", str(self.directory / "log")),
            *("--topic", TOPIC, "--journal", str(self.directory / "load.journal")),
            *("--watermarks", str(self.directory / "watch.journal")),
        )
        with Process(arguments) as judge:
            found: dict[str, object] = json.loads(judge.wait_for(r"^\{.*\}$", deadline_s=60)[0])
            return found


@contextmanager
def clients(directory: Path, port: int) -> Iterator[Load]:
    def client(name: str, *more: str) -> Process:
        return Process(
            [
                *(f"tests.scenarios.harness.{name}", "--bootstrap", f"127.0.0.1:{port}"),
                *("--topic", TOPIC, "--partitions", str(PARTITIONS)),
                *("--journal", str(directory / f"{name}.journal"), *more),
            ]
        )

    with client("load", "--producers", str(PRODUCERS)) as load, client("watch") as watch:
        yield Load(directory, port, load, watch)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_under_load_commits_what_was_taken_and_the_load_goes_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    log, port = str(tmp_path / "log"), free_port()
    with start_broker(log, port=port) as broker:
        create_topic(bootstrap_of(broker), TOPIC, PARTITIONS)
        with clients(tmp_path, port) as load:
            load.await_acked()
            broker.send(number)
            assert broker.wait() == 0, broker.lines
            assert broker.said[-1].endswith(" stopped")
            said = [line for line in broker.lines if line.startswith("logstore: ")]
            assert len(said) == 2, broker.lines
            assert not [line for line in broker.lines if " ERROR " in line or "Traceback" in line]
            with start_broker(log, port=port) as next_broker:
                load.await_acked()
                load.end()
                stop(next_broker)
            verdict = load.verdict()

    assert verdict["anomalies"] == {}, verdict
    assert verdict["acked"] == verdict["sent"] == verdict["stored"]


def test_a_second_signal_ends_a_stop_that_takes_long_with_130(tmp_path: Path) -> None:
    with start_broker(str(tmp_path / "log")) as broker:
        write(bootstrap_of(broker), TOPIC, VALUES)
        broker.send(signal.SIGSTOP)  # so that both are there when it looks
        broker.send(signal.SIGINT)
        broker.send(signal.SIGTERM)
        broker.send(signal.SIGCONT)
        assert broker.wait() in (0, 130)

    with start_broker(str(tmp_path / "log")) as broker:
        assert read(bootstrap_of(broker), TOPIC) == VALUES
        stop(broker)


def test_a_broker_frozen_for_ten_seconds_goes_on_where_it_was(tmp_path: Path) -> None:
    log, port = str(tmp_path / "log"), free_port()
    with start_broker(log, port=port) as broker:
        create_topic(bootstrap_of(broker), TOPIC, PARTITIONS)
        with clients(tmp_path, port) as load:
            load.await_acked()
            broker.send(signal.SIGSTOP)
            load.await_progress_lines(100)
            broker.send(signal.SIGCONT)
            load.await_acked()
            load.end()
            stop(broker)
            verdict = load.verdict()

    assert verdict["anomalies"] == {}, verdict
    assert verdict["acked"] == verdict["sent"] == verdict["stored"]


def test_a_twin_is_refused_by_the_lock_and_the_first_goes_on(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    with start_broker(log) as broker:
        bootstrap = bootstrap_of(broker)
        write(bootstrap, TOPIC, VALUES)

        with start_broker(log) as twin:
            line = refusal(twin)

        assert f"pid={broker.pid}" in line
        assert "--broker" in line
        write(bootstrap, TOPIC, ["and on"])
        assert read(bootstrap, TOPIC) == [*VALUES, "and on"]
        stop(broker)


def test_a_twin_with_a_lock_of_its_own_is_refused_by_the_heartbeat(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with start_broker(str(log)) as broker:
        bootstrap = bootstrap_of(broker)
        write(bootstrap, TOPIC, VALUES)

        lose_lock(log)
        with start_broker(str(log)) as twin:
            line = refusal(twin)

        assert "alive elsewhere" in line
        assert bootstrap in line
        write(bootstrap, TOPIC, ["and on"])
        assert read(bootstrap, TOPIC) == [*VALUES, "and on"]
        stop(broker)


def test_a_frozen_twin_is_taken_over_and_ends_when_it_wakes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first, second = free_port(), free_port()
    with start_broker(str(log), port=first) as frozen:
        bootstrap_of(frozen)
        writer = Writer(f"127.0.0.1:{first},127.0.0.1:{second}", TOPIC)
        writer.send(VALUES)
        assert writer.flush() == 0
        frozen.send(signal.SIGSTOP)
        writer.send(["given to the frozen one"])

        lose_lock(log)
        with start_broker(str(log), port=second) as successor:
            bootstrap = bootstrap_of(successor)
            assert read(bootstrap, TOPIC) == VALUES
            write(bootstrap, TOPIC, ["given to the heir"])
            frozen.send(signal.SIGCONT)

            assert frozen.wait() == 1
            assert any("took over" in line for line in frozen.lines)
            assert "alive elsewhere" in frozen.lines[-1]
            assert not any("Traceback" in line for line in frozen.lines)
            assert writer.flush() == 0  # a client of the dead one finds the heir by itself
            assert read(bootstrap, TOPIC) == [
                *VALUES,
                "given to the heir",
                "given to the frozen one",
            ]
            stop(successor)


def lose_lock(log: Path) -> None:
    """As if the next process ran on another machine: its lock is another file."""
    for lock in (log / "locks").iterdir():
        lock.unlink()
