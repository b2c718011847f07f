"""What a run does beside moving: merging, sweeping, dropping tables of topics that are gone."""

import pytest

from logstore.compaction.decisions import obsolete_files
from logstore.compaction.decisions.run_rows import note_on_table_pointer
from logstore.compaction.session import RunOptions
from logstore.formats.partition_row import partition_pk, partition_sk
from logstore.formats.topic_row import TOPIC
from logstore.history.forms.names import table_key
from logstore.protocol.rules.disposal import Fate
from logstore.registry.sqlite import SqliteRows
from tests.logstore.compaction.world import NOW, World, undecodable_batch

HOUR_MS = obsolete_files.HOUR_MS
KEEP = RunOptions(now=True, keep_deleted=True)


def note(world: World, topic_id: bytes, **sets: int | str) -> None:
    """Change a table pointer as if time had passed."""
    compactor_rows = world.leased_rows()
    try:
        compactor_rows.perform(note_on_table_pointer(topic_id, **sets))
    finally:
        compactor_rows.close()


@pytest.mark.slow
def test_many_small_files_become_one(world: World) -> None:
    world.create("orders", 2)
    merged = 0
    for _ in range(8):
        world.fill(2)
        merged += world.compact().topics["orders"].merged_files

    assert merged == 16
    snapshot = world.snapshot("orders")
    assert snapshot is not None
    assert [len(snapshot.files[number]) for number in (0, 1)] == [1, 1]
    world.check()


@pytest.mark.slow
def test_a_batch_that_cannot_be_decoded_is_merged_as_it_came(world: World) -> None:
    world.create("orders", 1)
    world.log.append("orders", 0, undecodable_batch())
    world.compact()
    before = world.rows("orders", 0, ("raw_batch",))
    world.written["orders", 0] += [b"", b""]
    for _ in range(8):
        world.fill(1)
        world.compact()

    snapshot = world.snapshot("orders")
    assert snapshot is not None
    assert len(snapshot.files[0]) < 8
    assert world.rows("orders", 0, ("raw_batch",))[:1] == before


def test_a_table_goes_an_hour_after_its_topic(world: World) -> None:
    topic_id = world.create("orders", 1)
    world.fill()
    world.compact()
    world.log.delete_topic("orders")

    assert world.compact().dropped_tables == []
    assert world.table_pointers()[topic_id].gone_ms > 0
    assert world.compact().dropped_tables == []
    note(world, topic_id, gone_ms=world.table_pointers()[topic_id].gone_ms - HOUR_MS)
    assert world.compact(KEEP).dropped_tables == []
    assert world.compact().dropped_tables == ["orders"]

    assert topic_id not in world.table_pointers()
    assert not list((world.directory / table_key(topic_id)).rglob("*.parquet"))
    assert world.tables.snapshot(topic_id) is None


def drop_rows(world: World, name: str, topic_id: bytes) -> None:
    """As a copy of the registry from before the topic, or half of one."""
    rows = SqliteRows(world.directory / "registry.db").blocking()
    rows.delete_if(TOPIC, name, [], "lost")
    rows.delete_if(partition_pk(topic_id, 0), partition_sk(topic_id, 0), [], "lost")
    rows.close()


def test_a_table_whose_topic_has_no_row_stays_until_its_deletion_is_recorded(world: World) -> None:
    topic_id = world.create("orders", 1)
    world.fill()
    world.compact()
    drop_rows(world, "orders", topic_id)

    summary = world.compact()
    assert summary.errors == [
        "topic orders: a table belongs to an unknown topic: "
        f"{Fate.UNKNOWN.value}: topic={topic_id.hex()}; run: logstore fsck"
    ]
    note(world, topic_id, gone_ms=1)
    assert world.compact().dropped_tables == []
    assert world.tables.snapshot(topic_id) is not None


def test_a_copy_row_alone_does_not_drop_a_table_that_is_to_be_kept(world: World) -> None:
    topic_id = world.create("orders", 1, {"logstore.table.on.delete": "keep"})
    world.fill()
    world.compact()
    world.log.delete_topic("orders")
    note(world, topic_id, gone_ms=1, on_delete="drop")

    assert world.compact().dropped_tables == []
    assert world.tables.snapshot(topic_id) is not None


def test_a_table_whose_topic_is_back_is_not_dropped_at_once_the_next_time(world: World) -> None:
    topic_id = world.create("orders", 1)
    world.fill()
    world.compact()
    note(world, topic_id, gone_ms=1)
    world.compact()

    assert world.table_pointers()[topic_id].gone_ms == 0


def test_a_table_is_kept_where_its_topic_says_so(world: World) -> None:
    topic_id = world.create("orders", 1, {"logstore.table.on.delete": "keep"})
    world.fill()
    world.compact()
    world.log.delete_topic("orders")
    world.compact()
    note(world, topic_id, gone_ms=1)

    assert world.compact().dropped_tables == []
    assert len(world.rows("orders", 0)) == 120


def test_a_table_that_its_topic_outlived_by_a_crash_is_known(world: World) -> None:
    """The run died between its commit and the table pointer; then the topic was deleted."""
    topic_id = world.create("orders", 1)
    world.fill()

    class Killed(BaseException):
        pass

    def kill(step: str) -> None:
        if step in ("table pointer: orders", "end of the run"):
            raise Killed

    with pytest.raises(Killed):
        world.compact(watch=kill)
    world.log.delete_topic("orders")

    world.compact()

    assert world.table_pointers()[topic_id].version == 1
    world.compact()
    assert world.table_pointers()[topic_id].gone_ms > 0


def test_orphans_are_swept_once_they_are_old(world: World) -> None:
    topic_id = world.create("orders", 1)
    world.fill()

    class Killed(BaseException):
        pass

    def kill(step: str) -> None:
        if step in ("commit: orders", "end of the run"):
            raise Killed

    with pytest.raises(Killed):
        world.compact(watch=kill)
    folder = world.directory / table_key(topic_id)
    (orphan,) = folder.rglob("*.parquet")

    world.compact()

    assert orphan.exists()  # it is not known yet to be one
    assert len(list(folder.rglob("*.parquet"))) == 2
    assert world.table_pointers()[topic_id].swept_ms > 0
    world.check()


def test_rows_of_ended_runs_are_pruned(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logstore.compaction.decisions.run_rows.RUNS_KEPT", 3)
    for _ in range(6):
        world.compact(NOW)

    assert len(world.run_rows()) == 4
