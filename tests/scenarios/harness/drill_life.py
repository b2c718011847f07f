"""The life of a log before a disaster: what was acknowledged, and copies from every moment of it.

    alone      topic `cut` has records, in a chain of its own    (with trimming, without a table)
    first      topics `kept`, `cut` and `gone` are there, with records
    second     another broker served, and wrote more; what the chain of `alone` holds is deleted
    moved      what was committed lies in tables             (with a table)
    published  trim points are published                     (with trimming)
    trimmed    what is below them was deleted
    younger    a third broker serves, `gone` is deleted, the oldest records of `cut` are deleted
    last       the topic `young` was created and written, all others were written; then kill -9

A copy is the registry alone, as a backup makes it, also while brokers write. Of the objects there
are the last ones, and those of before the trimming.
"""

import shutil
import signal
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.scenarios.harness.brokers import START_S, bootstrap_of, create_topic, start_broker, stop
from tests.scenarios.harness.process import Process

PARTITIONS = 2
ROUND = 60
"""Records of a topic at a time; a flush between two halves makes several segments."""
KEPT_FOR_EVER = {"retention.ms": "-1"}
REGISTRY = "registry.db"
COMMAND_S = 90.0
PROGRAM = "tests.scenarios.harness.short_watch"

Place = tuple[str, int]


@dataclass(slots=True)
class Acknowledged:
    """Values by offset, of each partition; and from where on they must still be there."""

    values: dict[Place, dict[int, bytes]] = field(default_factory=dict)
    starts: dict[Place, int] = field(default_factory=dict)

    def note(self, error: KafkaError | None, message: Message) -> None:
        topic, number, offset = message.topic(), message.partition(), message.offset()
        assert error is None, error
        assert topic is not None
        assert number is not None
        assert offset is not None
        self.values.setdefault((topic, number), {})[offset] = message.value() or b""


@dataclass(slots=True)
class Life:
    """`log` is as the kill left it, `before_trim` holds objects that trimming deleted."""

    log: Path
    before_trim: Path
    acknowledged: Acknowledged
    moments: dict[str, Path]
    deleted: Sequence[str] = ()
    """Names of objects, relative to the log, that trimming deleted."""


def live(directory: Path, *, with_table: bool, with_trim: bool) -> Life:
    """A life from its beginning to the kill."""
    log = directory / "log"
    life = Life(log, directory / "before-trim", Acknowledged(), {})
    has_chain_that_goes = with_trim and not with_table
    if has_chain_that_goes:
        with start_broker(str(log)) as broker:
            create_topic(bootstrap_of(broker), "cut", PARTITIONS, KEPT_FOR_EVER)
            _write(bootstrap_of(broker), "cut", "alone", life.acknowledged)
            _copy_registry(life, "alone", directory)
            stop(broker)
    with start_broker(str(log)) as broker:
        bootstrap = bootstrap_of(broker)
        for topic in ("kept", "cut", "gone"):
            if topic != "cut" or not has_chain_that_goes:
                create_topic(bootstrap, topic, PARTITIONS, KEPT_FOR_EVER)
            _write(bootstrap, topic, "first", life.acknowledged)
        _copy_registry(life, "first", directory)
        stop(broker)
    with start_broker(str(log)) as broker:
        for topic in ("kept", "cut"):
            _write(bootstrap_of(broker), topic, "second", life.acknowledged)
        if has_chain_that_goes:
            _delete_records(bootstrap_of(broker), life.acknowledged, ROUND // PARTITIONS)
        _copy_registry(life, "second", directory)
        stop(broker)
    if with_table:
        logstore("compact", log, "--now")
        _copy_registry(life, "moved", directory)
    if with_trim:
        shutil.copytree(log, life.before_trim)
        logstore("gc", log, "--grace-minutes", "0")
        _copy_registry(life, "published", directory)
        logstore("gc", log, "--grace-minutes", "0")
        life.deleted = sorted(objects_of(life.before_trim) - objects_of(log))
        _copy_registry(life, "trimmed", directory)
    with start_broker(str(log)) as broker:
        bootstrap = bootstrap_of(broker)
        _delete(bootstrap, life.acknowledged)
        _copy_registry(life, "younger", directory)
        create_topic(bootstrap, "young", PARTITIONS, KEPT_FOR_EVER)
        for topic in ("young", "kept", "cut"):
            _write(bootstrap, topic, "third", life.acknowledged)
        _copy_registry(life, "last", directory)
        broker.send(signal.SIGKILL)
        broker.wait()
    return life


def logstore(command: str, log: Path, *more: str) -> tuple[int, list[str]]:
    """The command's exit code, and what it said. It never ends with a traceback.

    No broker runs beside it: `restore` does not watch for one as long as an operator's does.
    """
    with Process((PROGRAM, command, "--url", str(log), *more)) as process:
        code = process.wait(deadline_s=COMMAND_S)
    assert not any("Traceback" in line for line in process.lines), process.lines
    return code, process.lines


def objects_of(log: Path) -> set[str]:
    """What is stored, by name; the registry and what processes need beside it is not."""
    folders = ("chains", "checkpoints", "tables", "topics")
    return {
        str(path.relative_to(log))
        for folder in folders
        for path in (log / folder).rglob("*")
        if path.is_file()
    }


def _write(bootstrap: str, topic: str, when: str, acknowledged: Acknowledged) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
    )
    for half in range(2):
        for number in range(ROUND // 2):
            producer.produce(
                topic,
                f"{topic} {when} {half} {number}".encode(),
                partition=number % PARTITIONS,
                on_delivery=acknowledged.note,
            )
        assert producer.flush(START_S) == 0


def _delete(bootstrap: str, acknowledged: Acknowledged) -> None:
    """The topic `gone`, and half of what `cut` holds."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.delete_topics(["gone"], request_timeout=START_S)["gone"].result(START_S)
    for number in range(PARTITIONS):
        del acknowledged.values["gone", number]
    _delete_records(bootstrap, acknowledged, len(acknowledged.values["cut", 0]) // 2)


def _delete_records(bootstrap: str, acknowledged: Acknowledged, start: int) -> None:
    """Those of `cut` below `start`, in each partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(PARTITIONS):
        request = [TopicPartition("cut", number, start)]
        (deleted,) = admin.delete_records(request, request_timeout=START_S).values()
        deleted.result(START_S)
        acknowledged.starts["cut", number] = start


def _copy_registry(life: Life, moment: str, directory: Path) -> None:
    copy = directory / f"registry-{moment}.db"
    with (
        closing(sqlite3.connect(life.log / REGISTRY)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
    life.moments[moment] = copy
