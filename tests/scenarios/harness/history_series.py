"""Rounds of records while compaction, OPTIMIZE and trimming run in a loop; every reader must agree.

    python -m tests.scenarios.harness.history_series --megabytes 2048 [--rounds 8] [--kills 20]
        [--partitions 8] [--seed N] [--spark] [--directory DIR]

A round sends its share of records, all acknowledged, and adds them to the digest of what was sent.
Then a Kafka consumer from offset 0 (with --spark also the source and the union view) must see just
that, whatever the loop is doing; and the broker starts again. Each round also plans a Spark read of
many tasks (with --spark also by Spark itself), while the loop is held, so that what was just sent
is planned as segments. It is read in this round, in the next one and again at the end, until its
segments have moved and gone, and must give what was there when it was planned. With --kills the
loop is killed at random moments and begun again. At the end all is moved into the table, and
delta-rs and DuckDB (with --spark Delta's own reader too) must see the same.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker, stop
from tests.scenarios.harness.digests import Digest
from tests.scenarios.harness.generated import Made, records
from tests.scenarios.harness.history_readers import by_consumer, by_delta_rs, by_duckdb
from tests.scenarios.harness.maintenance import KeptLog
from tests.scenarios.harness.maintenance_loop import Kept, MaintenanceLoop
from tests.scenarios.harness.planned_reads import Gone, planned

TOPIC = "history"
RECORD_BYTES = 900  # about
FLUSH_S = 120.0
ATTEMPTS = 10
GONE_S = 60.0
KEPT_FOR_EVER = {"retention.ms": "-1"}
"""The records' timestamps are years old."""


