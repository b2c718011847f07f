"""`logstore inspect` of a damaged log: the damage is named with its byte, the rest is shown."""

import json
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from logstore.cli.command import FAILED, OK
from logstore.formats.keys import CLUSTER_KEY, checkpoint_key, segment_key
from logstore.formats.segment import (
    HEADER_BYTES,
    EntryKind,
    Index,
    decode_front,
    decode_header,
)
from logstore.records.crc32c import crc32c
from tests.logstore.cli.conftest import Answer, Command

Change = Callable[[bytearray], object]
BATCH_CRC_AT = 17


class Target:
    """The first segment of chain 1 that holds a batch, and where things lie in it."""

    def __init__(self, log: Path) -> None:
        self.seq = 0
        while not any(e.kind == EntryKind.BATCH for e in self.index(log).entries):
            self.seq += 1
        self.key = segment_key(1, self.seq)
        index = self.index(log)
        self.entries = index.entries
        self.body_at = index.header.body_at
        self.size = self.body_at + index.header.body_bytes
        [self.batch_at] = [
            self.body_at + e.position for e in index.entries if e.kind == EntryKind.BATCH
        ]

    def index(self, log: Path) -> Index:
        return decode_front((log / segment_key(1, self.seq)).read_bytes())


@pytest.fixture
def target(written: Path) -> Target:
    return Target(written)


@pytest.fixture
def checkpoint(written: Path) -> int:
    """Seq of the checkpoint of chain 1, which is its seal's too."""
    [path] = (written / checkpoint_key(1, 0)).parent.iterdir()
    return int(path.name)


def change(log: Path, key: str, how: Change) -> None:
    path = log / key
    data = bytearray(path.read_bytes())
    how(data)
    path.chmod(0o644)
    path.write_bytes(data)


def flip(at: int) -> Change:
    def how(data: bytearray) -> None:
        data[at] ^= 0xFF

    return how


def resealed(how: Change) -> Change:
    """Change the front and make its checksum right again."""

    def both(data: bytearray) -> None:
        how(data)
        index_end = decode_header(bytes(data)).body_at
        crc = crc32c(data[HEADER_BYTES:index_end], crc32c(data[: HEADER_BYTES - 4]))
        data[HEADER_BYTES - 4 : HEADER_BYTES] = struct.pack(">I", crc)

    return both


def cut(length: int) -> Change:
    def how(data: bytearray) -> None:
        del data[length:]

    return how


