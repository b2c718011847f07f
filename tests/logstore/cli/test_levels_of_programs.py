"""Programs beside brokers follow the log's format level: what is newer is refused by name, and a
sink that the level has not is refused before it stages anything."""

from collections.abc import Callable
from pathlib import Path

import pytest

import logstore as front_door
from logstore.cli.command import FAILED
from logstore.errors import Refused
from logstore.formats.levels import NEWEST_LEVEL
from spark_source.sink.log import OpenSink
from tests.logstore.cli.conftest import Command
from tests.logstore.cli.fsck.test_fsck import change_row, drop_row

NEWER = f"written by a newer logstore: format_level={NEWEST_LEVEL + 1} known={NEWEST_LEVEL}"


def set_level(log: Path, level: int) -> None:
    change_row(log, "cluster", "cluster", format_level=level)


def read_topics(log: Path) -> None:
    with front_door.open(str(log)) as opened:
        opened.topics()


def check_sink(log: Path) -> None:
    OpenSink(str(log), (), "").check_level()


@pytest.mark.parametrize("use", [read_topics, check_sink])
def test_a_reader_refuses_a_newer_log_by_name(written: Path, use: Callable[[Path], None]) -> None:
    use(written)
    set_level(written, NEWEST_LEVEL + 1)
    with pytest.raises(Refused, match=NEWER):
        use(written)


def test_a_reader_that_is_open_refuses_it_when_it_looks_again(written: Path) -> None:
    with front_door.open(str(written)) as opened:
        opened.topics()
        set_level(written, NEWEST_LEVEL + 1)
        with pytest.raises(Refused, match=NEWER):
            opened.topics()


def test_compaction_refuses_a_newer_log(logstore: Command, written: Path) -> None:
    set_level(written, NEWEST_LEVEL + 1)
    answer = logstore("compact", "--url", written, "--now")
    assert answer.code == FAILED
    assert NEWER in answer.err
    assert not (written / "tables").exists()


def test_a_sink_is_refused_before_it_stages_until_its_level_is_finalized(written: Path) -> None:
    set_level(written, 1)
    sink = OpenSink(str(written), (), "")
    with pytest.raises(Refused, match=r"writes format level 1.*delivery=at-least-once"):
        sink.check_level()
    set_level(written, 2)
    sink.check_level()
    drop_row(written, "cluster", "cluster")
    sink.check_level()  # nothing lowers a level: it is not asked again
