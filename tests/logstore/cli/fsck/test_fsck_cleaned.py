"""`logstore fsck` on tables of which key compaction took rows out: whole ones, and broken ones."""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from logstore.cli.command import FAILED, OK
from logstore.cli.main import main
from logstore.history.forms.columns import TABLE_COLUMNS
from logstore.history.forms.entries import encode_commit
from logstore.history.forms.names import entry_key
from logstore.history.forms.snapshot import Snapshot, TableCommit
from logstore.history.read import read_rows
from logstore.history.write import TableWriter
from logstore.objects.directory import DirectoryStore
from logstore.protocol.rules.checks import ProblemKind
from logstore.runners.retrying import RetryingStore
from tests.logstore.compaction.keyed import KeyedTopic, random_records
from tests.logstore.compaction.test_clean_races import delta
from tests.logstore.compaction.world import World, undecodable_batch
from tests.spark_source.log_on_disk import LogOnDisk

NOTHING: Mapping[int, int] = {}
KINDS = (ProblemKind.TABLE_CLEANED, ProblemKind.TABLE_SETTLED)
AT_ONCE = {"delete.retention.ms": "0", "logstore.clean.dead.ratio": "0"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with LogOnDisk(tmp_path / "log") as log:
        yield World(log, tmp_path / "log")


@pytest.fixture
def topic(world: World) -> KeyedTopic:
    """A clean table: offset 0 is superseded, 1 the last of its key, 2 a tombstone, 4 keyless."""
    topic = KeyedTopic.create(world, "state", AT_ONCE)
    topic.write((b"a", b"1"), (b"b", b"1"), (b"a", None), (b"c", b"1"))
    topic.move()
    return topic


Fsck = Callable[..., tuple[int, dict[str, object], set[str]]]


@pytest.fixture
def fsck(world: World, capsys: pytest.CaptureFixture[str]) -> Fsck:
    def run(*arguments: str) -> tuple[int, dict[str, object], set[str]]:
        """Exit code, counts, and the problems with keys."""
        capsys.readouterr()
        code = main(["fsck", "--url", str(world.directory), "--json", *arguments])
        answer = json.loads(capsys.readouterr().out)
        kinds = {one["what"] for one in answer["problems"]}
        assert kinds <= {kind.value for kind in KINDS}, answer
        return code, answer["counts"], {one["detail"] for one in answer["problems"]}

    return run


def commit(
    topic: KeyedTopic, left_out: Sequence[int], clean_end: int, settled: int | None = None
) -> None:
    """All files as one without these offsets, as a commit of key compaction."""
    snapshot = newest(topic)
    store = RetryingStore.of(DirectoryStore(topic.world.directory))
    files = list(snapshot.files[0])
    writer = TableWriter(store, snapshot.topic_id, 0, f"run{snapshot.version}", 0)
    for rows in read_rows(store, snapshot.topic_id, files, 0, 0, 2**62, TABLE_COLUMNS):
        kept = [n not in left_out for n in rows.column("offset").to_pylist()]
        writer.write(rows.filter(kept))
    adds, ends = writer.close(), {} if settled is None else {0: settled}
    topic.world.tables.commit(
        snapshot,
        TableCommit({}, {}, adds, files, "run", cleaned={0: clean_end}, settled=ends),
    )


def newest(topic: KeyedTopic) -> Snapshot:
    snapshot = topic.world.snapshot(topic.name)
    assert snapshot is not None
    return snapshot


@pytest.mark.slow
def test_a_table_that_was_cleaned_again_and_again_is_whole(world: World, fsck: Fsck) -> None:
    topic = KeyedTopic.create(world, "state", AT_ONCE)
    rng = random.Random(3)
    for _ in range(6):
        topic.write(*random_records(rng, 30, 20), (None, b"no key"))
        topic.move()
        if rng.random() < 0.3:
            world.log.append("state", 0, undecodable_batch())
            topic.records.extend([(b"?", b"?")] * 2)
        summary = world.compact()
        assert summary.errors == []

    code, counts, problems = fsck("--data")

    assert (code, problems) == (OK, set())
    assert counts["cleanings"] == 6
    assert counts["old_cleanings"] == 0


def test_what_was_rightly_cleaned_is_whole(topic: KeyedTopic, fsck: Fsck) -> None:
    commit(topic, [0], 4)
    assert fsck("--data")[::2] == (OK, set())
    commit(topic, [2], 4)
    assert fsck("--data")[::2] == (OK, set())


@pytest.mark.parametrize(
    ("left_out", "clean_end", "what"),
    [
        ([0, 3], 4, "the last record of a key is gone: partition=0 clean end=4 offsets=3"),
        ([0, 1, 3], 4, "the last record of a key is gone: partition=0 clean end=4 offsets=1, 3"),
        ([0], 2, "the last record of a key is gone: partition=0 clean end=2 offsets=0"),
        (
            [0, 2],
            2,
            "a record that is not below the clean end is gone: partition=0 clean end=2 offsets=2",
        ),
        (
            [2],
            4,
            "a deletion is gone, and an older record of its key is left: partition=0 clean end=4 "
            "offsets=2",
        ),
    ],
)
def test_a_row_that_had_to_stay_is_named(
    topic: KeyedTopic, fsck: Fsck, left_out: Sequence[int], clean_end: int, what: str
) -> None:
    commit(topic, left_out, clean_end)

    assert fsck()[0] == OK  # nothing is wrong but the rows, which it did not read
    code, counts, problems = fsck("--data")

    assert code == FAILED
    assert what in problems
    assert counts["cleanings"] == 1


def test_a_batch_that_cannot_be_decoded_had_to_stay(topic: KeyedTopic, fsck: Fsck) -> None:
    topic.world.log.append("state", 0, undecodable_batch())
    topic.records.extend([(b"?", b"?")] * 2)
    topic.move()
    commit(topic, [0, 4], 6)

    assert fsck("--data")[2] == {
        "a batch that cannot be decoded is gone: partition=0 clean end=6 offsets=4"
    }


def test_where_files_were_swept_rows_are_not_known_any_more(topic: KeyedTopic, fsck: Fsck) -> None:
    commit(topic, [0, 3], 4)
    delta(topic).vacuum(0, dry_run=False, enforce_retention_duration=False)

    code, counts, problems = fsck("--data")

    assert (code, problems) == (OK, set())
    assert (counts["cleanings"], counts["old_cleanings"]) == (0, 1)


def say(topic: KeyedTopic, clean_end: int | None, settled: Mapping[int, int] = NOTHING) -> None:
    """Past the checks of our own commits."""
    cleaned = {} if clean_end is None else {0: clean_end}
    snapshot = newest(topic)
    entry = encode_commit(
        snapshot.topic_id,
        snapshot.version,
        TableCommit({}, {}, (), (), "unsafe", cleaned=cleaned, settled=settled),
        0,
    )
    key = entry_key(snapshot.topic_id, snapshot.version + 1)
    (topic.world.directory / key).write_bytes(entry)


def test_a_clean_end_that_lies_is_named(topic: KeyedTopic, fsck: Fsck) -> None:
    topic.clean()
    assert fsck()[0] == OK
    say(topic, 7)
    assert fsck()[2] == {"partition 0 is cleaned up to 7, the table ends at 4"}
    say(topic, 3)
    assert fsck()[2] == {
        "partition 0 is cleaned up to 3, an earlier version says 7",
        "partition 0 is settled up to 4, its clean end is 3",
    }


def test_a_settled_end_that_lies_is_named(topic: KeyedTopic, fsck: Fsck) -> None:
    topic.clean()
    assert newest(topic).settled == {0: 4}
    assert fsck("--data")[::2] == (OK, set())
    say(topic, None, {0: 6})
    assert fsck()[2] == {"partition 0 is settled up to 6, its clean end is 4"}
    say(topic, None, {0: 3})
    fell = "partition 0 is settled up to 3, an earlier version says 6"
    assert fsck()[2] == {f"{fell}, and its owner changed no row in between"}


def test_a_settled_end_of_a_partition_that_is_not_there_is_named(
    topic: KeyedTopic, fsck: Fsck
) -> None:
    say(topic, None, {0: 2, 7: 1})

    assert fsck()[2] == {
        "partition 0 has a settled end of 2 and no clean end",
        "partition 7 has a settled end of 1 and no table end",
    }


def test_a_settled_end_goes_back_after_the_owner_changed_rows(
    topic: KeyedTopic, fsck: Fsck
) -> None:
    topic.clean()
    delta(topic).delete("offset = 1")
    say(topic, None, {0: 2})

    assert fsck()[::2] == (OK, set())


def test_an_older_record_of_a_deletion_below_the_settled_end_is_named(
    topic: KeyedTopic, fsck: Fsck
) -> None:
    commit(topic, [], 4, settled=2)  # the tombstone at 2 is not below it
    assert fsck("--data")[::2] == (OK, set())
    commit(topic, [], 4, settled=3)
    assert fsck()[0] == OK
    code, _, problems = fsck("--data")
    assert code == FAILED
    assert problems == {
        "an older record is left of a deletion below the settled end: partition=0 settled end=3 "
        "offsets=2"
    }
    commit(topic, [0], 4, settled=4)
    assert len(fsck("--data")[2]) == 1  # of the version before
