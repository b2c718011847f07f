"""Key compaction of a table: which rows stay, and what readers of both tiers make of it."""

import json
import os
import random
from dataclasses import replace

import pytest

from logstore.cli.main import main
from logstore.compaction.decisions.clean_rules import CleanLimits
from logstore.compaction.decisions.obsolete_files import HOUR_MS
from logstore.compaction.session import RunOptions
from logstore.history.forms.names import table_key
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from tests.logstore.compaction.keyed import KeyedTopic, random_records
from tests.logstore.compaction.world import NOW, World, undecodable_batch

AT_ONCE = {"delete.retention.ms": "0", "logstore.clean.dead.ratio": "0"}
SMALL = CleanLimits(in_memory_bytes=0, bucket_bytes=512, scan_rows=10, within_bytes=0)
"""So that every partition is decided in buckets."""
IN_MEMORY = CleanLimits(at_once_bytes=0)
"""… by one task in memory, and written again by others."""


def test_the_last_record_of_each_key_stays_at_its_offset(world: World) -> None:
    topic = KeyedTopic.create(world, "state")
    topic.write((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"b", b"2"))

    topic.clean()

    assert topic.kept() == [2, 3, 4]
    topic.check()
    snapshot = world.snapshot("state")
    assert snapshot is not None
    assert (snapshot.cleaned, snapshot.ends) == ({0: 5}, {0: 5})


def test_records_that_came_later_count_the_next_time(world: World) -> None:
    topic = KeyedTopic.create(world, "state")
    for value in (b"1", b"2", b"3"):
        topic.write((b"a", value), (b"only " + value, value))
        topic.clean()

        topic.check()

    assert topic.kept() == [1, 3, 4, 5]


def test_the_greatest_offset_is_the_last_record_whatever_its_time(world: World) -> None:
    topic = KeyedTopic.create(world, "state")
    topic.write((b"a", b"old"))
    topic.records.append((b"a", b"new"))
    world.log.append("state", 0, encode_batch([Record(0, 1_000, b"a", b"new")]))

    topic.clean()

    assert topic.kept() == [1]
    topic.check()


def test_keys_of_no_bytes_and_of_a_mebibyte_are_keys(world: World) -> None:
    topic = KeyedTopic.create(world, "state")
    large = b"k" * (1 << 20)
    topic.write((b"", b"1"), (large, b"1"), (large + b"!", b"1"))
    topic.write((b"", b"2"), (large, b"2"))

    topic.clean()

    assert topic.kept() == [2, 3, 4]


def test_tombstones_stay_as_long_as_the_topic_says(world: World) -> None:
    topic = KeyedTopic.create(world, "state", {"logstore.clean.dead.ratio": "0"})
    topic.write((b"a", b"1"), (b"b", b"1"), (b"a", None))

    topic.clean()
    topic.clean()

    assert topic.kept() == [1, 2]
    topic.check()


def test_tombstones_go_the_next_time_after_they_were_seen(world: World) -> None:
    topic = KeyedTopic.create(world, "state", AT_ONCE)
    topic.write((b"a", b"1"), (b"b", b"1"), (b"a", None))

    topic.clean()
    assert topic.kept() == [1, 2]
    topic.clean()

    assert topic.kept() == [1]
    topic.check()


def test_a_tombstone_stays_as_long_as_an_older_record_of_its_key(world: World) -> None:
    """Few rows of both files are dead, so neither is written again; 23 waits because 20 does."""
    topic = KeyedTopic.create(world, "state", {**AT_ONCE, "logstore.clean.dead.ratio": "0.5"})
    topic.write(*((b"key-%d" % number, b"1") for number in range(20)))
    topic.move()
    topic.write((b"key-3", None), (b"key-30", b"1"), (b"key-30", b"2"), (b"key-31", None))
    topic.move()

    for _ in range(3):
        topic.clean()
        topic.check()

    assert topic.kept() == [*range(24)]


def test_a_file_with_few_dead_rows_stays_as_it_is(world: World) -> None:
    topic = KeyedTopic.create(world, "state")
    topic.write(*((b"key-%d" % number, b"1") for number in range(20)))
    topic.move()
    before = world.snapshot("state")
    topic.write(*((b"key-%d" % number, b"2") for number in range(3)))
    topic.clean()
    assert topic.kept() == list(range(23))
    after = world.snapshot("state")
    assert before is not None
    assert after is not None
    assert before.files[0][0] == after.files[0][0]

    topic.write((b"key-3", b"2"))  # one in five by now, most of them seen before
    topic.clean()

    assert topic.kept() == list(range(4, 24))
    topic.check()


