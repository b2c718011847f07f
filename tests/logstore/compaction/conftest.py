"""A log with two topics, and what it holds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.logstore.compaction.world import World
from tests.spark_source.log_on_disk import LogOnDisk


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A broker serves it; it has no topic yet."""
    with LogOnDisk(tmp_path / "log") as log:
        yield World(log, tmp_path / "log")
