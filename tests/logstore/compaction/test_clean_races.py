"""Other writers while keys are compacted: a commit stands on the version that it read."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logstore.compaction.decisions.clean_rules import CleanLimits
from logstore.compaction.leased_rows import LeasedRows
from logstore.compaction.session import RunOptions
from logstore.errors import OutcomeUnknown
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.names import table_key
from logstore.registry.sqlite import SqliteRows
from tests.logstore.compaction.keyed import KeyedTopic
from tests.logstore.compaction.test_races import Disturbed, another_run
from tests.logstore.compaction.world import NOW, World
from tests.spark_source.log_on_disk import LogOnDisk

AT_ONCE = {"delete.retention.ms": "0", "logstore.clean.dead.ratio": "0"}


@pytest.fixture
def without_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease is liveness only: nothing may be lost where two runs think that they have it."""
    monkeypatch.setattr(LeasedRows, "check", lambda self: None)


@pytest.fixture
def topic(world: World) -> KeyedTopic:
    """Two files in its table, the first with a row that the second replaces."""
    topic = KeyedTopic.create(world, "state", AT_ONCE)
    topic.write((b"a", b"1"), (b"b", b"1"))
    topic.move()
    topic.write((b"a", b"2"), (b"c", b"1"))
    topic.move()
    return topic


def delta(topic: KeyedTopic) -> DeltaTable:
    topic_id = topic.world.topic_ids[topic.name]
    return DeltaTable(str(topic.world.directory / table_key(topic_id)))


def clean_while(topic: KeyedTopic, before: Callable[[], object]) -> None:
    """One run, and `before` it commits what it cleaned."""
    tables = Disturbed(topic.world, lambda: (before(), None)[1])
    assert topic.world.compact(tables=tables).errors == []
    assert tables.left == 0


def test_the_row_that_made_another_dead_may_be_gone_by_then(topic: KeyedTopic) -> None:
    """Its owner deleted it: then the older one is the last of its key."""
    clean_while(topic, lambda: delta(topic).delete("offset = 2"))

    assert topic.kept() == [0, 1, 3]
    topic.clean()
    assert topic.kept() == [0, 1, 3]


def test_an_optimize_in_the_middle_costs_the_work(topic: KeyedTopic) -> None:
    def optimize() -> None:
        assert delta(topic).optimize.compact()["numFilesRemoved"] == 2

    clean_while(topic, optimize)

    assert topic.kept() == [0, 1, 2, 3]
    topic.clean()
    assert topic.kept() == [1, 2, 3]
    topic.check()


def test_an_optimize_and_a_vacuum_take_the_files_of_a_task_away(topic: KeyedTopic) -> None:
    done: list[str] = []

    def disturb(step: str) -> None:
        if step == "tombstones: state" and not done:
            done.append(step)
            table = delta(topic)
            table.optimize.compact()
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)

    summary = topic.world.compact(NOW, watch=disturb)

    assert done
    assert summary.errors == []
    assert topic.kept() == [0, 1, 2, 3]
    topic.clean()
    assert topic.kept() == [1, 2, 3]
    topic.check()


def test_a_run_that_slept_while_another_cleaned_changes_nothing(
    topic: KeyedTopic, without_lease: None
) -> None:
    def others() -> None:
        another_run(topic.world)
        topic.write((b"b", None), (b"a", b"3"))
        another_run(topic.world)
        another_run(topic.world)

    clean_while(topic, others)

    topic.check()
    assert topic.kept() == [3, 5]
    snapshot = topic.world.snapshot("state")
    assert snapshot is not None
    assert snapshot.cleaned == {0: 6}


def test_an_answer_that_was_lost_is_found_in_the_table(topic: KeyedTopic) -> None:
    def lose() -> None:
        raise OutcomeUnknown("the answer was lost")

    tables = Disturbed(topic.world, lambda: None, after=lose)

    assert topic.world.compact(tables=tables).errors == []

    assert (tables.commit_count, topic.kept()) == (1, [1, 2, 3])


def test_a_request_that_was_lost_is_made_again(topic: KeyedTopic) -> None:
    def lose() -> None:
        raise OutcomeUnknown("the request was lost")

    tables = Disturbed(topic.world, lose, times=2)

    assert topic.world.compact(tables=tables).errors == []

    assert (tables.commit_count, topic.kept()) == (3, [1, 2, 3])


def test_a_newer_record_in_segments_makes_nothing_dead_before_it_is_in_the_table(
    topic: KeyedTopic,
) -> None:
    written: list[str] = []

    def write(step: str) -> None:
        if step == "clean":
            written.append(step)
            topic.write((b"b", b"2"), (b"c", None))

    topic.world.compact(NOW, watch=write)

    assert written
    assert topic.kept() == [1, 2, 3]
    topic.check()