def test_records_without_a_key_go_and_are_counted(world: World) -> None:
    topic = KeyedTopic.create(world, "state", {"cleanup.policy": "compact"})
    topic.write((None, b"1"), (b"a", b"1"), (None, None))

    summary = world.compact()

    assert topic.kept() == [1]
    assert summary.topics["state"].dropped_keyless == 2
    topic.check()


def test_batches_that_cannot_be_decoded_stay(world: World) -> None:
    topic = KeyedTopic.create(world, "state", AT_ONCE)
    topic.write((b"a", b"1"), (b"a", b"2"))
    world.log.append("state", 0, undecodable_batch())
    topic.records.extend([(None, None), (None, None)])
    topic.write((b"a", b"3"), (b"b", None))

    for _ in range(3):
        topic.clean()

    # A consumer may find any key in that batch: the tombstone after it stays.
    assert topic.kept() == [2, 4, 5]


def test_records_younger_than_the_lag_replace_nothing(world: World) -> None:
    topic = KeyedTopic.create(world, "state", {"min.compaction.lag.ms": str(50 * 365 * 86_400_000)})
    topic.write((b"a", b"1"), (b"a", b"2"))

    topic.clean()

    assert topic.kept() == [0, 1]
    snapshot = world.snapshot("state")
    assert snapshot is not None
    assert snapshot.cleaned.get(0, 0) == 0


def test_records_without_a_timestamp_are_as_old_as_their_file(world: World) -> None:
    topic = KeyedTopic.create(world, "state", {"min.compaction.lag.ms": str(HOUR_MS)})
    topic.write((b"a", b"1"), (b"a", b"2"), is_dated=False)

    topic.clean()
    assert topic.kept() == [0, 1]

    for path in world.directory.rglob("*.parquet"):
        os.utime(path, (0, 0))
    topic.clean()
    assert topic.kept() == [1]


def test_topics_that_are_not_compacted_are_left_alone(world: World) -> None:
    topic = KeyedTopic.create(world, "events", {"cleanup.policy": "delete"})
    topic.write((b"a", b"1"), (b"a", b"2"))
    seen: list[str] = []

    world.compact(watch=seen.append)

    assert topic.kept() == [0, 1]
    assert "clean" not in seen


def test_a_partition_whose_last_records_went_is_read_to_its_end(world: World) -> None:
    topic = KeyedTopic.create(world, "state", AT_ONCE)
    topic.write((b"a", b"1"), (b"a", None))
    topic.clean()
    topic.clean()

    assert topic.kept() == []
    assert topic.read() == []
    assert world.log.end("state", 0) == 2
    topic.write((b"b", b"1"))
    assert topic.read() == [2]
    topic.clean()
    topic.check()


def test_commits_say_that_data_changed_and_where_the_clean_end_is(world: World) -> None:
    topic = KeyedTopic.create(world, "state")
    topic.write((b"a", b"1"), (b"a", b"2"))
    topic.clean()

    folder = world.directory / table_key(world.topic_ids["state"]) / "_delta_log"
    entry = max(folder.glob("0*.json")).read_text()
    actions = [json.loads(line) for line in entry.splitlines()]
    assert [a["txn"]["version"] for a in actions if "txn" in a] == [2, 2]
    assert [a["txn"]["appId"] for a in actions if "txn" in a] == [
        f"logstore/{world.topic_ids['state'].hex()}/0/{name}" for name in ("clean", "settled")
    ]
    changes = [a[kind]["dataChange"] for a in actions for kind in ("add", "remove") if kind in a]
    assert changes == [True, True]


def test_a_run_leaves_nothing_in_the_store_but_the_table(world: World) -> None:
    topic = KeyedTopic.create(world, "state")
    topic.write((b"a", b"1"), (b"a", b"2"))
    (world.directory / "compaction" / "dead").mkdir(parents=True)
    (world.directory / "compaction" / "dead" / "left-by-a-killed-run").write_bytes(b"x")

    topic.clean()

    assert not [path for path in (world.directory / "compaction").rglob("*") if path.is_file()]


