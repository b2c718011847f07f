"""`logstore fsck`: what does not agree is named, with what cures it; a whole log passes."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from logstore.cli.command import FAILED, OK
from logstore.formats.keys import checkpoint_key, segment_key
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_record import record_key
from logstore.protocol.rules.checks import CURES, ProblemKind
from tests.logstore.cli.conftest import Answer, Command

Harm = Callable[[Path], None]


def row_of(log: Path, pk: str, sk: str) -> dict[str, object]:
    with sqlite3.connect(log / "registry.db") as rows:
        ((text,),) = rows.execute("SELECT attributes FROM rows WHERE pk = ? AND sk = ?", (pk, sk))
    rows.close()
    found: dict[str, object] = json.loads(text)
    return found


def rows_of(log: Path, prefix: str) -> list[tuple[str, str]]:
    with sqlite3.connect(log / "registry.db") as rows:
        found = list(rows.execute("SELECT pk, sk FROM rows WHERE pk LIKE ?", (prefix + "%",)))
    rows.close()
    return found


def change_row(log: Path, pk: str, sk: str, **values: object) -> None:
    text = json.dumps({**row_of(log, pk, sk), **values})
    with sqlite3.connect(log / "registry.db") as rows:
        rows.execute("UPDATE rows SET attributes = ? WHERE pk = ? AND sk = ?", (text, pk, sk))
    rows.close()


def add_row(log: Path, pk: str, sk: str, values: dict[str, object]) -> None:
    with sqlite3.connect(log / "registry.db") as rows:
        rows.execute(
            "INSERT INTO rows (pk, sk, attributes) VALUES (?, ?, ?)", (pk, sk, json.dumps(values))
        )
    rows.close()


def drop_row(log: Path, pk: str, sk: str) -> None:
    with sqlite3.connect(log / "registry.db") as rows:
        rows.execute("DELETE FROM rows WHERE pk = ? AND sk = ?", (pk, sk))
    rows.close()


def chain(epoch: int) -> tuple[str, str]:
    return "chain", f"{epoch:020d}"


def seal_of(log: Path) -> int:
    seal = row_of(log, *chain(1))["seal"]
    assert isinstance(seal, int)
    return seal


def spoil(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.chmod(0o644)
    path.write_bytes(data)


def fsck(logstore: Command, log: Path, *more: str) -> Answer:
    return logstore("fsck", "--url", log, "--json", *more)


def found(answer: Answer) -> set[tuple[str, str]]:
    assert answer.code == FAILED, answer
    return {(one["what"], one["where"]) for one in answer.json["problems"]}


def test_a_log_that_is_whole_passes_and_what_was_looked_at_is_counted(
    logstore: Command, written: Path
) -> None:
    answer = fsck(logstore, written, "--data")

    assert answer.code == OK
    assert answer.json["problems"] == []
    counts = answer.json["counts"]
    assert (counts["chains"], counts["partitions"], counts["checkpoints"]) == (2, 3, 1)
    assert counts["segments"] == len(list((written / "chains").rglob("0000*/0000*")))


def test_the_output_says_that_nothing_is_wrong(logstore: Command, written: Path) -> None:
    answer = logstore("fsck", "--url", written)

    assert answer.code == OK
    assert answer.out.endswith("nothing is wrong\n")


def lose(key: str) -> Harm:
    return lambda log: (log / key).unlink()


def lose_seal(log: Path) -> None:
    (log / segment_key(1, seal_of(log))).unlink()


def lose_checkpoint(log: Path) -> None:
    (log / checkpoint_key(1, seal_of(log))).unlink()


def change_checkpoint(log: Path) -> None:
    path = log / checkpoint_key(1, seal_of(log))
    spoil(path, path.stat().st_size - 1)


def lose_last_but_one(log: Path) -> None:
    """Of a chain without a seal: like a put that was under way when its broker died."""
    last = max(path.name for path in (log / segment_key(2, 0)).parent.iterdir())
    (log / segment_key(2, int(last) - 1)).unlink()
    change_row(log, "broker", "1", committed_end=int(last) + 1)


def seal_below_what_was_committed(log: Path) -> None:
    """A takeover after such a loss."""
    change_row(log, "broker", "1", epoch=1, committed_end=seal_of(log) + 2)


def swap(log: Path) -> None:
    path = log / segment_key(1, 2)
    path.chmod(0o644)
    shutil.copy(log / segment_key(1, 1), path)


def stray(key: str) -> Harm:
    def harm(log: Path) -> None:
        (log / key).write_bytes(b"?")

    return harm


def spoil_front(log: Path) -> None:
    spoil(log / segment_key(1, 2), 120)


def cut(log: Path) -> None:
    path = log / segment_key(1, 3)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-5])


def raise_checkpoint(log: Path) -> None:
    change_row(log, *chain(2), trim=90, checkpoint=80)


def lower_next_epoch(log: Path) -> None:
    change_row(log, "cluster", "cluster", next_epoch=2)


def lose_topic(log: Path) -> None:
    drop_row(log, "topic", "notes")


def partition_of(log: Path, topic: str, number: int) -> tuple[str, str]:
    topic_id = row_of(log, "topic", topic)["topic_id"]
    place = [(pk, sk) for pk, sk in rows_of(log, "partition/") if sk == f"{topic_id}/{number:06d}"]
    return place[0]


def forget_topic(log: Path) -> None:
    """As a copy of the registry from before the topic does."""
    drop_row(log, *partition_of(log, "notes", 0))
    drop_row(log, "topic", "notes")


def lose_partition(log: Path) -> None:
    drop_row(log, *partition_of(log, "orders", 1))


def move_epoch_range(log: Path) -> None:
    place = partition_of(log, "orders", 0)
    change_row(log, *place, stretches="[[0,1,0],[1,2,1]]")


def old_row(log: Path) -> None:
    place = partition_of(log, "orders", 0)
    change_row(log, *place, chain=1, leader_epoch=0, stretches="[[0,1,0]]")


def trim_needed(log: Path) -> None:
    change_row(log, *chain(1), trim=seal_of(log))


def lose_record(log: Path) -> None:
    (log / record_of(log, "notes")).unlink()


def spoil_record(log: Path) -> None:
    spoil(log / record_of(log, "notes"), 0)


def record_of(log: Path, topic: str, version: int = 1) -> str:
    return record_key(bytes.fromhex(str(row_of(log, "topic", topic)["topic_id"])), version)


def call_it_deleted(log: Path) -> None:
    add_record(log, status="deleted")


def add_record(log: Path, **fields: object) -> None:
    """One of the next version."""
    record = {**json.loads((log / record_of(log, "notes")).read_bytes()), "version": 2, **fields}
    (log / record_of(log, "notes", 2)).write_text(json.dumps(record))


def break_row(log: Path) -> None:
    change_row(log, "topic", "orders", status="sleeping")


@pytest.mark.parametrize(
    ("harm", "what", "where"),
    [
        (lose(segment_key(1, 0)), ProblemKind.NO_OPENING, segment_key(1, 0)),
        (lose(segment_key(1, 2)), ProblemKind.MISSING, segment_key(1, 2)),
        (lose_last_but_one, ProblemKind.MISSING, ""),
        (seal_below_what_was_committed, ProblemKind.MISSING, ""),
        (lose_seal, ProblemKind.NO_SEAL, "row chain/1"),
        (spoil_front, ProblemKind.DAMAGED, segment_key(1, 2)),
        (cut, ProblemKind.DAMAGED, segment_key(1, 3)),
        (swap, ProblemKind.FOREIGN, segment_key(1, 2)),
        (lose_checkpoint, ProblemKind.CHECKPOINT, ""),
        (change_checkpoint, ProblemKind.CHECKPOINT, ""),
        (stray("chains/odd"), ProblemKind.STRANGE_KEY, "chains/odd"),
        (stray("checkpoints/odd"), ProblemKind.STRANGE_KEY, "checkpoints/odd"),
        (lambda log: drop_row(log, *chain(1)), ProblemKind.OLD_REGISTRY, segment_key(1, 0)),
        (raise_checkpoint, ProblemKind.OUT_OF_ORDER, "row chain/2"),
        (lower_next_epoch, ProblemKind.OLD_REGISTRY, "row cluster"),
        (lose_topic, ProblemKind.NO_TOPIC, ""),
        (forget_topic, ProblemKind.OLD_REGISTRY, segment_key(2, 0)),
        (lose_partition, ProblemKind.NO_PARTITION, "row topic/orders"),
        (move_epoch_range, ProblemKind.STRETCHES, ""),
        (old_row, ProblemKind.OLD_REGISTRY, ""),
        (trim_needed, ProblemKind.TRIMMED_TOO_FAR, "row chain/1"),
        (break_row, ProblemKind.BAD_ROW, "row topic/orders"),
        (lose_record, ProblemKind.NO_RECORD, "row topic/notes"),
        (spoil_record, ProblemKind.DAMAGED, ""),
        (call_it_deleted, ProblemKind.NO_RECORD, "row topic/notes"),
        (lambda log: change_row(log, "topic", "notes", version=0), ProblemKind.NO_RECORD, ""),
        (stray("topics/odd"), ProblemKind.STRANGE_KEY, "topics/odd"),
    ],
    ids=lambda value: value.name if isinstance(value, ProblemKind) else "",
)
def test_what_does_not_agree_is_named(
    logstore: Command, written: Path, harm: Harm, what: ProblemKind, where: str
) -> None:
    harm(written)

    answer = fsck(logstore, written)

    assert any(
        kind == what.value and (place == where or not where) for kind, place in found(answer)
    ), answer.json["problems"]
    assert all(one["repair"] for one in answer.json["problems"])


def test_bytes_of_batches_are_checked_on_demand(logstore: Command, written: Path) -> None:
    path = written / segment_key(1, 3)
    spoil(path, path.stat().st_size - 3)

    assert fsck(logstore, written).code == OK
    assert found(fsck(logstore, written, "--data")) == {
        (ProblemKind.DAMAGED.value, segment_key(1, 3))
    }


def test_behind_damage_the_next_checkpoint_is_where_it_goes_on(
    logstore: Command, written: Path
) -> None:
    spoil_front(written)

    assert found(fsck(logstore, written)) == {(ProblemKind.DAMAGED.value, segment_key(1, 2))}


def test_what_lies_beyond_an_end_is_counted_and_harmless(logstore: Command, written: Path) -> None:
    (written / segment_key(2, 99)).write_bytes(b"a put that came late")

    answer = fsck(logstore, written)

    assert answer.code == OK
    assert answer.json["counts"]["beyond"] == 1


def test_a_broker_that_died_while_it_started_is_counted_and_harmless(
    logstore: Command, written: Path
) -> None:
    path = written / segment_key(3, 0)
    path.parent.mkdir(parents=True)
    data = (written / segment_key(2, 0)).read_bytes()
    path.write_bytes(data)

    answer = fsck(logstore, written)

    assert found(answer) == {(ProblemKind.FOREIGN.value, segment_key(3, 0))}, (
        "it says that it is chain 2"
    )
    assert answer.json["counts"]["bare_openings"] == 1


def test_a_change_of_a_topic_that_was_recorded_and_never_made_is_counted_and_harmless(
    logstore: Command, written: Path
) -> None:
    add_record(written, partitions=9)

    answer = fsck(logstore, written)

    assert answer.code == OK
    assert answer.json["counts"]["never_made"] == 1


def test_rows_of_a_creation_that_died_are_counted_and_harmless(
    logstore: Command, written: Path
) -> None:
    place, born = partition_of(written, "notes", 0), row_of(written, "topic", "notes")
    add_row(written, place[0], f"{'7' * 32}/000000", dict(PartitionRow.new(1, 2).row()))
    add_row(written, "topic", "unborn", {**born, "topic_id": "8" * 32, "version": 1})
    path = written / record_key(b"\x88" * 16, 1)
    path.parent.mkdir()
    record = json.loads((written / record_of(written, "notes")).read_bytes())
    path.write_text(json.dumps({**record, "name": "unborn", "topic_id": "8" * 32}))

    answer = fsck(logstore, written)

    assert answer.code == OK, answer
    assert answer.json["counts"]["half_done"] == 2


def test_a_topic_that_was_deleted_needs_no_row(logstore: Command, written: Path) -> None:
    call_it_deleted(written)
    forget_topic(written)

    answer = fsck(logstore, written)

    assert answer.code == OK, answer


def test_a_damaged_record_of_a_deleted_topic_is_named_on_demand(
    logstore: Command, written: Path
) -> None:
    record = record_key(bytes(16), 1)
    (written / record).parent.mkdir()
    (written / record).write_bytes(b"no record")

    assert fsck(logstore, written).code == OK
    assert found(fsck(logstore, written, "--data")) == {(ProblemKind.DAMAGED.value, record)}


def test_a_row_that_a_late_creation_put_back_makes_no_registry_old(
    logstore: Command, written: Path
) -> None:
    call_it_deleted(written)
    place = partition_of(written, "notes", 0)
    drop_row(written, "topic", "notes")
    other = 1 if row_of(written, *place)["chain"] == 2 else 2
    change_row(written, *place, chain=other, leader_epoch=0, stretches=f"[[0,{other},0]]")

    answer = fsck(logstore, written)

    assert answer.code == OK, answer


def test_a_topic_row_that_a_late_creation_put_back_is_counted_and_harmless(
    logstore: Command, written: Path
) -> None:
    """Without rows of its partitions; with one of them the registry may be older."""
    call_it_deleted(written)
    assert found(fsck(logstore, written)) == {(ProblemKind.NO_RECORD.value, "row topic/notes")}
    drop_row(written, *partition_of(written, "notes", 0))

    answer = fsck(logstore, written)

    assert answer.code == OK, answer
    assert answer.json["counts"]["half_done"] == 1


def test_the_message_names_the_cure(logstore: Command, written: Path) -> None:
    lower_next_epoch(written)

    answer = logstore("fsck", "--url", written)

    assert answer.code == FAILED
    assert f"repair: {CURES[ProblemKind.OLD_REGISTRY]}" in answer.out


def test_it_changes_nothing(logstore: Command, written: Path) -> None:
    before = {path: path.read_bytes() for path in written.rglob("*") if path.is_file()}
    fsck(logstore, written)

    assert {
        p: p.read_bytes()
        for p in written.rglob("*")
        if p.name in {x.name for x in before} and p.is_file() and p in before
    } == before


def test_where_there_is_no_log_it_says_so(logstore: Command, tmp_path: Path) -> None:
    answer = logstore("fsck", "--url", tmp_path)

    assert answer.code == FAILED
    assert "no log here" in answer.err
