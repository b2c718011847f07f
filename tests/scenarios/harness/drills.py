"""Disaster drills: a registry lost or put back from any moment, objects that came back or went.

    python -m tests.scenarios.harness.drills [--spark] [--kind KIND] [--only TEXT] [--directory DIR]

Each drill takes the log as a kill -9 left it (`drill_life`), harms it, lets `gc`, `compact` and a
broker do what they like before anybody understands what happened, and then does what the
documentation says: `logstore restore`, with every broker stopped. Afterwards a Kafka consumer must
read every acknowledged record at its offset, `fsck` must be content, and still be so after another
compaction and trimming; DuckDB (with --spark Spark too) must see the same. Where objects went away
(`away`) they are put back in place of a restore: whatever ran in between deleted nothing on top.
"""

import argparse
import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from tests.scenarios.harness.brokers import LISTENING, START_S, bootstrap_of, start_broker, stop
from tests.scenarios.harness.drill_life import (
    REGISTRY,
    Acknowledged,
    Life,
    Place,
    live,
    logstore,
)

LOST = "lost"
NEWEST = "last"
UNTOUCHED = "untouched"
AWAY = ("tables", "checkpoints", "chains", "topics")
SILENCE_S = 30.0

Values = dict[Place, dict[int, bytes]]
Reader = Callable[[Path, Acknowledged], Values]


@dataclass(frozen=True, slots=True)
class Drill:
    """`registry` is a moment of the life, `LOST` or `UNTOUCHED`; `half`: half of its rows went."""

    registry: str
    half: bool = False
    half_deleted: bool = False
    """A round of deletes died in its middle: half of what it deleted is there."""
    stray: bool = False
    """One segment below a trim point came back."""
    away: str = ""
    """Everything below this prefix is gone."""

    @property
    def name(self) -> str:
        more = [name for name in ("half", "half_deleted", "stray") if getattr(self, name)]
        more += [f"away={self.away}"] if self.away else []
        return " ".join([f"registry={self.registry}", *more])


@dataclass(slots=True)
class Drilled:
    """What the drills came to."""

    count: int = 0
    seen_broken: int = 0
    """Drills after which fsck said so, before the restore."""
    refused_starts: int = 0
    faults: list[str] = field(default_factory=list)

    def report(self) -> Iterator[str]:
        yield (
            f"drills         {self.count}; fsck called {self.seen_broken} broken, brokers refused "
            f"to start in {self.refused_starts}"
        )
        yield from self.faults or ["every acknowledged record was read after each restore"]


def every_drill(life: Life) -> Iterator[Drill]:
    for moment in (LOST, *life.moments):
        yield Drill(moment)
        if life.deleted and moment not in ("alone", "first", "second"):
            yield Drill(moment, half_deleted=True)
            yield Drill(moment, stray=True)
    yield Drill("second", half=True)
    yield Drill(NEWEST, half=True)
    for prefix in AWAY:
        if (life.log / prefix).is_dir():
            yield Drill(UNTOUCHED, away=prefix)


def run(life: Life, drill: Drill, log: Path, found: Drilled, readers: Mapping[str, Reader]) -> None:
    """One drill on a copy of the log at `log`; faults are added to `found`."""
    shutil.copytree(life.log, log)
    _harm(life, drill, log)
    found.count += 1
    faults: list[str] = []

    code, _ = logstore("fsck", log)
    found.seen_broken += code != 0
    if drill.registry != NEWEST and code == 0:
        faults.append("fsck finds nothing wrong")
    _let_everything_happen(log, found)
    code, said = (0, []) if drill.away else logstore("restore", log)
    if drill.away:
        shutil.copytree(life.log / drill.away, log / drill.away, dirs_exist_ok=True)
    if code:
        faults.append(f"restore fails: {said[-1:]}")
    else:
        faults += _judge(life, log, readers)
    found.faults += [f"{drill.name}: {fault}" for fault in faults]


