"""`logstore gc` and the arguments of `logstore restore`, as people type them."""

import json
import sqlite3
from pathlib import Path

import pytest

from logstore.cli.command import FAILED, OK, USAGE
from logstore.history.delta import Tables
from tests.logstore.cli.conftest import Command
from tests.logstore.raised import raised_to


def test_where_nothing_may_go_gc_says_so_and_changes_nothing(
    logstore: Command, written: Path
) -> None:
    configure(written, {})
    before = sorted((written / "chains").rglob("*"))
    answer = logstore("gc", "--url", written)

    assert answer.code == OK
    assert answer.out.splitlines() == [
        "log starts raised  0",
        "trimmed now        no chain",
        "objects deleted    0",
        "waiting            no chain",
    ]
    assert sorted((written / "chains").rglob("*")) == before


def test_it_publishes_a_trim_point_and_waits_for_its_grace(
    logstore: Command, written: Path
) -> None:
    drop_records(written)
    first = logstore("gc", "--url", written, "--json").json
    assert list(first["published"]) == ["1"]
    second = logstore("gc", "--url", written, "--json").json
    assert second == {
        "raised": 0,
        "published": {},
        "deleted": {},
        "waiting": 1,
        "staging": dict.fromkeys(["voided", "objects", "manifests", "waiting", "troubles"], 0),
        "troubles": [],
    }
    assert logstore("fsck", "--url", written).code == OK


def test_records_that_are_too_old_go_where_a_setting_says_how_old(
    logstore: Command, written: Path
) -> None:
    """The log is of 2023; the defaults of brokers are not in it."""
    configure(written, {})
    assert logstore("gc", "--url", written, "--json").json["raised"] == 0
    done = logstore("gc", "--url", written, "--retention-ms", 86_400_000, "--json").json
    assert done["raised"] > 0
    assert list(done["published"]) == ["1"]
    again = logstore("gc", "--url", written, "--retention-ms", 86_400_000, "--json").json
    assert again["raised"] == 0


def test_records_that_are_too_old_by_their_topics_own_configs_go(
    logstore: Command, written: Path
) -> None:
    configure(written, {"retention.ms": "86400000"})
    assert logstore("gc", "--url", written, "--json").json["raised"] > 0


def test_a_table_is_trusted_again_where_a_caller_says_so(logstore: Command, written: Path) -> None:
    wrong = logstore("gc", "--url", written, "--trust-table", "orders")
    assert "no such topic, or it has no table: topic=orders" in wrong.err
    with sqlite3.connect(written / "registry.db") as rows:
        ((text,),) = rows.execute(
            "SELECT attributes FROM rows WHERE pk = 'topic' AND sk = 'orders'"
        )
    rows.close()
    topic_id = bytes.fromhex(json.loads(text)["topic_id"])
    Tables(str(written)).create(topic_id, "orders")
    assert logstore("gc", "--url", written, "--trust-table", "orders").code == OK
    assert "version=0" in logstore("inspect", "--url", written, "registry").out


def test_a_topic_that_inherits_compaction_loses_no_record_by_age(
    logstore: Command, written: Path
) -> None:
    configure(written, {"retention.ms": "86400000"})
    publish(written, {"cleanup.policy": "compact"})
    assert logstore("gc", "--url", written, "--json").json["raised"] == 0
    publish(written, {"cleanup.policy": "compact,delete"})
    assert logstore("gc", "--url", written, "--json").json["raised"] > 0


def publish(log: Path, defaults: dict[str, str]) -> None:
    """What its broker says that topics inherit, from now on."""
    with sqlite3.connect(log / "registry.db") as rows:
        query = "SELECT sk, attributes FROM rows WHERE pk = 'chain'"
        for sk, text in rows.execute(query).fetchall():
            changed = json.dumps({**json.loads(text), "topic_defaults": json.dumps(defaults)})
            rows.execute(
                "UPDATE rows SET attributes = ? WHERE pk = 'chain' AND sk = ?", (changed, sk)
            )
    rows.close()


def configure(log: Path, configs: dict[str, str]) -> None:
    """The configs of every topic from now on."""
    with sqlite3.connect(log / "registry.db") as rows:
        query = "SELECT sk, attributes FROM rows WHERE pk = 'topic'"
        for sk, text in rows.execute(query).fetchall():
            changed = json.dumps({**json.loads(text), "configs": json.dumps(configs)})
            rows.execute(
                "UPDATE rows SET attributes = ? WHERE pk = 'topic' AND sk = ?", (changed, sk)
            )
    rows.close()


def drop_records(log: Path) -> None:
    """All of them are below log start from now on."""
    with sqlite3.connect(log / "registry.db") as rows:
        query = "SELECT pk, sk, attributes FROM rows WHERE pk LIKE 'partition/%'"
        for pk, sk, text in rows.execute(query).fetchall():
            changed = json.dumps({**json.loads(text), **raised_to(99)})
            rows.execute(
                "UPDATE rows SET attributes = ? WHERE pk = ? AND sk = ?", (changed, pk, sk)
            )
    rows.close()


@pytest.mark.parametrize("command", ["gc", "restore", "fsck"])
def test_where_there_is_no_log_none_is_made(
    logstore: Command, tmp_path: Path, command: str
) -> None:
    answer = logstore(command, "--url", tmp_path / "nothing")

    assert answer.code == FAILED
    assert "no log here" in answer.err
    assert not list(tmp_path.rglob("*.db"))


@pytest.mark.parametrize("given", ["orders", "00=orders", f"{'0' * 32}=", f"{'0' * 32}=a b"])
def test_a_topic_that_is_not_an_id_and_a_name_is_wrong_usage(
    logstore: Command, tmp_path: Path, given: str
) -> None:
    assert logstore("restore", "--url", tmp_path, "--topic", given).code == USAGE
