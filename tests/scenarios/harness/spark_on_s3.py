"""Spark drivers killed while their checkpoints are in a bucket: each record once in the sink.

    python -m tests.scenarios.harness.spark_on_s3 [--kills 8] [--seed N] [--managers rename …]

The log is in a bucket of versitygw with its rows in DynamoDB Local; a producer writes all the time.
Drivers die, in turn by chance, when the offsets of a batch are in the checkpoint, when its rows are
in the sink, and when Spark has called it done. Then one driver is refused the file that is to hold
the next batch's offsets: it must end, and the next go on. At the end the sink holds what was
acknowledged, each record once.

Exit code 1 if a record is lost or doubled, or if a driver goes on without the offsets it could not
store. `--managers abortable` shows that with the manager of spark-hadoop-cloud it does.
"""

import argparse
import os
import random
import re
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet
from confluent_kafka import KafkaError, Message, Producer

from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker, stop
from tests.scenarios.harness.bucket import Bucket, Weather, bucket, why_no_bucket
from tests.scenarios.harness.process import Process
from tests.scenarios.harness.spark_driver import MANAGERS, TOPIC
from tests.servers.proxied import Proxied, proxied
from tests.servers.s3a import why_no_s3a

PARTITIONS = 4
FLUSH_S = 60.0
LINE_S, DRAIN_S = 420.0, 900.0
RECORDS_PER_WAVE, WAVE_S = 10, 0.1
BATCHES_PER_LIFE_MAX = 3
MOMENTS = ("offsets", "written", "committed")
REFUSED = "403 methods=PUT path=/offsets/"
REQUESTS = ("PUT", "GET", "HEAD", "DELETE", "POST")


@dataclass(slots=True)
class Found:
    """What one series came to."""

    manager: str
    kills: list[str] = field(default_factory=list)
    batches: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    ended_when_refused: bool = False
    stuck: str = ""
    """Why the query could not go on after that."""
    acknowledged: int = 0
    lost: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        is_whole = self.acknowledged > 0 and not self.lost and not self.doubled
        return is_whole and self.ended_when_refused and not self.stuck

    def report(self) -> Iterator[str]:
        reported = Counter(self.kills)
        yield f"{self.manager}: {len(self.kills)} drivers killed, after {dict(reported)}"
        each = {kind: round(n / max(1, self.batches), 1) for kind, n in self.requests.items()}
        yield f"  {self.batches} batches; requests of the checkpoint, per batch: {each}"
        ending = "ended" if self.ended_when_refused else "WENT ON without it"
        yield f"  a driver that was refused an offsets file {ending}"
        yield f"  the next driver {self.stuck or 'went on where that one was'}"
        yield (
            f"  {self.acknowledged} records acknowledged, "
            f"{len(self.lost)} missing {self.lost[:5]}, "
            f"{len(self.doubled)} doubled {self.doubled[:5]}"
        )


