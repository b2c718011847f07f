"""One job, log to log by Spark; driver, workers and leaders are killed: each row once, in order.

python -m tests.scenarios.harness.sink_series --kills 100 --seed 0

Before each kill rows are added to the source, so that a batch is under way. A row says its key and
its number among the rows of that key. In the end the target must hold, for each key, all numbers
once and rising, as a Kafka consumer reads it and as Spark does.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Producer

from tests.scenarios.harness.brokers import START_S
from tests.scenarios.harness.query_driver import QueryDriver
from tests.spark_source.sink.log import ServedLog, served_log
from tests.spark_source.sink.mortal import POINTS

BROKERS, SOURCE_PARTITIONS, TARGET_PARTITIONS = 2, 2, 5
KEYS, ROWS_A_KILL, BATCH_ROWS = 23, 2_000, 300
DELAY_S_MAX = 2.0
DEADLINE_S = 600.0
DRIVER, WORKER, LEADER = "driver", "worker", "leader"
KINDS = (*POINTS, DRIVER, WORKER, LEADER, LEADER)


def plan(kills: int, rng: random.Random) -> list[str]:
    """Kinds of kills: each as often as the next, in an order of chance."""
    kinds = [KINDS[number % len(KINDS)] for number in range(kills)]
    rng.shuffle(kinds)
    return kinds


@dataclass(slots=True)
class SinkOutcome:
    rows: int
    kinds: Counter[str] = field(default_factory=Counter)
    doubled: int = 0
    lost: int = 0
    out_of_order: int = 0

    def report(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items()))
        return (
            f"rows {self.rows}: doubled {self.doubled}, lost {self.lost}, out of order "
            f"{self.out_of_order}; kills: {kinds}"
        )


class SinkSeries:
    """A log in `directory`, and one query."""

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self._directory = directory
        self._rng = rng
        self._written: Counter[int] = Counter()
        self._driver = self._driver_of(directory)

    @staticmethod
    def _driver_of(directory: Path) -> QueryDriver:
        checkpoint = directory / "checkpoint"
        url = str(directory / "log")
        arguments = [url, "source", "target", str(checkpoint), str(BATCH_ROWS)]
        return QueryDriver(["tests.spark_source.sink.driver", *arguments], checkpoint, directory)

    def run(self, kills: int) -> tuple[SinkOutcome, list[bytes]]:
        """Returns the outcome, and the values of the target as the consumer read them."""
        with served_log(self._directory, brokers=BROKERS) as log:
            log.create("source", SOURCE_PARTITIONS)
            log.create("target", TARGET_PARTITIONS)
            kinds = plan(kills, self._rng)
            try:
                for kind in kinds:
                    add_rows(log.bootstrap, self._rng, self._written)
                    self._kill(log, kind)
                self._await_all(log)
            finally:
                self._driver.end()
            records = log.records("target")
        values = [[one.value or b"" for one in records[number]] for number in sorted(records)]
        outcome = judge(self._written, values)
        outcome.kinds = Counter(kinds)
        return outcome, [value for some in values for value in some]

    def _kill(self, log: ServedLog, kind: str) -> None:
        if kind in POINTS:
            self._driver.run_mortal(kind).wait(deadline_s=DEADLINE_S)
            return
        driver = self._driver.run()
        done = len(driver.lines)
        driver.wait_for(r"^batch \d", after=done, deadline_s=DEADLINE_S)
        time.sleep(self._rng.uniform(0, DELAY_S_MAX))
        if kind == DRIVER:
            self._driver.end()
        elif kind == WORKER:
            self._driver.kill_a_worker(self._rng)
        else:
            number = self._rng.choice(sorted(log.brokers.members))
            log.brokers.process(number).kill()
            log.brokers.process(number).wait()
            log.brokers.start(number)

    def _await_all(self, log: ServedLog) -> None:
        """Until the target has as many records as the source, or the query ends."""
        deadline_s = time.monotonic() + DEADLINE_S
        wanted = sum(self._written.values())
        while log.record_count("target") < wanted:
            assert time.monotonic() < deadline_s, f"target has {log.record_count('target')} rows"
            self._driver.run()
            time.sleep(1)


def add_rows(bootstrap: str, rng: random.Random, written: Counter[int]) -> None:
    """Rows for one kill to the source; `written` counts them by key."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for _ in range(ROWS_A_KILL):
        key = rng.randrange(KEYS)
        producer.produce("source", key=b"%d" % key, value=b"%d/%d" % (key, written[key]))
        written[key] += 1
    assert not producer.flush(START_S)


def judge(written: Counter[int], partitions: Sequence[Sequence[bytes]]) -> SinkOutcome:
    """Compare the target, by partition in order, with the rows that were written to the source."""
    outcome = SinkOutcome(sum(written.values()))
    seen: dict[int, list[int]] = {}
    for values in partitions:
        for value in values:
            key, number = map(int, value.split(b"/"))
            seen.setdefault(key, []).append(number)
    for key, count in written.items():
        numbers = seen.get(key, [])
        outcome.lost += count - len(set(numbers))
        outcome.doubled += len(numbers) - len(set(numbers))
        first_ones = list(dict.fromkeys(numbers))
        outcome.out_of_order += sum(later < earlier for earlier, later in pairwise(first_ones))
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        series = SinkSeries(Path(directory), random.Random(given.seed))
        outcome, _ = series.run(given.kills)
    sys.stdout.write(f"seed {given.seed}: {outcome.report()}\n")
    return int(bool(outcome.doubled or outcome.lost or outcome.out_of_order))


if __name__ == "__main__":
    sys.exit(main())
