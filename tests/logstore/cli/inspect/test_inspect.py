"""`logstore inspect` of a sound log: every view, the overview to the byte."""

import json
from pathlib import Path

import pytest

from logstore.cli.command import FAILED, OK
from logstore.formats.keys import checkpoint_key
from tests.golden.samples import EPOCH, TOPIC_ID, chain_with_deleted, golden
from tests.logstore.cli.conftest import Command

GOLDEN = Path(__file__).parent / "overview.json"


def test_the_overview_is_the_golden_one(logstore: Command, written: Path) -> None:
    answer = logstore("inspect", "--url", written, "--json")

    assert answer.code == OK
    overview = answer.json
    for broker in overview["brokers"]:
        assert broker.pop("heartbeat") > 0  # as many as it lived long
    assert overview == json.loads(GOLDEN.read_text())


def test_people_see_the_same_as_machines(logstore: Command, written: Path) -> None:
    answer = logstore("inspect", "--url", written)

    assert answer.code == OK
    assert "orders          0       1             1      2      0    3" in answer.out
    assert answer.out.endswith("no damage found\n")


def test_inspecting_changes_nothing(logstore: Command, written: Path) -> None:
    def contents() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in written.rglob("*") if p.is_file()}

    before = contents()
    for what in ([], ["chain", 1], ["registry"], ["topic", "orders", "--records", "5"]):
        logstore("inspect", "--url", written, *what)

    after = {name: data for name, data in contents().items() if not name.endswith(("-shm", "-wal"))}
    assert after == before


def test_a_chain_shows_every_segment(logstore: Command, written: Path) -> None:
    chain = logstore("inspect", "--url", written, "--json", "chain", 1).json
    segments = chain["segments"]

    assert [s["seq"] for s in segments] == list(range(len(segments)))
    assert [s["kind"] for s in segments][:: len(segments) - 1] == ["opening", "seal"]
    assert [s["records"] for s in segments if s["records"]] == [2, 1, 1]
    assert chain["chain"]["seal_found"] == len(segments) - 1


def test_a_segment_shows_header_and_entries(logstore: Command, written: Path) -> None:
    segments = logstore("inspect", "--url", written, "--json", "chain", 1).json["segments"]
    seq = [s["seq"] for s in segments if s["records"]][1]

    segment = logstore("inspect", "--url", written, "segment", 1, seq, "--json").json

    assert segment["header"]["seq"] == seq
    assert len(segment["header"]["previous_nonce"]) == 32
    [entry] = segment["entries"]
    assert (entry["kind"], entry["topic"], entry["partition"]) == ("batch", "orders", 1)
    assert (entry["base_offset"], entry["records"], entry["compression"]) == (0, 1, "lz4")
    assert segment["findings"] == []


def test_a_checkpoint_shows_stretches_and_pages(logstore: Command, written: Path) -> None:
    seq = logstore("inspect", "--url", written, "--json", "chain", 1).json["chain"]["checkpoint"]

    checkpoint = logstore("inspect", "--url", written, "checkpoint", 1, seq, "--json").json

    assert (checkpoint["from_seq"], checkpoint["seq"]) == (0, seq)
    ends = {(s["topic"], s["partition"]): s["end"] for s in checkpoint["stretches"]}
    assert ends == {("orders", 0): 2, ("orders", 1): 1, ("notes", 0): 1}
    assert sum(page["rows"] for page in checkpoint["pages"]) == 3


def test_a_checkpoint_shows_below_which_offsets_records_were_deleted(
    logstore: Command, written: Path
) -> None:
    """They have no epoch range any more."""
    seq = chain_with_deleted().next_seq
    place = written / checkpoint_key(EPOCH, seq)
    place.parent.mkdir(parents=True)
    place.write_bytes(golden("checkpoint-2"))
    arguments = ("inspect", "--url", written, "checkpoint", EPOCH, seq)

    answer = logstore(*arguments, "--json")
    assert answer.json["deleted"] == [{"topic": TOPIC_ID.hex(), "partition": 1, "below": 43}]
    assert "deleted records" in logstore(*arguments).out


