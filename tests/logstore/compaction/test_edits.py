"""Rows that a table's owner deletes are gone, for consumers and for Spark alike."""

from collections.abc import Callable

import pytest
from deltalake import DeltaTable

from logstore.compaction.edits import edited_ends
from logstore.compaction.session import RunOptions
from logstore.errors import NotFound, Retryable
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.names import table_key
from logstore.history.forms.snapshot import CommitFacts, Snapshot
from logstore.reading.direct.log_metadata import LogMetadata
from logstore.reading.direct.reader import LogReader
from logstore.reading.direct.task_rows import open_once, read_rows
from logstore.wiring.open import open_readable
from spark_source.options import Mode, parse_options
from spark_source.progress import Progress
from tests.logstore.compaction.world import World

ID = bytes(16)


@pytest.fixture
def orders(world: World) -> World:
    """Two partitions of sixty records."""
    world.create("orders", 2)
    world.fill()
    return world


def by_consumer(world: World) -> list[tuple[int, int]]:
    return [(n, offset) for n in range(2) for offset in world.log.fetch("orders", n)]


def by_spark(world: World) -> list[tuple[int, int]]:
    """A driver that begins now."""
    options = parse_options({"path": str(world.directory), "subscribe": "orders"}, Mode.BATCH)
    tasks, topics = Progress(options, LogMetadata(options.url, options.topics), 2).batch()
    store = open_once(str(world.directory), ())
    columns = ["partition", "offset"]
    return sorted(
        (row["partition"], row["offset"])
        for task in tasks
        for rows in read_rows(store, task, topics, columns)
        for row in rows.to_pylist()
    )


def delete(world: World, predicate: str) -> None:
    """By the owner, with Delta's own means."""
    DeltaTable(str(world.directory / table_key(world.topic_ids["orders"]))).delete(predicate)


def edited_end(world: World, partition: int) -> int:
    log = open_readable(str(world.directory))
    try:
        row = LogReader(log).partition_row(TopicPartition(world.topic_ids["orders"], partition))
        assert row is not None
        return row.edited_end
    finally:
        log.close()


@pytest.mark.slow
def test_a_deleted_row_is_gone_for_consumers_and_spark_while_segments_hold_it(
    orders: World,
) -> None:
    orders.compact()
    written = by_consumer(orders)
    assert written == by_spark(orders) == [(p, n) for p in range(2) for n in range(60)]

    delete(orders, "partition = 0 AND (offset < 5 OR offset = 17)")
    orders.fill(4)
    orders.compact()

    gone = {(0, n) for n in (*range(5), 17)}
    expected = [(p, n) for p in range(2) for n in range(80) if (p, n) not in gone]
    assert by_spark(orders) == expected
    assert by_consumer(orders) == expected
    assert (edited_end(orders, 0), edited_end(orders, 1)) == (60, 0)


def test_what_a_table_gives_up_without_losing_rows_is_read_from_segments(orders: World) -> None:
    orders.compact()
    orders.fill()
    orders.compact()
    table = DeltaTable(str(orders.directory / table_key(orders.topic_ids["orders"])))
    assert table.optimize.compact()["numFilesRemoved"] > 0

    orders.compact()

    assert edited_end(orders, 0) == edited_end(orders, 1) == 0


def test_a_run_that_dies_before_it_reported_a_deletion_leaves_that_to_the_next(
    orders: World,
) -> None:
    orders.compact()
    delete(orders, "partition = 1 AND offset >= 50")

    def die(step: str) -> None:
        if step.startswith("rows changed by"):
            raise Retryable("killed")

    with pytest.raises(Retryable, match="killed"):
        orders.compact(watch=die)
    assert edited_end(orders, 1) == 0
    orders.compact()

    assert edited_end(orders, 1) == 60
    assert by_consumer(orders) == by_spark(orders)


def test_a_deletion_between_a_look_and_a_commit_is_reported(orders: World) -> None:
    orders.compact()
    orders.fill()

    def before_step(step: str) -> None:
        if step.startswith("commit:"):
            delete(orders, "partition = 0 AND offset = 3")

    orders.compact(watch=before_step)

    assert edited_end(orders, 0) == 120
    assert by_consumer(orders) == by_spark(orders)
    assert (0, 3) not in by_spark(orders)


def commit(version: int, *rewritten: int, run: str | None = None) -> CommitFacts:
    return CommitFacts(version, 0, None, None, "DELETE", run, frozenset(rewritten))


@pytest.mark.parametrize(
    ("reported", "found", "ends"),
    [
        (4, lambda _: [commit(5, 0)], {0: 60}),
        (5, lambda _: [], {}),
        (4, lambda _: [commit(5, 0, run="7")], {}),
        (3, lambda _: [commit(4), commit(5, 1)], {1: 40}),
        (None, lambda first: [commit(n) for n in range(first, 6)], {}),
        (1, lambda _: [commit(4), commit(5)], {0: 60, 1: 40}),
        (1, None, {0: 60, 1: 40}),
    ],
    ids=["a deletion", "none", "our own", "of several", "unreported", "cut off", "cleaned away"],
)
def test_which_partitions_are_read_from_the_table(
    reported: int | None, found: Callable[[int], list[CommitFacts]] | None, ends: dict[int, int]
) -> None:
    class Commits:
        def commits(self, topic_id: bytes, since_version: int) -> list[CommitFacts]:
            if found is None:
                raise NotFound("cleaned away")
            return found(since_version)

    snapshot = Snapshot(ID, 5, {0: 60, 1: 40})

    assert edited_ends(Commits(), snapshot, reported) == ends


def test_runs_without_edits_ask_no_more_than_before(orders: World) -> None:
    first = orders.compact(RunOptions(now=True))
    second = orders.compact(RunOptions(now=True))

    assert (first.errors, second.errors) == ([], [])
    assert edited_end(orders, 0) == 0