def edited_end(topic: KeyedTopic) -> int:
    key = TopicPartition(topic.world.topic_ids[topic.name], topic.partition)
    rows = SqliteRows(topic.world.directory / "registry.db").blocking()
    try:
        row = rows.get(partition_pk(*key), partition_sk(*key))
        assert row is not None
        return PartitionRow.of(row).edited_end
    finally:
        rows.close()


def test_no_segment_is_read_below_a_tombstone_before_its_time_begins(topic: KeyedTopic) -> None:
    topic.clean()
    assert edited_end(topic) == 0  # segments serve topics without tombstones
    topic.write((b"b", None), (b"d", b"1"))
    seen: list[tuple[int, int]] = []

    def watch(step: str) -> None:
        snapshot = topic.world.snapshot("state")
        assert snapshot is not None
        seen.append((edited_end(topic), snapshot.cleaned[0]))

    topic.world.compact(NOW, watch=watch)

    assert (0, 4) in seen  # nothing is known of the tombstone at offset 4
    assert (5, 4) in seen
    assert (5, 6) in seen
    assert (0, 6) not in seen


def test_a_tombstone_waits_where_its_partitions_row_was_lost(topic: KeyedTopic) -> None:
    """By a restore, say: brokers read segments below it until the row says otherwise again."""
    topic.write((b"b", None), (b"d", b"1"))
    topic.clean()
    topic_id = topic.world.topic_ids["state"]
    rows = SqliteRows(topic.world.directory / "registry.db").blocking()
    place = partition_pk(topic_id, 0), partition_sk(topic_id, 0)
    rows.update_if(*place, {"edited_end": 0}, [], "lost")
    rows.close()

    topic.clean()
    assert 4 in topic.kept()
    topic.clean()
    assert 4 not in topic.kept()


def test_a_table_that_may_not_lose_rows_is_left_and_reported(topic: KeyedTopic) -> None:
    delta(topic).alter.set_table_properties({"delta.appendOnly": "true"})

    summary = topic.world.compact()

    (error,) = summary.errors
    assert error.startswith("topic state: partition 0 is not cleaned: the table uses a feature")
    assert topic.kept() == [0, 1, 2, 3]


def test_a_damaged_file_is_reported_and_other_partitions_go_on(world: World) -> None:
    topics = [KeyedTopic.create(world, "state", partition=1), KeyedTopic(world, "state", 0, [])]
    for topic in topics:
        topic.write((b"a", b"1"), (b"a", b"2"))
    topics[0].move()
    (path,) = (
        path
        for path in (world.directory / table_key(world.topic_ids["state"])).rglob("*.parquet")
        if "partition=1" in str(path)
    )
    path.chmod(0o600)
    path.write_bytes(b"damaged" * (path.stat().st_size // 7 + 1))

    summary = world.compact(RunOptions(topics=("state",), now=True))

    assert list(summary.topics["state"].uncleanable) == [1]
    assert topics[1].kept() == [1]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory: Path = tmp_path_factory.mktemp("cleaned") / "log"
    with LogOnDisk(directory) as log:
        yield World(log, directory)


class _Killed(BaseException):
    """Ends a run where it stands, and whatever would be done about that."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("at_once_bytes", [0, CleanLimits().at_once_bytes])
def test_a_run_killed_at_any_step_is_made_good_by_the_next(
    shared: World, at_once_bytes: int
) -> None:
    limits = CleanLimits(at_once_bytes=at_once_bytes)
    seen: set[str] = set()
    for number in range(4, 60):
        name = f"killed-{at_once_bytes}-{number}"
        topic = KeyedTopic.create(shared, name, AT_ONCE)
        topic.write((b"a", b"1"), (b"b", b"1"), (b"a", None))
        topic.clean()
        topic.write((b"b", b"2"), (b"c", b"1"), (b"c", None), (b"d", b"1"))
        begun: list[str] = []

        def kill(step: str, begun: list[str] = begun, number: int = number) -> None:
            begun.append(step)
            if len(begun) > number:
                raise _Killed

        try:
            options = RunOptions(topics=(topic.name,), now=True, clean=limits)
            shared.compact(options, watch=kill)
        except _Killed:
            seen.add(begun[number].replace(name, "killed"))
        else:
            break
        topic.check()
        topic.clean()
        topic.check()
        topic.clean()
        topic.check()
        assert topic.kept() == [3, 6]
        assert not [path for path in (shared.directory / "compaction").rglob("*") if path.is_file()]
    else:
        raise AssertionError("a run has more steps than were looked at")
    assert seen >= {
        *("clean", "tombstones: killed", "tasks", "task done", "tombstones to rows: killed"),
        *("commit: killed", "table pointer: killed", "folders", "end of the run"),
    }