def test_the_registry_shows_all_rows(logstore: Command, written: Path) -> None:
    rows = logstore("inspect", "--url", written, "registry", "--json").json

    assert [row["pk"].partition("/")[0] for row in rows] == [
        "cluster", "broker", "chain", "chain", "topic", "topic", *["partition"] * 3, "change",
    ]  # fmt: skip
    assert rows[2]["attributes"]["status"] == "sealed"
    assert all(row["fault"] is None for row in rows)


def test_records_are_decoded_across_stretches(logstore: Command, written: Path) -> None:
    topic = logstore("inspect", "--url", written, "topic", "orders", "--records", 9, "--json").json

    seen = [(r["partition"], r["offset"], r["key"], r["value"]) for r in topic["records"]]
    assert seen == [
        (0, 0, {"utf8": "a"}, {"utf8": "first"}),
        (0, 1, {"utf8": "b"}, {"utf8": "second"}),
        (0, 2, {"utf8": "c"}, {"utf8": "third"}),
        (1, 0, None, {"utf8": "no key"}),
    ]
    assert topic["records"][0]["headers"] == [{"name": "seq", "value": {"utf8": "\x00\x01"}}]


def test_the_newest_records_are_shown_unless_an_offset_is_given(
    logstore: Command, written: Path
) -> None:
    def offsets(*more: object) -> list[int]:
        topic = logstore("inspect", "--url", written, "--json", "topic", "orders", *more).json
        return [record["offset"] for record in topic["records"]]

    assert offsets("--records", 1, "--partition", 0) == [2]
    assert offsets("--records", 1, "--partition", 0, "--offset", 1) == [1]
    assert offsets("--records", 5, "--partition", 0, "--offset", 3) == []
    assert offsets() == []


def test_bytes_that_are_no_text_are_shown_as_digits(logstore: Command, written: Path) -> None:
    answer = logstore("inspect", "--url", written, "topic", "notes", "--records", 2)

    assert "0x0007" in answer.out
    assert "null" in answer.out


@pytest.mark.parametrize(
    ("what", "hint"),
    [
        (("chain", 9), "no such chain: epoch=9"),
        (("segment", 1, 99), "inspect chain 1"),
        (("checkpoint", 1, 99), "no such checkpoint"),
        (("topic", "nope"), "no such topic: name=nope"),
        (("topic", "orders", "--records", 1, "--partition", 7), "partitions=2"),
    ],
    ids=str,
)
def test_what_is_not_there_is_said_so(
    logstore: Command, written: Path, what: tuple[object, ...], hint: str
) -> None:
    answer = logstore("inspect", "--url", written, *what)

    assert answer.code == FAILED
    assert hint in answer.err
    assert answer.err.count("\n") == 1


def test_options_may_stand_on_both_sides_of_what_is_asked(logstore: Command, written: Path) -> None:
    before = logstore("inspect", "--json", "--url", written, "registry")
    after = logstore("inspect", "registry", "--json", "--url", written)

    assert before == after
    assert before.code == OK


def test_a_storage_setting_that_does_not_exist_is_refused(logstore: Command, written: Path) -> None:
    answer = logstore("inspect", "--url", written, "registry", "--set", "storage.endpiont=x")

    assert answer.code == FAILED
    assert "storage.endpoint" in answer.err


def test_another_eye_sees_the_same_log(logstore: Command, written: Path) -> None:
    own = logstore("inspect", "--url", str(written), "--json")
    through_fsspec = logstore("inspect", "--fsspec", "--url", str(written), "--json")

    assert through_fsspec.code == OK
    assert through_fsspec.json["chains"] == own.json["chains"]
    assert through_fsspec.json["topics"] == own.json["topics"]


def test_records_are_shown_wherever_they_lie(logstore: Command, written: Path) -> None:
    def records() -> object:
        asked = ("inspect", "--url", written, "--json", "topic", "orders", "--records", "9")
        return logstore(*asked).json["records"]

    before = records()
    assert logstore("compact", "--url", written, "--now").code == OK
    for segment in (written / "chains").glob("*/00000000000000000001/*[1-5]"):
        segment.unlink()  # its records are all in the table

    assert records() == before