@dataclass(slots=True)
class Sent:
    """What was acknowledged, and where."""

    digest: Digest = field(default_factory=Digest)
    ends: dict[int, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    size_bytes: int = 0

    def note(self, made: Made) -> "Callable[[KafkaError | None, Message], None]":
        def noted(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None or offset is None:
                self.failed.append(str(error))
                return
            self.digest.add(made.partition, offset, made.timestamp_ms, *made[2:])
            self.ends[made.partition] = max(self.ends.get(made.partition, 0), offset + 1)

        return noted


@dataclass(slots=True)
class Found:
    """What the series came to. `faults` has a line for every reader that saw something else."""

    records: int = 0
    size_bytes: int = 0
    reads: int = 0
    kept: Kept = field(default_factory=Kept)
    planned_reads: int = 0
    found_gone: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def report(self) -> Iterator[str]:
        yield (
            f"records        {self.records:,} ({self.size_bytes / 1e6:,.0f} MB) in "
            f"{self.seconds:,.0f} s, read {self.reads} times"
        )
        yield f"beside them    {self.kept.report()}"
        yield (
            f"planned        {self.planned_reads} reads of earlier plans; tasks found segments or "
            f"files gone {self.found_gone} times"
        )
        yield from self.faults or ["every reader saw every record once"]


Planners = Callable[[str], Mapping[str, Callable[[], Callable[[], Digest]]]]
"""The log's URL → by name, what plans a read now, and gives what reads by that plan later."""

SparkReaders = Callable[[str], Mapping[str, Callable[[], Digest]]]
"""The log's URL → readers by name."""


def run(
    directory: Path,
    *,
    megabytes: float,
    rounds: int,
    partitions: int = 8,
    kills: int = 0,
    seed: int = 0,
    live_readers: SparkReaders = lambda url: {},
    table_readers: SparkReaders = lambda url: {},
    planners: Planners = lambda url: {},
) -> Found:
    began_s = time.monotonic()
    log = directory / "log"
    sent, found = Sent(), Found()
    made = records(seed, partitions)
    count = int(megabytes * 1e6 / RECORD_BYTES / rounds)
    with ExitStack() as stack:
        broker = stack.enter_context(start_broker(str(log)))
        bootstrap = bootstrap_of(broker)
        create_topic(bootstrap, TOPIC, partitions, KEPT_FOR_EVER)
        loop = stack.enter_context(
            MaintenanceLoop(KeptLog(str(log)), random.Random(seed), gate=directory / "gate")
        )
        plans = _Plans(str(log), planners(str(log)))
        for number in range(rounds):
            with loop.held():
                send(bootstrap, islice(made, count), sent)
                plans.plan(number, sent.digest)
            loop.kill(kills * (number + 1) // rounds - loop.kept.kills)
            readers: dict[str, Callable[[], Digest]] = {
                "a Kafka consumer": partial(by_consumer, bootstrap, TOPIC, sent.ends),
                **live_readers(str(log)),
            }
            found.faults += list(compare(readers, sent.digest, f"round {number}"))
            found.reads += len(readers)
            found.faults += plans.read(f"round {number}", newest=2)
            stop(broker)  # it leaves a checkpoint, up to which there may be something to trim
            broker = stack.enter_context(start_broker(str(log)))
            bootstrap = bootstrap_of(broker)
        loop.end()
        final_compaction(str(log))
        table = one_table(log)
        readers = {
            "delta-rs": lambda: by_delta_rs(table),
            "DuckDB": lambda: by_duckdb(table),
            "a Kafka consumer": partial(by_consumer, bootstrap, TOPIC, sent.ends),
            **live_readers(str(log)),
            **table_readers(str(log)),
        }
        found.faults += list(compare(readers, sent.digest, "at the end"))
        found.faults += plans.read_until_gone(str(log), newest=rounds)
        found.reads += len(readers)
        stop(broker)
    found.kept = loop.kept
    found.faults += sent.failed[:3]
    found.records, found.size_bytes = sent.digest.records, sent.size_bytes
    found.planned_reads, found.found_gone = plans.read_count, plans.gone.count
    found.seconds = time.monotonic() - began_s
    return found


@dataclass(frozen=True, slots=True)
class _Plan:
    """Reads that were planned in a round, and what had been sent by then."""

    round: int
    sent: Digest
    reads: Mapping[str, Callable[[], Digest]]


class _Plans:
    """Reads that are planned in one round, and read in later ones."""

    def __init__(self, url: str, more: Mapping[str, Callable[[], Callable[[], Digest]]]) -> None:
        self.gone = Gone()
        self.read_count = 0
        self._planners = {"tasks of a plan": lambda: planned(url, TOPIC, self.gone), **more}
        self._plans: list[_Plan] = []

    def plan(self, number: int, sent: Digest) -> None:
        reads = {name: plan() for name, plan in self._planners.items()}
        self._plans.append(_Plan(number, sent.copy(), reads))

    def read(self, when: str, *, newest: int) -> list[str]:
        """By the newest plans, once more; a line for each that sees something else."""
        faults: list[str] = []
        for plan in self._plans[-newest:]:
            self.read_count += len(plan.reads)
            faults += compare(plan.reads, plan.sent, f"{when}, planned in round {plan.round}")
        return faults

    def read_until_gone(self, url: str, *, newest: int) -> list[str]:
        """Trims and reads until a task found that its segments had gone, or the deadline."""
        deadline_s = time.monotonic() + GONE_S
        faults = self.read("at the end", newest=newest)
        while not faults and not self.gone.count and time.monotonic() < deadline_s:
            KeptLog(url).trim()
            faults = self.read("at the end", newest=newest)
        return faults


def send(bootstrap: str, made: Iterator[Made], sent: Sent) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 32_768,
            "compression.type": "lz4",
            "log_level": 0,
        }
    )
    for one in made:
        sent.size_bytes += len(one.value or b"") + len(one.key or b"")
        while True:
            try:
                producer.produce(
                    TOPIC,
                    one.value,
                    one.key,
                    one.partition,
                    on_delivery=sent.note(one),
                    timestamp=one.timestamp_ms,
                    headers=list(one.headers),
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(FLUSH_S) == 0, "not all was acknowledged"


def compare(readers: Mapping[str, Callable[[], Digest]], sent: Digest, when: str) -> Iterator[str]:
    for name, read in readers.items():
        difference = read().differs_from(sent)
        if difference is not None:
            yield f"{when}: {name} saw something else: {difference}"


def final_compaction(url: str) -> None:
    """Until nothing is left to be moved: a run that was killed may hold its lease for a while."""
    said = ""
    for _ in range(ATTEMPTS):
        said = KeptLog(url).compact()
        if said == "compacted rows=0":
            return
        time.sleep(1.0)
    raise AssertionError(f"compaction does not come to an end: {said}")


def one_table(log: Path) -> Path:
    (table,) = (log / "tables").iterdir()
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=2048.0)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--spark", action="store_true", help="let Spark read too")
    parser.add_argument("--directory", type=Path, help="where to leave the log")
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = options.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        more: dict[str, Any] = {}
        if options.spark:
            from tests.scenarios.harness.history_spark import (
                live_readers,
                planners,
                spark,
                table_readers,
            )

            session = stack.enter_context(spark())
            more = {
                "live_readers": lambda url: live_readers(session, url, TOPIC),
                "table_readers": lambda url: table_readers(session, url, TOPIC),
                "planners": lambda url: planners(session, url, TOPIC),
            }
        found = run(
            directory,
            megabytes=options.megabytes,
            rounds=options.rounds,
            partitions=options.partitions,
            kills=options.kills,
            seed=options.seed,
            **more,
        )
    for line in found.report():
        print(line)
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