def test_a_run_that_finds_nothing_new_makes_no_version(world: World) -> None:
    topic = KeyedTopic.create(world, "state")
    topic.write((b"a", b"1"), (b"a", b"2"))
    topic.clean()
    before = world.snapshot("state")

    topic.clean()

    after = world.snapshot("state")
    assert before is not None
    assert after is not None
    assert after.version == before.version


def test_a_checkpoint_of_the_tables_log_keeps_clean_ends(world: World) -> None:
    topic = KeyedTopic.create(world, "state")
    topic.write((b"a", b"1"), (b"a", b"2"))
    topic.clean()
    world.tables.checkpoint(world.topic_ids["state"])

    fresh = type(world.tables)(str(world.directory)).snapshot(world.topic_ids["state"])
    assert fresh is not None
    assert (fresh.cleaned, fresh.ends) == ({0: 2}, {0: 2})


@pytest.mark.slow
@pytest.mark.parametrize(
    "limits",
    [
        CleanLimits(),
        IN_MEMORY,
        replace(IN_MEMORY, within_bytes=0),
        SMALL,
        replace(SMALL, within_bytes=1 << 20),
    ],
    ids=["at once", "in memory", "… by objects", "in buckets", "… by results"],
)
@pytest.mark.parametrize("ratio", ["0", "0.2"])
def test_the_state_is_the_same_after_every_round(
    world: World, limits: CleanLimits, ratio: str
) -> None:
    rng = random.Random(7)
    configs = {"delete.retention.ms": "0", "logstore.clean.dead.ratio": ratio}
    topic = KeyedTopic.create(world, "state", configs)
    options = replace(NOW, clean=limits)
    for _ in range(8):
        for _ in range(rng.randrange(1, 4)):
            topic.write(*random_records(rng, rng.randrange(1, 40), 30))
            topic.move()
        summary = world.compact(options)
        assert summary.errors == []
        topic.check()
    if ratio == "0":
        world.compact(options)
        topic.check()
        assert {topic.records[offset][1] for offset in topic.kept()} & {None} == set()
        assert len(topic.kept()) == len(topic.state(range(len(topic.records))))


@pytest.mark.slow
def test_all_ways_keep_the_same_rows(world: World) -> None:
    rng = random.Random(11)
    ways = {"one": CleanLimits(), "two": SMALL, "three": IN_MEMORY}
    topics = [KeyedTopic.create(world, name, AT_ONCE) for name in ways]
    for _ in range(4):
        records = random_records(rng, 100, 40)
        for topic in topics:
            topic.write(*records)
        for name, limits in ways.items():
            world.compact(RunOptions(topics=(name,), now=True, clean=limits))

    assert topics[0].kept() == topics[1].kept() == topics[2].kept()
    assert len(topics[0].kept()) < 100


@pytest.mark.parametrize(
    "limits", [CleanLimits(within_bytes=0), IN_MEMORY, replace(IN_MEMORY, within_bytes=0)]
)
def test_little_is_left_in_results_without_an_object(world: World, limits: CleanLimits) -> None:
    topic = KeyedTopic.create(world, "state", AT_ONCE)
    topic.write((b"a", b"1"), (b"a", b"2"), (b"b", None))
    topic.move()
    objects: list[bool] = []

    def watch(step: str) -> None:
        if step == "task done":
            objects.append(any(world.directory.glob("compaction/**/*-scan-*")))

    world.compact(replace(NOW, clean=limits), watch=watch)

    assert topic.kept() == [1, 2]
    assert objects[0] is (not limits.at_once_bytes and not limits.within_bytes)


def test_a_small_partition_is_read_once_and_by_one_task(world: World) -> None:
    topic = KeyedTopic.create(world, "state", {**AT_ONCE, "logstore.clean.dead.ratio": "0.5"})
    topic.write((b"a", b"1"), (b"b", b"1"))
    topic.move()
    topic.write((b"c", b"1"), (b"d", b"1"), (b"e", b"1"))
    topic.move()
    topic.write((b"a", b"2"), (b"c", b"2"))
    topic.move()
    steps: list[str] = []

    summary = world.compact(replace(NOW), watch=steps.append)

    assert steps.count("task done") == 1
    assert topic.kept() == [1, 2, 3, 4, 5, 6]  # of the second file too few are dead
    assert summary.topics["state"].dropped_rows == 1
    topic.check()


def test_a_topic_without_a_table_that_asks_for_it_is_an_error(world: World) -> None:
    topic = KeyedTopic.create(world, "state", {"logstore.table.enable": "false"})
    topic.write((b"a", b"1"))

    (error,) = world.compact().errors

    assert error.startswith("topic state: cleanup.policy=compact with logstore.table.enable=false")


