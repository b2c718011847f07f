"""Disks that take no more and directories that may not be written: nothing acknowledged is lost."""

import os
import resource
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from logstore.errors import FREE_SPACE
from tests.scenarios.harness.brokers import bootstrap_of, refusal, start_broker, stop
from tests.scenarios.harness.data import Writer, read, write
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.clients

TOPIC = "kept"
VALUES = [f"value {number}" for number in range(200)]
MORE = [f"more {number}" for number in range(300)]
STOP_S = "3"
"""Instead of half a minute that a broker gives its last batches."""
A_LEASE_S = 3.0
"""So long that the registry's heartbeat, too, finds no room."""

# Root may write everywhere unless this right is dropped.
WITHOUT_ROOT_RIGHTS: Sequence[str] = (
    ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
)


@contextmanager
def no_room(broker: Process) -> Iterator[None]:
    """As long as it lasts every write of the process to a file fails, its registry's as well."""
    soft, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_delays_what_is_not_acknowledged_and_loses_nothing(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    with start_broker(log) as broker:
        bootstrap = bootstrap_of(broker)
        writer = Writer(bootstrap, TOPIC)
        writer.send(VALUES)
        assert writer.flush() == 0

        with no_room(broker):
            writer.send(MORE)
            assert "free some space" in broker.wait_for("nothing could be stored").string
            assert writer.flush(A_LEASE_S) == len(MORE)
            assert read(bootstrap, TOPIC) == VALUES
        broker.wait_for("the store accepts puts again")
        assert writer.flush() == 0

        assert writer.acked == VALUES + MORE
        assert read(bootstrap, TOPIC) == VALUES + MORE
        stop(broker)
    with start_broker(log) as broker:
        assert read(bootstrap_of(broker), TOPIC) == VALUES + MORE
        stop(broker)


def test_a_kill_on_a_full_disk_loses_nothing_acknowledged(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    with start_broker(log, launch=("--stop-timeout", STOP_S, "--")) as broker:
        writer = Writer(bootstrap_of(broker), TOPIC)
        writer.send(VALUES)
        assert writer.flush() == 0
        with no_room(broker):
            writer.send(MORE)
            broker.wait_for("nothing could be stored")
            broker.kill()
            broker.wait()

    with start_broker(log) as broker:
        assert read(bootstrap_of(broker), TOPIC) == VALUES
        stop(broker)


def test_a_stop_on_a_full_disk_says_that_not_all_could_be_committed(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    with start_broker(log) as broker:
        writer = Writer(bootstrap_of(broker), TOPIC)
        writer.send(VALUES)
        assert writer.flush() == 0
        with no_room(broker):
            writer.send(MORE)
            broker.wait_for("nothing could be stored")
            broker.send(signal.SIGTERM)
            assert broker.wait(deadline_s=60) == 1
        assert writer.acked == VALUES
        assert f"could not be committed; {FREE_SPACE}" in broker.lines[-1]
        assert not any("Traceback" in line for line in broker.lines)

    with start_broker(log) as broker:
        assert read(bootstrap_of(broker), TOPIC) == VALUES
        stop(broker)


def test_a_directory_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with start_broker(str(log)) as broker:
        write(bootstrap_of(broker), TOPIC, VALUES)
        stop(broker)
    with read_only(log), start_broker(str(log), before=WITHOUT_ROOT_RIGHTS) as broker:
        line = refusal(broker)

    assert str(log) in line
    with start_broker(str(log), before=WITHOUT_ROOT_RIGHTS) as broker:
        assert read(bootstrap_of(broker), TOPIC) == VALUES
        stop(broker)


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with (
        read_only(tmp_path),
        start_broker(str(tmp_path / "log"), before=WITHOUT_ROOT_RIGHTS) as broker,
    ):
        assert str(tmp_path / "log") in refusal(broker)


def test_a_right_that_is_lost_while_serving_ends_the_broker_and_loses_nothing(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    with start_broker(str(log), before=WITHOUT_ROOT_RIGHTS) as broker:
        writer = Writer(bootstrap_of(broker), TOPIC)
        writer.send(VALUES)
        assert writer.flush() == 0
        with read_only(log / "chains"):
            writer.send(MORE)
            assert broker.wait() == 1
        assert "not allowed" in broker.lines[-1]
        assert not any("Traceback" in line for line in broker.lines)
        assert writer.acked == VALUES

    with start_broker(str(log)) as broker:
        assert read(bootstrap_of(broker), TOPIC) == VALUES
        stop(broker)


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    folders = [directory, *(path for path in directory.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        yield
    finally:
        for folder in folders:
            folder.chmod(0o755)