class Load:
    """A producer in a thread: numbers, as fast as a wave each tenth of a second."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[int] = []
        self._over = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._over.wait(WAVE_S):
            for number in range(number, number + RECORDS_PER_WAVE):  # noqa: B020 - goes on from it
                self._producer.produce(
                    TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._report
                )
            number += 1
            self._producer.poll(0)
        self._producer.flush(FLUSH_S)

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(int(message.value() or b""))


class Series:
    def __init__(self, directory: Path, place: Bucket, s3a: Proxied, manager: str) -> None:
        self._place, self._s3a, self._manager = place, s3a, manager
        self._output = directory / "sink"
        self._output.mkdir()
        self.found = Found(manager)

    def run(self, kills: int, rng: random.Random) -> Found:
        with start_broker(
            self._place.place.url,
            more=self._place.place.broker,
            environment=self._place.place.environment,
        ) as broker:
            bootstrap = bootstrap_of(broker)
            create_topic(bootstrap, TOPIC, PARTITIONS)
            with Load(bootstrap) as load:
                for _ in range(kills):
                    self._kill_one(rng.choice(MOMENTS), rng.randint(1, BATCHES_PER_LIFE_MAX))
                self.found.requests = _requests(self._s3a)
                self._refuse_one()
                load.end()
            self._drain()
            self._judge(load.acknowledged)
            stop(broker)
        return self.found

    def _kill_one(self, moment: str, batches: int) -> None:
        with self._driver() as driver:
            first = int(driver.wait_for(r"^offsets (\d+)$", deadline_s=LINE_S)[1])
            driver.wait_for(
                rf"^{moment} (\d+)$",
                where=lambda line: int(line[1]) >= first + batches - 1,
                deadline_s=LINE_S,
            )
            os.killpg(driver.pid, signal.SIGKILL)  # its Java too
            driver.wait()
            self.found.kills.append(moment)
            self.found.batches += sum(line.startswith("offsets") for line in driver.lines)

    def _refuse_one(self) -> None:
        """From its second batch on, no file of offsets can be stored."""
        with self._driver() as driver:
            driver.wait_for(r"^committed", deadline_s=LINE_S)
            seen = len(driver.lines)
            self._s3a.play(REFUSED)
            # One batch may have stored its offsets just before, and be said to be done after.
            done = int(driver.wait_for(r"^committed (\d+)$", deadline_s=LINE_S)[1])
            went_on = driver.wait_for_line_or_end(
                r"^offsets (\d+)$",
                where=lambda line: int(line[1]) > done + 3,
                after=seen,
                deadline_s=LINE_S,
            )
            self.found.ended_when_refused = went_on is None
            if driver.is_alive:
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
        self._s3a.play()

    def _drain(self) -> None:
        with self._driver("--drain") as driver:
            if driver.wait(deadline_s=DRAIN_S):
                said = re.search(r"\[[A-Z_]+\] [^\n]*$", "\n".join(driver.lines), re.MULTILINE)
                self.found.stuck = said[0] if said else "\n".join(driver.lines[-5:])

    def _driver(self, *more: str) -> Process:
        place = self._place.place
        log, checkpoint = place.url, place.url.replace("s3://", "s3a://") + "-spark/checkpoint"
        arguments = ["tests.scenarios.harness.spark_driver", log, checkpoint, str(self._output)]
        arguments += ["--log-endpoint", place.judge[1], "--s3a-endpoint", self._s3a.endpoint]
        return Process([*arguments, "--manager", self._manager, *more])

    def _judge(self, acknowledged: Sequence[int]) -> None:
        stored = Counter(
            int(value)
            for batch in self._output.iterdir()
            if not batch.name.startswith(".")
            for value in pyarrow.parquet.read_table(batch, columns=["value"])["value"].to_pylist()
        )
        self.found.acknowledged = len(acknowledged)
        self.found.lost = sorted(set(acknowledged) - set(stored))
        self.found.doubled = sorted(number for number, count in stored.items() if count > 1)


def run(manager: str, kills: int, seed: int) -> Found:
    with (
        _directory() as directory,
        bucket(directory, Weather(objects=(), rows=(), latency=0)) as place,
        proxied(place.place.judge[1]) as s3a,
    ):
        return Series(directory, place, s3a, manager).run(kills, random.Random(seed))


@contextmanager
def _directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="logstore-spark-s3-") as name:
        yield Path(name)


def _requests(s3a: Proxied) -> Counter[str]:
    sums: Counter[str] = Counter()
    for counted, count in s3a.counts().items():
        method = counted.partition(" ")[0]
        if method in REQUESTS:
            sums[method] += count
    return sums


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--managers", nargs="+", choices=MANAGERS, default=["rename"])
    options = parser.parse_args()
    if reason := why_no_bucket() or why_no_s3a():
        print(reason, file=sys.stderr)
        return 1
    is_good = True
    for manager in options.managers:
        found = run(manager, options.kills, options.seed)
        print("\n".join(found.report()), flush=True)
        is_good = is_good and found.is_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
