"""A stream that waits for records: what it asks of store and registry, and what it notices."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from logstore.formats.broker_row import BROKER
from logstore.formats.feed_row import CHANGE
from logstore.formats.partition_row import partition_pks
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TOPIC
from logstore.ports.registry import Row
from logstore.reading.direct.log_metadata import (
    FEED_INTERVAL_S,
    IDLE_S,
    ROWS_INTERVAL_S,
    LogMetadata,
)
from logstore.reading.planning.extents import Extents
from logstore.runners.step_runner import RegistryReads
from logstore.wiring.open import ReadableLog, open_readable
from spark_source.planning.choices import TopicChoice
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.progressing import batch, timed
from tests.spark_source.stepped_time import SteppedTime

T = TypeVar("T")

LONG_POLL_S = 0.5


class CountedReads:
    """A registry that counts the reads of each pk, and can have something happen after one."""

    def __init__(self, registry: RegistryReads) -> None:
        self._registry = registry
        self.counts: Counter[str] = Counter()
        self.after: dict[str, Callable[[], None]] = {}
        self.stale: set[str] = set()
        """Pks whose answers do not change any more."""
        self._rows: dict[str, Row | None] = {}
        self._parts: dict[str, Sequence[tuple[str, Row]]] = {}

    def get(self, pk: str, sk: str) -> Row | None:
        return self._counted(self._rows, pk, self._registry.get(pk, sk))

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        return self._counted(self._parts, pk, self._registry.query(pk, prefix))

    def _counted(self, answers: dict[str, T], pk: str, answer: T) -> T:
        self.counts[pk] += 1
        if pk in self.stale:
            answer = answers[pk]
        answers[pk] = answer
        if pk in self.after:
            self.after.pop(pk)()
        return answer


class Waiting:
    """Metadata of one stream, in stepped time."""

    def __init__(self, log: LogOnDisk, *topics: str) -> None:
        self.time = SteppedTime()
        self._log = log
        self.metadata = LogMetadata(
            str(log.directory),
            TopicChoice("subscribe", topics),
            clock=self.time,
            sleep_s=self.time.pass_s,
            open_log=self._open,
        )

    def _open(self, url: str, storage: Mapping[str, str]) -> ReadableLog:
        opened = open_readable(url, storage)
        assert opened.runner.registry is not None
        self.reads = CountedReads(opened.runner.registry)
        self.opened = replace(opened, runner=replace(opened.runner, registry=self.reads))
        return self.opened

    def until(self, seconds: float, is_update: Callable[[Extents], bool]) -> Extents:
        """Long polls, one after the other, as Spark asks for them."""
        end_s = self.time.monotonic_s() + seconds
        extents = self.metadata.extents()
        while self.time.monotonic_s() < end_s and not is_update(extents):
            extents = self.metadata.wait_for_update(is_update, LONG_POLL_S)
        return extents

    def idle(self, seconds: float) -> Counter[str]:
        """What it asks of the registry in this time, by pk; `gets` are reads of objects."""
        self.reads.counts.clear()
        before = self.opened.counts.requests().gets
        self.until(seconds, lambda extents: False)
        asked = self.reads.counts.copy()
        asked["gets"] = self.opened.counts.requests().gets - before
        return asked


def ends(extents: Extents, topic: str = "orders") -> dict[int, int]:
    return {number: one.end for number, one in extents[topic].partitions.items()}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogOnDisk]:
    with LogOnDisk(tmp_path / "log") as log:
        yield log


def test_an_idle_stream_reads_the_feed_and_the_brokers_and_nothing_else(log: LogOnDisk) -> None:
    log.create_topic("orders", 40)
    waiting = Waiting(log, "orders")
    waiting.metadata.look()
    waiting.idle(IDLE_S + FEED_INTERVAL_S)
    log.heartbeat()

    asked = waiting.idle(30.0)

    rows = sum(asked[pk] for pk in (*partition_pks(), TOPIC))
    assert rows <= 17, "all rows once at most, in less than a minute"
    assert asked[CHANGE] <= 30 / FEED_INTERVAL_S + 1
    assert asked[BROKER] <= 31
    assert asked["gets"] <= 2, "after rows were read, one look at the chain"


def test_records_after_a_long_idle_time_are_noticed_by_the_brokers_row(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    waiting = Waiting(log, "orders")
    waiting.metadata.look()
    waiting.idle(IDLE_S + FEED_INTERVAL_S)

    log.append("orders", 0, batch(3))
    log.heartbeat()

    assert ends(waiting.until(2.0, lambda now: ends(now) == {0: 3})) == {0: 3}


def test_rows_are_read_again_for_a_wanted_topic_and_for_no_other(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    waiting = Waiting(log, "orders")
    waiting.metadata.look()
    waiting.idle(2 * FEED_INTERVAL_S)
    log.create_topic("returns", 1)
    others = waiting.idle(2 * FEED_INTERVAL_S)
    log.create_partitions("orders", 2)
    grown = waiting.until(2 * FEED_INTERVAL_S, lambda now: len(ends(now)) == 2)

    assert others[TOPIC] == 0
    assert ends(grown) == {0: 0, 1: 0}


def test_a_change_while_rows_are_read_is_not_missed(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    waiting = Waiting(log, "orders")
    waiting.metadata.fates([])  # opens the log
    waiting.reads.after[TOPIC] = lambda: log.create_partitions("orders", 2)
    assert len(ends(waiting.metadata.look())) == 1

    grown = waiting.until(2 * FEED_INTERVAL_S, lambda now: len(ends(now)) == 2)

    assert len(ends(grown)) == 2


def test_a_change_that_the_feed_lacks_is_noticed_within_a_minute(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    waiting = Waiting(log, "orders")
    waiting.metadata.look()
    waiting.reads.stale.add(CHANGE)
    log.create_partitions("orders", 2)

    assert len(ends(waiting.until(2 * FEED_INTERVAL_S, lambda now: len(ends(now)) == 2))) == 1
    assert len(ends(waiting.until(ROWS_INTERVAL_S, lambda now: len(ends(now)) == 2))) == 2


def test_times_of_many_partitions_are_looked_up_like_one_by_one(log: LogOnDisk) -> None:
    topic_id = log.create_topic("orders", 30)
    log.append_all(
        [("orders", n, timed(*range(n, n + 5))) for n in range(30) for _ in range(n % 3)]
    )
    waiting = Waiting(log, "orders")
    partitions = waiting.metadata.look()["orders"].partitions
    times = {TopicPartition(topic_id, n): 12 for n in partitions}
    together = waiting.metadata.offsets_for_times(times)

    expected = {key: waiting.metadata.offset_for_time(topic_id, key.partition, 12) for key in times}
    assert together == expected
    assert together[TopicPartition(topic_id, 10)] == 2
    assert together[TopicPartition(topic_id, 1)] is None
