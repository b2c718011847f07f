"""`logstore dev`: brokers that come up together, come back when they die, and end together."""

import os
import random
import re
import signal
import socket
from pathlib import Path

import pytest

from broker.process.fleet import BACK_OFF_MAX_S, back_off_s, members_of
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.slow

ALL = r"^logstore: (\d+) brokers accept connections$"
LISTENING = r"^\[(\d+)\] logstore: broker \d+ epoch \d+ listening on 127\.0\.0\.1:(\d+)"


def dev(log: Path, *more: str) -> Process:
    arguments = ("logstore.cli.main", "dev", "--url", str(log), "--port", "0", *more)
    return Process(arguments)


@pytest.mark.parametrize("count", [1, 3])
def test_brokers_come_up_together_and_stop_in_good_order(tmp_path: Path, count: int) -> None:
    with dev(tmp_path / "log", "--brokers", str(count), "--set", "num.partitions=3") as fleet:
        assert fleet.wait_for(ALL)[1] == str(count)
        listening = [found for line in fleet.lines if (found := re.search(LISTENING, line))]
        assert sorted(found[1] for found in listening) == [str(n + 1) for n in range(count)]
        fleet.send(signal.SIGINT)

        assert fleet.wait() == 0, fleet.lines
        assert fleet.said[-1] == "logstore: all brokers stopped"
        assert sum(line.endswith(" stopped") and line[0] == "[" for line in fleet.lines) == count


def test_one_that_dies_is_started_again(tmp_path: Path) -> None:
    with dev(tmp_path / "log", "--brokers", "2") as fleet:
        fleet.wait_for(ALL)
        os.kill(child_of(fleet, "--broker 2 "), signal.SIGKILL)
        fleet.wait_for(r"^logstore: broker 2 died: SIGKILL; it starts again in 0\.\d s$")
        fleet.wait_for(LISTENING, where=lambda found: found[1] == "2", after=len(fleet.lines))
        fleet.send(signal.SIGTERM)

        assert fleet.wait() == 0, fleet.lines


def test_a_second_interrupt_kills_them(tmp_path: Path) -> None:
    with dev(tmp_path / "log", "--brokers", "1") as fleet:
        fleet.wait_for(ALL)
        broker = child_of(fleet, "--broker 1 ")
        os.kill(broker, signal.SIGSTOP)  # so that it does not end by the first
        fleet.send(signal.SIGINT)
        fleet.send(signal.SIGTERM)

        assert fleet.wait() == 130
        assert not Path(f"/proc/{broker}").exists()


def test_one_that_refuses_to_start_ends_all(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with dev(tmp_path / "log", "--brokers", "1", "--port", port) as fleet:
            assert fleet.wait() == 1
            assert any("did not start: exit code 1" in line for line in fleet.lines)


@pytest.mark.parametrize("flag", ["--port", "--http"])
def test_wrong_usage_is_reported_before_anything_starts(tmp_path: Path, flag: str) -> None:
    with dev(tmp_path / "log", "--brokers", "2", flag, "65535") as fleet:
        assert fleet.wait() == 2
        assert not (tmp_path / "log").exists()


def test_brokers_get_ports_one_after_the_other_and_racks_in_turn() -> None:
    members = members_of(
        3,
        url="./data",
        host="127.0.0.1",
        port=9092,
        http=9644,
        racks=["a", "b"],
        more=["--set", "x=y"],
        flags={"--config": "c.toml"},
    )

    commands = [" ".join(member.command[3:]) for member in members]
    assert commands == [
        f"--url ./data --broker {n} --listen 127.0.0.1:{9091 + n} --http 127.0.0.1:{9643 + n} "
        f"--rack {rack} --config c.toml --set x=y"
        for n, rack in ((1, "a"), (2, "b"), (3, "a"))
    ]


def test_the_back_off_grows_and_is_bounded() -> None:
    rng = random.Random(0)
    waits = [back_off_s(deaths, rng) for deaths in range(1, 40)]

    assert waits[0] <= 0.5
    assert waits[3] > waits[0]
    assert max(waits) <= BACK_OFF_MAX_S


def child_of(fleet: Process, words: str) -> int:
    """The pid of the child whose command line has `words`."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == fleet.pid and words in line:
            return int(folder.name)
    raise AssertionError(f"no such child: {words} {fleet.lines}")
