"""The kill schedule of `tests.scenarios.harness.sink_series` on Kafka's own sink for Spark.

Its tasks are threads of the driver's Java and its sink has no commit, so kinds of kills that ours
knows become:

    a named point of the commit   the driver, once rows of a batch that is not done are in the topic
    driver, worker                the driver, after a batch and a delay of chance
    leader                        the broker, which starts again
"""

import json
import random
import time
from collections import Counter
from pathlib import Path

from benchmarks.peers.kafka import kill_and_restart
from benchmarks.peers.server import Server
from tests.scenarios.harness.process import Process
from tests.scenarios.harness.query_driver import end_group, last_number
from tests.scenarios.harness.sink_series import (
    BATCH_ROWS,
    DEADLINE_S,
    DELAY_S_MAX,
    LEADER,
    SOURCE_PARTITIONS,
    TARGET_PARTITIONS,
    SinkOutcome,
    add_rows,
    judge,
    plan,
)
from tests.spark_source.sink.log import Topics
from tests.spark_source.sink.mortal import POINTS

DRIVER_MODULE = "benchmarks.spark.copy_job"
LOOK_S = 0.01


class KafkaTopics(Topics):
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    @property
    def bootstrap(self) -> str:
        return self._bootstrap


class KilledCopies:
    """A query from topic to topic of `server`; its checkpoint lies in `directory`."""

    def __init__(self, server: Server, directory: Path, rng: random.Random) -> None:
        self._server = server
        self._topics = KafkaTopics(server.bootstrap)
        self._checkpoint = directory / "checkpoint"
        self._rng = rng
        self._written: Counter[int] = Counter()
        self._driver: Process | None = None

    def run(self, kills: int) -> SinkOutcome:
        self._topics.create("source", SOURCE_PARTITIONS)
        self._topics.create("target", TARGET_PARTITIONS)
        kinds = plan(kills, self._rng)
        try:
            for kind in kinds:
                add_rows(self._server.bootstrap, self._rng, self._written)
                self._kill(kind)
            self._await_all()
        finally:
            self._end_driver()
        records = self._topics.records("target")
        values = [[one.value or b"" for one in records[number]] for number in sorted(records)]
        outcome = judge(self._written, values)
        outcome.kinds = Counter(kinds)
        return outcome

    def _kill(self, kind: str) -> None:
        if kind in POINTS:
            self._run_driver()
            self._await_rows_of_an_open_batch()
            self._end_driver()
            return
        driver = self._run_driver()
        driver.wait_for(r"^batch \d", after=len(driver.lines), deadline_s=DEADLINE_S)
        time.sleep(self._rng.uniform(0, DELAY_S_MAX))
        if kind == LEADER:
            kill_and_restart(self._server, 1)
        else:
            self._end_driver()

    def _run_driver(self) -> Process:
        if self._driver is None or not self._driver.is_alive:
            places = [self._server.bootstrap, "source", "target", str(self._checkpoint)]
            self._driver = Process([DRIVER_MODULE, *places, str(BATCH_ROWS)])
        return self._driver

    def _end_driver(self) -> None:
        if self._driver is not None:
            end_group(self._driver)
            self._driver = None

    def _await_rows_of_an_open_batch(self) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        batch, count = -1, 0
        while time.monotonic() < deadline_s:
            driver = self._run_driver()  # one whose broker was away too long has ended
            begun, done = (
                last_number(self._checkpoint / "offsets"),
                last_number(self._checkpoint / "commits"),
            )
            if begun <= done:
                time.sleep(LOOK_S)
            elif begun != batch:
                batch, count = begun, self._topics.record_count("target")
            elif self._topics.record_count("target") > count or not driver.is_alive:
                return
        raise AssertionError(f"no batch wrote rows in {DEADLINE_S:g} s")

    def _await_all(self) -> None:
        """Until a batch is done that ends at the end of the source."""
        deadline_s = time.monotonic() + DEADLINE_S
        wanted = sum(self._written.values())
        while (done := self._rows_done()) < wanted:
            assert time.monotonic() < deadline_s, f"rows done {done} of {wanted}"
            self._run_driver()
            time.sleep(0.5)

    def _rows_done(self) -> int:
        """Rows of the source that are in batches that are done."""
        number = last_number(self._checkpoint / "commits")
        if number < 0:
            return 0
        text = (self._checkpoint / "offsets" / f"{number}").read_text()
        ends = json.loads(text.splitlines()[-1])["source"]
        return sum(int(end) for end in ends.values())