def test_a_run_says_for_how_long_records_were_overdue(world: World) -> None:
    topic = KeyedTopic.create(world, "state", {"max.compaction.lag.ms": "1000"})
    topic.write((b"a", b"1"), (b"a", b"2"))  # of 2023
    topic.move()

    delays = [world.compact().clean_delay_ms for _ in range(2)]

    assert delays[0] > 365 * 86_400_000
    assert delays[1] == 0


def test_several_partitions_are_cleaned_in_one_commit(world: World) -> None:
    topics = [KeyedTopic.create(world, "state", partition=1)]
    topics.append(KeyedTopic(world, "state", 0, []))
    for topic in topics:
        topic.write((b"a", b"1"), (b"a", b"2"))
    world.compact()

    snapshot = world.snapshot("state")
    assert snapshot is not None
    assert snapshot.cleaned == {0: 2, 1: 2}
    assert snapshot.version == 2
    for topic in topics:
        topic.check()


def test_inspect_shows_how_far_a_topic_is_cleaned(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = KeyedTopic.create(world, "state", {"min.cleanable.dirty.ratio": "0.01"})
    topic.write((b"a", b"1"), (b"a", b"2"))
    topic.clean()
    topic.write((b"b", b"1"))
    topic.move()

    assert main(["inspect", "--url", str(world.directory), "topic", "state", "--json"]) == 0

    (line,) = json.loads(capsys.readouterr().out)["cleaning"]
    assert line.pop("dirty_ratio") == pytest.approx(0.5, abs=0.1)
    assert line == {
        "partition": 0,
        "table_end": 3,
        "table_rows": 2,
        "clean_end": 2,
        "settled_end": 2,
        "is_due": True,
        "trouble": "",
    }


def test_inspect_takes_the_age_of_a_file_for_that_of_its_undated_records(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = KeyedTopic.create(world, "state", {"min.compaction.lag.ms": str(HOUR_MS)})
    topic.write((b"a", b"1"), (b"a", b"2"), is_dated=False)
    topic.move()

    for is_due in (False, True):
        assert main(["inspect", "--url", str(world.directory), "topic", "state", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["cleaning"][0]["is_due"] == is_due
        for path in world.directory.rglob("*.parquet"):
            os.utime(path, (0, 0))


def test_a_tombstone_stays_for_a_consumer_that_has_read_an_older_record(world: World) -> None:
    """The tombstone was seen long ago, and the older record was in a file that was left alone."""
    topic = KeyedTopic.create(world, "state", {**AT_ONCE, "logstore.clean.dead.ratio": "0.2"})
    topic.write(*((b"key-%d" % number, b"1") for number in range(20)))
    topic.move()
    topic.write((b"key-3", None))
    for _ in range(3):
        topic.clean()
    already_read = topic.kept()[:20]
    assert 3 in already_read

    topic.write(*((b"key-%d" % number, b"2") for number in range(10, 15)))
    topic.clean()

    kept = topic.kept()
    assert 3 not in kept
    read_on = [offset for offset in kept if offset >= 20]
    assert topic.state([*already_read, *read_on]) == topic.state(range(len(topic.records)))
    topic.clean()
    assert 20 not in topic.kept()
    topic.check()


def test_files_are_rewritten_so_that_tombstones_may_go(world: World) -> None:
    """One of twenty rows of the first file is dead, and nothing else ever dies there."""
    topic = KeyedTopic.create(world, "state", {**AT_ONCE, "logstore.clean.dead.ratio": "0.2"})
    topic.write(*((b"key-%d" % number, b"1") for number in range(20)))
    topic.move()
    topic.write((b"key-3", None))
    for _ in range(3):
        topic.clean()
    snapshot = world.snapshot("state")
    assert snapshot is not None
    assert (snapshot.settled, snapshot.cleaned) == ({0: 20}, {0: 21})

    topic.write(*((b"gone-%d" % number, None) for number in range(5)))
    topic.clean()  # six tombstones of 26 rows wait
    snapshot = world.snapshot("state")
    assert snapshot is not None
    assert (snapshot.settled, snapshot.cleaned) == ({0: 26}, {0: 26})
    topic.clean()

    assert topic.kept() == [*range(3), *range(4, 20)]
    topic.check()
