"""What tests of real processes share."""

import fcntl
from collections.abc import Iterator

import pytest

from tests.servers.child import cache_folder


@pytest.fixture
def alone_with_ivy() -> Iterator[None]:
    """One test of all processes: two Sparks that fetch Delta's jars into one folder break it."""
    folder = cache_folder("ivy")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
