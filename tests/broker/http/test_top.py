"""`logstore top` on brokers that run: its figures, a broker that is gone, what a terminal gets."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.cli.main import main
from tests.broker.group_calls import SETTINGS, commit, prepare_cluster
from tests.broker.http.pages import pages_of
from tests.broker.running import DEADLINE_S, Running, batch_of, produce
from tests.broker.running_cluster import running_cluster
from tests.servers.child import free_port

ROOT = Path(__file__).parents[3]
LEFT = b"\x1b[?1049l"
"""The end of the terminal's second screen."""
SHOWN_AGAIN = b"\x1b[?25h"
"""The cursor's."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def targets() -> Iterator[list[str]]:
    """Addresses of the pages of two brokers, with a topic that both lead, and a group."""
    with running_cluster(2, SETTINGS) as brokers:
        prepare_cluster(brokers)
        made = brokers[1].log.create_topic("t", 2, {}, assignments=[(1,), (2,)])
        brokers[1].wait_for(made)
        for number, one in brokers.items():
            write(one, number - 1)
        with brokers[1].connect() as client, brokers[2].connect() as other:
            for partition in (0, 1):
                codes = [commit(at, "g", 1, "t", partition=partition) for at in (client, other)]
                assert 0 in codes
        with pages_of(brokers[1]) as first, pages_of(brokers[2]) as second:
            yield [f"127.0.0.1:{first.port}", f"127.0.0.1:{second.port}"]


def write(running: Running, partition: int) -> None:
    running.wait_until(lambda: "t" in running.log.topics)
    led = running.log.topics["t"].leaders
    running.wait_until(lambda: partition in led and led[partition].has_begun)
    with running.connect() as client:
        for _ in range(3):
            produce(client, "t", batch_of(b"a", b"b"), partition=partition)


def test_lag_and_leaders_are_those_of_all_brokers(
    targets: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", "--json", "--every", "1", *targets]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["groups"] == [{"group": "g", "members": 0, "topics": 1, "lag": 10}]
    assert sorted(one["address"] for one in found["brokers"]) == sorted(targets)
    assert sum(one["led"] for one in found["brokers"]) == 52
    assert {one["state"] for one in found["brokers"]} == {"serving"}
    assert found["dollars_an_hour"] >= 0


def test_a_broker_that_is_gone_is_shown_as_gone(
    targets: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    gone = f"127.0.0.1:{free_port()}"
    assert main(["top", "--once", "--every", "1", targets[0], gone]) == 0
    text = capsys.readouterr().out
    assert "1 brokers, 1 gone!" in text.splitlines()[0]
    assert re.search(rf"{gone} +gone: no answer: Connection refused", text)
    assert main(["top", "--once", "--every", "1", gone]) == 1


@pytest.mark.parametrize("terminal", ["xterm-256color", "dumb"])
def test_an_interrupt_leaves_the_terminal_whole(targets: list[str], terminal: str) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "logstore.cli.main", "top", "--every", "1", *targets]
    variables = {**os.environ, "TERM": terminal, "COLUMNS": "160", "LINES": "50"}
    with subprocess.Popen(command, stdout=theirs, stdin=theirs, cwd=ROOT, env=variables) as child:
        os.close(theirs)
        shown = read_until(ours, b"serving")
        child.send_signal(signal.SIGINT)
        shown += read_until(ours, None)
        assert child.wait(DEADLINE_S) == 0
    os.close(ours)
    assert b"Traceback" not in shown
    if terminal == "dumb":
        assert b"\x1b" not in shown
    else:
        assert shown.rindex(LEFT) > shown.index(b"serving")
        assert shown.rindex(SHOWN_AGAIN) > shown.index(b"serving")


def read_until(terminal: int, wanted: bytes | None) -> bytes:
    """What comes out of a terminal, with `wanted`; None: until its program is gone."""
    shown = b""
    while wanted is None or wanted not in shown:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # nothing holds its other end
            assert wanted is None, shown
            return shown
    return shown