@pytest.mark.parametrize(
    ("how", "at", "cause"),
    [
        (flip(0), 0, "not a segment"),
        (flip(5), 4, "unknown format"),
        (flip(6), 6, "unknown kind"),
        (flip(HEADER_BYTES + 10), 108, "checksum"),
        (cut(0), 0, "too short for its header"),
        (cut(50), 50, "too short for its header"),
        (cut(HEADER_BYTES + 50), HEADER_BYTES + 50, "index cut short"),
        (resealed(flip(8)), 8, "another cluster"),
        (resealed(flip(31)), 24, "another chain"),
        (resealed(flip(39)), 32, "another place"),
        (resealed(flip(64)), 64, "spliced"),
        (resealed(flip(HEADER_BYTES)), HEADER_BYTES, "unknown kind: kind=254"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damage_in_a_segment_is_named_and_passed_by(
    logstore: Command, written: Path, target: Target, how: Change, at: int, cause: str
) -> None:
    change(written, target.key, how)

    answer = logstore("inspect", "--url", written, "--json")

    assert answer.code == FAILED
    found = answer.json["findings"]
    assert (found[0]["key"], found[0]["at"]) == (target.key, at)
    assert cause in found[0]["cause"]
    assert [p["end"] for p in answer.json["partitions"]] == [2, 3, 1], "chain 2 tells these"


@pytest.mark.parametrize("more", [-1, 4])
def test_a_segment_of_the_wrong_size_is_named(
    logstore: Command, written: Path, target: Target, more: int
) -> None:
    change(written, target.key, cut(more) if more < 0 else lambda data: data.extend(bytes(more)))

    [found] = logstore("inspect", "--url", written, "--json").json["findings"]

    assert found["key"] == target.key
    assert found["at"] == min(target.size, target.size + more)
    assert f"bytes={target.size + more} expected={target.size}" in found["cause"]


def test_people_get_the_damage_at_the_end(logstore: Command, written: Path, target: Target) -> None:
    change(written, target.key, flip(HEADER_BYTES + 10))

    answer = logstore("inspect", "--url", written)

    assert answer.code == FAILED
    last = answer.out.splitlines()[-1]
    assert last.startswith(f"  {target.key} at byte 108: segment index fails its checksum")


def test_behind_damage_in_an_open_chain_the_end_is_only_a_lower_bound(
    logstore: Command, written: Path
) -> None:
    change(written, segment_key(2, 3), flip(0))

    answer = logstore("inspect", "--url", written, "--json")

    ends = {
        (p["topic"], p["partition"]): (p["end"], p["is_complete"])
        for p in answer.json["partitions"]
    }
    assert ends["notes", 0] == (1, False)
    assert "at least 1" in logstore("inspect", "--url", written).out


def test_a_segment_missing_below_the_seal_is_damage(
    logstore: Command, written: Path, target: Target, checkpoint: int
) -> None:
    (written / target.key).unlink()

    answer = logstore("inspect", "--url", written, "--json")

    assert answer.code == FAILED
    [found] = answer.json["findings"]
    assert found["key"] == target.key
    assert f"missing: the chain is sealed at {checkpoint}" in found["cause"]


def test_a_gap_in_an_open_chain_is_no_damage(logstore: Command, written: Path) -> None:
    (written / segment_key(2, 2)).unlink()

    answer = logstore("inspect", "--url", written, "--json")

    assert answer.code == OK
    chain = answer.json["chains"][1]
    assert (chain["committed_end"], chain["objects_beyond"]) == (2, 1)
    assert "(1 beyond)" in logstore("inspect", "--url", written).out


@pytest.mark.parametrize(
    ("how", "cause"),
    [(flip(200), "fails its checksum"), (cut(30), "too short"), (flip(5), "unknown format")],
    ids=["flipped", "cut short", "of another format"],
)
def test_damage_in_a_checkpoint_is_named(
    logstore: Command, written: Path, checkpoint: int, how: Change, cause: str
) -> None:
    change(written, checkpoint_key(1, checkpoint), how)

    answer = logstore("inspect", "--url", written, "--json")

    assert answer.code == FAILED
    [found] = answer.json["findings"]
    assert found["key"] == checkpoint_key(1, checkpoint)
    assert cause in found["cause"]
    assert logstore("inspect", "--url", written, "checkpoint", 1, checkpoint).code == FAILED


def test_a_checkpoint_that_its_chain_names_and_is_gone_is_damage(
    logstore: Command, written: Path, checkpoint: int
) -> None:
    (written / checkpoint_key(1, checkpoint)).unlink()

    answer = logstore("inspect", "--url", written, "--json")

    assert answer.code == FAILED
    assert "missing" in answer.json["findings"][0]["cause"]


def test_a_damaged_page_is_found_in_its_checkpoint(
    logstore: Command, written: Path, checkpoint: int
) -> None:
    def view() -> Answer:
        return logstore("inspect", "--url", written, "checkpoint", 1, checkpoint, "--json")

    page = view().json["pages"][1]
    change(written, checkpoint_key(1, checkpoint), flip(page["at"] + 1))

    answer = view()

    assert answer.code == FAILED
    [found] = answer.json["findings"]
    assert (found["at"], found["cause"]) == (page["at"], "index page fails its checksum")


def test_a_damaged_batch_is_found_in_its_segment(
    logstore: Command, written: Path, target: Target
) -> None:
    change(written, target.key, flip(-1))

    answer = logstore("inspect", "--url", written, "segment", 1, target.seq, "--json")

    assert answer.code == FAILED
    [found] = answer.json["findings"]
    assert found["at"] == target.batch_at + BATCH_CRC_AT
    assert "bad crc" in found["cause"]
    assert len(answer.json["entries"]) == len(target.entries)


def test_damage_that_no_batch_covers_is_found_by_the_body_s_checksum(
    logstore: Command, written: Path, target: Target
) -> None:
    leader_epoch_at = target.batch_at + 12
    change(written, target.key, flip(leader_epoch_at))

    answer = logstore("inspect", "--url", written, "segment", 1, target.seq, "--json")

    assert answer.code == FAILED
    [found] = answer.json["findings"]
    assert (found["at"], found["cause"]) == (104, "body fails its checksum")


def test_a_damaged_state_is_found_in_its_segment(logstore: Command, written: Path) -> None:
    key = segment_key(2, 1)
    at = decode_header((written / key).read_bytes()).body_at
    change(written, key, flip(at))

    answer = logstore("inspect", "--url", written, "segment", 2, 1, "--json")

    assert answer.json["findings"] == [{"key": key, "at": at, "cause": "state fails its checksum"}]


def test_a_segment_whose_header_is_gone_is_still_answered(
    logstore: Command, written: Path, target: Target
) -> None:
    change(written, target.key, cut(7))

    answer = logstore("inspect", "--url", written, "segment", 1, target.seq)

    assert answer.code == FAILED
    assert "at byte 7" in answer.out


def test_a_strange_object_is_named(logstore: Command, written: Path) -> None:
    shutil.copy(written / segment_key(1, 1), written / "chains" / "stray")

    answer = logstore("inspect", "--url", written, "--json")

    assert answer.json["findings"] == [
        {"key": "chains/stray", "at": None, "cause": "no segment has this key"}
    ]


def test_a_chain_unknown_to_the_registry_says_that_this_is_older(
    logstore: Command, written: Path
) -> None:
    execute(written, "DELETE FROM rows WHERE pk = 'chain' AND sk LIKE '%2'")

    answer = logstore("inspect", "--url", written, "--json")

    assert answer.code == FAILED
    assert "the registry is older than the log" in answer.json["findings"][0]["cause"]
    assert answer.json["chains"][1]["status"] == "no row"


def test_a_log_of_a_newer_format_is_refused_in_one_line(logstore: Command, written: Path) -> None:
    identity = json.loads((written / CLUSTER_KEY).read_text())
    (written / CLUSTER_KEY).write_text(json.dumps({**identity, "format": 99}))

    answer = logstore("inspect", "--url", written)

    assert answer.code == FAILED
    assert "written by a newer logstore: format_level=99 known=2" in answer.err
    assert answer.err.count("\n") == 1


def test_the_registry_of_another_cluster_is_refused(logstore: Command, written: Path) -> None:
    identity = json.loads((written / CLUSTER_KEY).read_text())
    (written / CLUSTER_KEY).write_text(json.dumps({**identity, "cluster_id": "f" * 32}))

    answer = logstore("inspect", "--url", written)

    assert answer.code == FAILED
    assert "the registry belongs to another cluster" in answer.err
    assert logstore("inspect", "--url", written, "registry").code == OK, "rows are rows"


def test_a_registry_that_is_gone_is_refused(logstore: Command, written: Path) -> None:
    for path in written.glob("registry.db*"):
        path.unlink()

    answer = logstore("inspect", "--url", written)

    assert answer.code == FAILED
    assert "cannot open the registry" in answer.err


def test_a_row_that_cannot_be_decoded_is_shown_with_its_fault(
    logstore: Command, written: Path
) -> None:
    execute(written, "UPDATE rows SET attributes = '{\"epoch\": 1}' WHERE pk = 'broker'")

    answer = logstore("inspect", "--url", written, "registry", "--json")

    assert answer.code == FAILED
    [fault] = [row["fault"] for row in answer.json if row["fault"]]
    assert "lacks an attribute" in fault


def execute(log: Path, statement: str) -> None:
    connection = sqlite3.connect(log / "registry.db")
    with connection:
        assert connection.execute(statement).rowcount == 1
    connection.close()