def _harm(life: Life, drill: Drill, log: Path) -> None:
    rng = random.Random(drill.name)
    if drill.away:
        shutil.rmtree(log / drill.away)
    for path in () if drill.registry == UNTOUCHED else log.glob(f"{REGISTRY}*"):
        path.unlink()
    if drill.registry in life.moments:
        shutil.copy(life.moments[drill.registry], log / REGISTRY)
    if drill.half:
        with closing(sqlite3.connect(log / REGISTRY)) as rows:
            places = rows.execute("SELECT pk, sk FROM rows WHERE pk <> 'cluster'").fetchall()
            lost = rng.sample(places, len(places) // 2)
            rows.executemany("DELETE FROM rows WHERE pk = ? AND sk = ?", lost)
            rows.commit()
    back: list[str] = []
    if drill.half_deleted:
        back = rng.sample(life.deleted, (len(life.deleted) + 1) // 2)
    elif drill.stray:
        back = [rng.choice([name for name in life.deleted if name.startswith("chains/")])]
    for name in back:
        (log / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(life.before_trim / name, log / name)


def _let_everything_happen(log: Path, found: Drilled) -> None:
    """What a scheduler and a service manager do before anybody has read an alarm."""
    for _ in range(2):
        logstore("gc", log, "--grace-minutes", "0")
        logstore("compact", log, "--now")
    with start_broker(str(log)) as broker:
        if broker.wait_for_line_or_end(LISTENING, deadline_s=START_S) is None:
            found.refused_starts += 1
        else:
            stop(broker)


def _judge(life: Life, log: Path, readers: Mapping[str, Reader]) -> Iterator[str]:
    yield from _judge_once(life, log, readers, "after the restore")
    for _ in range(2):
        logstore("compact", log, "--now")
        logstore("gc", log, "--grace-minutes", "0")
    yield from _judge_once(life, log, readers, "after another compaction and trimming")


def _judge_once(life: Life, log: Path, readers: Mapping[str, Reader], when: str) -> Iterator[str]:
    wanted = life.acknowledged
    code, said = logstore("fsck", log, "--data")
    if code:
        yield f"fsck {when}: {said[-3:]}"
    with start_broker(str(log)) as broker:
        for place, problem in _differences(by_consumer(bootstrap_of(broker)), wanted):
            yield f"a consumer {when}: {place}: {problem}"
        stop(broker)
    for name, read in readers.items():
        for place, problem in _differences(read(log, wanted), wanted):
            yield f"{name} {when}: {place}: {problem}"
    yield from _doubts_of_tables(log, wanted, when)


def _differences(found: Values, wanted: Acknowledged) -> Iterator[tuple[Place, str]]:
    for place, values in wanted.values.items():
        there, start = found.get(place, {}), wanted.starts.get(place, 0)
        lost = [offset for offset in values if offset >= start and offset not in there]
        wrong = [offset for offset, value in there.items() if values.get(offset) != value]
        if lost:
            yield place, f"{len(lost)} records are lost, from offset {min(lost)} on"
        if wrong:
            yield place, f"{len(wrong)} records are not what was sent, from offset {min(wrong)} on"
    for place in found.keys() - wanted.values.keys():
        yield place, "was deleted, and is back"


def by_consumer(bootstrap: str) -> Values:
    """All topics from their beginning; an offset that comes twice is a fault of its own."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "drill",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    try:
        topics = consumer.list_topics(timeout=START_S).topics
        places = [
            (name, number)
            for name, topic in topics.items()
            for number in (() if name.startswith("__") else topic.partitions)
        ]
        return _all_by_consumer(consumer, places)
    finally:
        consumer.close()


def _all_by_consumer(consumer: Consumer, places: Sequence[Place]) -> Values:
    """Together: a consumer that is given one after the other waits a second for each."""
    values: Values = {place: {} for place in places}
    begins: list[TopicPartition] = []
    unread: dict[Place, int] = {}
    for name, number in places:
        asked = TopicPartition(name, number)
        low, high = consumer.get_watermark_offsets(asked, timeout=START_S)
        if low < high:
            begins.append(TopicPartition(name, number, low))
            unread[name, number] = high
    consumer.assign(begins)
    while unread:
        message = consumer.poll(SILENCE_S)
        assert message is not None, f"nothing came: {unread}"
        assert message.error() is None, message.error()
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        place = topic, partition
        assert offset not in values[place], f"twice: {place} offset={offset}"
        values[place][offset] = message.value() or b""
        if offset + 1 == unread.get(place):
            del unread[place]
    return values


def _doubts_of_tables(log: Path, wanted: Acknowledged, when: str) -> Iterator[str]:
    """What DuckDB finds in a topic's table was sent, and is there once."""
    folder = log / "tables"
    for path in folder.iterdir() if folder.is_dir() else ():
        table = DeltaTable(path)
        connection = duckdb.connect()
        connection.register("history", table.to_pyarrow_dataset())
        query = 'SELECT "partition", "offset", value FROM history'
        rows = connection.sql(query).fetchall()
        places = [(number, offset) for number, offset, _ in rows]
        if len(set(places)) != len(places):
            yield f"DuckDB {when}: {len(places) - len(set(places))} rows are there twice"
        topic = table.metadata().name
        for number, offset, value in rows:
            sent = wanted.values.get((topic, number), {}) if topic else {}
            if sent and sent.get(offset) != value:
                yield f"DuckDB {when}: {topic} {number} {offset} is not what was sent"
                break


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spark", action="store_true", help="let Spark read too")
    parser.add_argument("--kind", choices=KINDS, help="lives of this kind alone")
    parser.add_argument("--only", default="", help="drills whose name contains this")
    parser.add_argument("--directory", type=Path, help="where to leave the logs")
    options = parser.parse_args()
    found = Drilled()
    with ExitStack() as stack:
        directory = options.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        readers: Mapping[str, Reader] = {}
        if options.spark:
            from tests.scenarios.harness.drill_spark import spark_readers

            readers = stack.enter_context(spark_readers())
        for kind, (with_table, with_trim) in KINDS.items():
            if options.kind not in (None, kind):
                continue
            life = live(directory / kind, with_table=with_table, with_trim=with_trim)
            for number, drill in enumerate(every_drill(life)):
                name = f"{kind}: {drill.name}"
                if options.only not in name:
                    continue
                print(name, flush=True)
                before = len(found.faults)
                run(life, drill, directory / kind / f"drill-{number}", found, readers)
                for fault in found.faults[before:]:
                    print(f"  {fault}", flush=True)
    for line in found.report():
        print(line)
    return 1 if found.faults or not found.count else 0


KINDS = {
    "segments": (False, False),
    "table": (True, False),
    "trimming": (False, True),
    "table and trimming": (True, True),
}
"""Whether a life moves records into a table, and trims its chains."""


if __name__ == "__main__":
    sys.exit(main())
