"""Snapshots of tables: looked at when there is a reason to, never taken for newer than they are."""

import pytest

from logstore.errors import Corrupt
from logstore.history.forms.snapshot import Snapshot
from logstore.reading.direct.snapshots import SnapshotCache

TOPIC = b"t" * 16


class Versions:
    """A table log at one version; -1: no table."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.looks = 0

    def snapshot(
        self, topic_id: bytes, *, version: int | None = None, known: Snapshot | None = None
    ) -> Snapshot | None:
        self.looks += 1
        return None if self.version < 0 else Snapshot(topic_id, self.version)


def test_a_table_is_looked_at_again_only_when_its_copy_row_has_gone_up() -> None:
    versions = Versions(5)
    snapshots = SnapshotCache(lambda: versions)

    assert snapshots.known(TOPIC) is None
    assert snapshots.at_least(TOPIC, 3).version == 5
    versions.version = 9
    assert snapshots.at_least(TOPIC, 5).version == 5
    assert versions.looks == 1
    assert snapshots.at_least(TOPIC, 6).version == 9
    assert snapshots.known(TOPIC) == Snapshot(TOPIC, 9)


@pytest.mark.parametrize(("there", "says"), [(-1, "there=nothing"), (2, "there=version 2")])
def test_a_table_that_is_gone_or_went_back_is_damage(there: int, says: str) -> None:
    with pytest.raises(Corrupt, match=says):
        SnapshotCache(lambda: Versions(there)).at_least(TOPIC, 3)


def test_without_a_table_nothing_is_remembered() -> None:
    snapshots = SnapshotCache(lambda: Versions(-1))

    assert snapshots.newest(TOPIC) is None
    assert snapshots.known(TOPIC) is None
