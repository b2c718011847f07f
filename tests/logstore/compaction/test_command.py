"""`logstore compact`: what it prints, how it ends, again and again with --every."""

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from logstore.cli.log.compact_arguments import duration
from logstore.cli.log.compact_runs import run_in_turn
from logstore.cli.main import main
from logstore.compaction.decisions.summary import Summary, line_of
from logstore.compaction.session import RunOptions, Watch
from logstore.errors import Refused, Retryable
from logstore.ports.clock import SystemClock
from tests.children import child_of
from tests.logstore.compaction.world import World


@pytest.fixture
def compact(world: World) -> Callable[..., int]:
    return lambda *words: main(["compact", "--url", str(world.directory), "--workers", "1", *words])


def test_a_run_is_reported_in_a_line(
    world: World, compact: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    world.create("orders", 2)
    world.fill()

    assert compact("--now") == 0

    messages = capsys.readouterr()
    assert "120 records of 1 topic, 2 partitions, in 2 files" in messages.out
    assert messages.err == ""
    world.check()
    assert compact() == 0
    assert "nothing to move" in capsys.readouterr().out


def test_json_has_figures_and_dollars(
    world: World, compact: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    world.create("orders", 1)
    world.fill()

    assert compact("--now", "--json", "--topic", "orders") == 0

    messages = json.loads(capsys.readouterr().out)
    assert (messages["rows"], messages["files"], messages["tasks"], messages["errors"]) == (
        120,
        1,
        1,
        [],
    )
    assert messages["topics"][0]["topic"] == "orders"
    assert messages["bytes_in"] > 0
    assert 0 < messages["dollars"] < 0.01
    assert messages["requests"]["creates"] >= 3  # a file, a table, a commit


def test_a_topic_that_is_not_there_is_an_error_in_one_line(
    compact: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert compact("--topic", "payments") == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_damaged_segment_fails_its_topic_alone(
    world: World, compact: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    world.create("orders", 1)
    world.fill()
    world.compact()
    world.create("clicks", 1)
    before = set(world.directory.glob("chains/*/*/*"))
    world.write("clicks", 0)
    (segment,) = [
        path
        for path in set(world.directory.glob("chains/*/*/*")) - before
        if b"....." in path.read_bytes()
    ]
    world.write("orders", 0)
    data = bytearray(segment.read_bytes())
    data[-3] ^= 0xFF
    segment.chmod(0o644)
    segment.write_bytes(data)

    assert compact("--now", "--task-mib", "1") == 1

    messages = capsys.readouterr()
    assert "topic clicks:" in messages.err
    assert "damaged" in messages.err


class Turns:
    """Runs that end as given, one after the other; then an interrupt."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.left = list(outcomes)
        self.waits: list[float] = []

    def __call__(self, options: RunOptions, watch: Watch) -> Summary:
        outcome = self.left.pop(0)
        if outcome is not None:
            raise outcome
        return Summary(run="aa")

    def sleep_s(self, seconds: float) -> None:
        self.waits.append(seconds)
        if not self.left:
            raise KeyboardInterrupt


def test_every_goes_on_after_what_may_pass(capsys: pytest.CaptureFixture[str]) -> None:
    turns = Turns(None, Retryable("the store is away"), None)

    with pytest.raises(KeyboardInterrupt):
        run_in_turn(
            turns,
            RunOptions(),
            every_s=60.0,
            as_json=False,
            clock=SystemClock(),
            sleep_s=turns.sleep_s,
        )

    messages = capsys.readouterr()
    assert messages.out.count("run aa") == 2
    assert messages.err == "logstore: the store is away\n"
    assert all(55 < wait <= 60 for wait in turns.waits)


def test_every_ends_by_an_alarm() -> None:
    turns = Turns(None, Refused("run: logstore restore"))

    with pytest.raises(Refused):
        run_in_turn(
            turns,
            RunOptions(),
            every_s=60.0,
            as_json=False,
            clock=SystemClock(),
            sleep_s=turns.sleep_s,
        )


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_every_is_ended_in_good_order(world: World, stop: signal.Signals) -> None:
    world.create("orders", 1)
    world.fill()
    words = [sys.executable, "-m", "logstore.cli.main", "compact", "--now", "--every", "10m"]
    with child_of(
        [*words, "--url", str(world.directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "120 records" in process.stdout.readline()
        process.send_signal(stop)
        _, messages = process.communicate(timeout=50)

    assert process.returncode == 130
    assert messages == "logstore: interrupted\n"
    assert world.compact().errors == []  # the lease is free


def test_times_are_said_with_a_unit() -> None:
    assert [duration(text) for text in ("30s", "1m", "1.5h")] == [30.0, 60.0, 5400.0]
    for text in ("", "5", "0s", "-1m", "1d"):
        with pytest.raises(argparse.ArgumentTypeError):
            duration(text)


def test_the_line_tells_what_is_out_of_the_ordinary() -> None:
    summary = Summary(run="aa", seconds=1.25, swept_files=2)
    summary.topic("orders").undecodable = 1
    summary.topic("orders").error = "damaged"

    assert line_of(summary) == (
        "run aa: nothing to move; batch that cannot be decoded: 1; file swept: 2; "
        "topic failed: 1; 1.2 s"
    )
