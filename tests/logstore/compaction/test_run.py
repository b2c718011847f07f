"""Runs of compaction on a real log: what moves, when, and what the rows and tables say after."""

import pytest

from logstore.compaction.session import RunOptions
from logstore.errors import Refused
from logstore.formats.compaction_row import INTERRUPTED
from logstore.history.forms.snapshot import TableCommit
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from tests.logstore.compaction.world import NOW, TIME_MS, World, undecodable_batch
from tests.spark_source.places import raise_log_start


def test_a_run_moves_everything_that_is_committed(world: World) -> None:
    world.create("orders", 3)
    world.create("clicks", 1)
    world.fill(40)

    summary = world.compact()

    world.check()
    assert (summary.rows, summary.errors) == (400, [])
    assert summary.topics["orders"].partitions == 3
    assert summary.topics["orders"].files == 3
    assert world.run_rows()[-1].status.value == "done"


def test_the_next_run_goes_on_where_the_table_ends(world: World) -> None:
    world.create("orders", 2)
    world.fill()
    world.compact()
    world.fill()

    assert world.compact().rows == 120

    world.check()
    assert world.compact().rounds == 0  # nothing is left to do


def test_the_copy_row_says_what_the_table_holds(world: World) -> None:
    topic_id = world.create("orders", 2)
    world.fill()
    world.compact()

    row, snapshot = world.table_pointers()[topic_id], world.snapshot("orders")

    assert snapshot is not None
    assert (row.version, row.ends, row.topic) == (snapshot.version, {0: 60, 1: 60}, "orders")


def test_a_run_that_is_asked_to_end_says_so_and_the_next_goes_on(world: World) -> None:
    world.create("orders", 2)
    world.fill()

    def interrupt(step: str) -> None:
        if step == "tables and log":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.compact(watch=interrupt)
    row = world.run_rows()[-1]
    assert (row.status.value, row.outcome) == ("abandoned", INTERRUPTED)

    assert world.compact().rows == 120
    world.check()


def test_little_that_is_young_waits(world: World) -> None:
    world.create("orders", 1)
    world.fill()

    assert world.compact(RunOptions()).rows == 0
    assert world.snapshot("orders") is None


def test_what_is_old_enough_moves_however_little_it_is(world: World) -> None:
    world.create("fresh", 1, {"logstore.table.freshness.ms": "0"})
    world.create("stale", 1)
    world.fill()

    world.compact(RunOptions())

    assert len(world.rows("fresh", 0)) == 60
    assert world.snapshot("stale") is None


def test_a_large_partition_moves_at_once(world: World) -> None:
    world.create("large", 1)
    for _ in range(17):
        record = Record(0, TIME_MS, None, bytes(range(256)) * 4096)
        world.log.append("large", 0, encode_batch([record]))

    assert world.compact(RunOptions()).rows == 17


def test_topics_are_left_alone_that_are_disabled_internal_or_not_asked_for(world: World) -> None:
    world.create("disabled", 1, {"logstore.table.enable": "false"})
    world.create("__internal", 1)
    world.create("other", 1)
    world.create("orders", 1)
    world.fill()

    world.compact(RunOptions(topics=("orders",), now=True))

    assert world.snapshot("other") is None
    assert len(world.rows("orders", 0)) == 30
    world.compact()
    assert len(world.rows("other", 0)) == 30
    assert world.snapshot("disabled") is None
    assert world.snapshot("__internal") is None


def test_a_topic_that_is_not_there_is_refused(world: World) -> None:
    with pytest.raises(Refused, match="payments"):
        world.compact(RunOptions(topics=("payments",)))


def test_what_is_below_log_start_is_not_moved(world: World) -> None:
    topic_id = world.create("orders", 2)
    world.fill()
    raise_log_start(world.directory, topic_id, 0, 25)

    world.compact()

    assert [row[0] for row in world.rows("orders", 0)] == list(range(25, 60))
    assert len(world.rows("orders", 1)) == 60


def test_a_commit_names_the_tables_end_though_log_start_went_beyond(world: World) -> None:
    topic_id = world.create("orders", 1)
    world.fill()
    world.compact()
    world.fill()
    raise_log_start(world.directory, topic_id, 0, 150)

    world.compact()

    assert world.tables.commits(topic_id, 2)[0].starts == {0: 120}
    assert [row[0] for row in world.rows("orders", 0)][-90:] == list(range(150, 240))


def test_files_below_log_start_leave_the_table(world: World) -> None:
    topic_id = world.create("orders", 1)
    for _ in range(3):
        world.fill(2)
        world.compact()
    raise_log_start(world.directory, topic_id, 0, 30)

    summary = world.compact()

    assert summary.topics["orders"].expired_files == 1  # the second has records above, too
    assert [row[0] for row in world.rows("orders", 0)] == list(range(20, 60))
    snapshot = world.snapshot("orders")
    assert snapshot is not None
    assert snapshot.end(0) == 60


def test_partitions_that_came_later_move_too(world: World) -> None:
    world.create("orders", 1)
    world.fill()
    world.compact()
    world.log.create_partitions("orders", 3)
    world.written |= {("orders", 1): [], ("orders", 2): []}
    world.fill()

    world.compact()

    world.check()


def test_a_table_of_another_life_of_the_topic_is_another_table(world: World) -> None:
    world.create("orders", 1)
    world.fill()
    world.compact()
    world.log.delete_topic("orders")
    world.create("orders", 1)
    world.fill(3)

    world.compact()

    world.check()
    assert len(world.table_pointers()) == 2


def test_a_registry_older_than_the_table_stops_the_run(world: World) -> None:
    topic_id = world.create("orders", 1)
    world.fill()
    world.compact()
    forged = world.snapshot("orders")
    assert forged is not None
    world.tables.commit(forged, _moved_ahead())

    with pytest.raises(Refused, match="logstore restore"):
        world.compact()

    assert world.run_rows()[-1].status.value == "failed"
    assert world.table_pointers()[topic_id].ends == {0: 120}


@pytest.mark.slow
def test_work_is_done_in_rounds_where_there_is_much_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logstore.compaction.decisions.cut.ROUND_BYTES", 2_000)
    world.create("orders", 3)
    world.fill(60)

    summary = world.compact()

    assert summary.rounds > 3
    world.check()


def test_a_batch_that_cannot_be_decoded_becomes_a_row_and_is_counted(world: World) -> None:
    world.create("orders", 1)
    world.write("orders", 0, count=3)
    broken = undecodable_batch()
    world.log.append("orders", 0, broken)
    world.written["orders", 0] += [b"", b""]
    world.write("orders", 0, count=3)

    summary = world.compact()

    assert summary.topics["orders"].undecodable == 1
    rows = world.rows("orders", 0, ("value", "raw_batch"))
    assert [row[0] for row in rows] == [0, 1, 2, 3, 5, 6, 7]
    offset, value, raw = rows[3]
    assert (offset, value) == (3, None)
    assert raw[21:] == broken[21:]
    assert world.compact(NOW).rows == 0


def _moved_ahead() -> TableCommit:
    return TableCommit(starts={0: 120}, ends={0: 500}, run="another")
