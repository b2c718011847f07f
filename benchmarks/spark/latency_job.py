"""How late rows arrive in a stream: `python -m benchmarks.spark.latency_job ASKED ANSWER`.

One stream with `foreachBatch`, as fast as Spark goes, through three phases: one record at a time,
each sent when the one before has arrived; records at a steady rate; nothing. Producer and sink are
this process, so there is one clock. A record's latency is from its acknowledgement to the call of
the sink with its row.
"""

import json
import statistics
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.spark.session import make_session
from benchmarks.spark.tree import spent_by, spent_here

WAIT_S = 300.0
FILLING = b" " * 1000

WARM_UP = 10
"""Micro-batches that are not counted: Java compiles, Python imports."""

SETTLE_S = 5.0
"""After the last record, until the pollers for more have slowed down."""


def main() -> int:
    asked_at, answer_at = map(Path, sys.argv[1:])
    asked = json.loads(asked_at.read_text())
    spark = make_session(asked["jars"], Path(asked["directory"]))
    job = LatencyJob(spark, asked)
    found = {
        **job.one_by_one(asked["single_records"]),
        **job.at_a_rate(asked["records_s"], asked["seconds"]),
        **job.idle(asked["idle_s"]),
    }
    job.stop()
    answer_at.write_text(json.dumps(found))
    spark.stop()
    return 0


class LatencyJob:
    """Records are numbered from 0 on; their number begins their value."""

    def __init__(self, spark: SparkSession, asked: Mapping[str, Any]) -> None:
        self._topic: str = asked["topic"]
        self._brokers: list[int] = asked["brokers"]
        producer = {"bootstrap.servers": asked["bootstrap"], "acks": "all", "linger.ms": 0}
        self._producer = Producer(producer)
        self._sent = 0
        self._acknowledged_s: dict[int, float] = {}
        self._arrived_s: dict[int, float] = {}
        self._news = threading.Condition()
        self._query = self._start(spark, asked)

    def one_by_one(self, count: int) -> dict[str, float]:
        """Milliseconds of the micro-batches that have one record, as Spark's progress tells."""
        for _ in range(WARM_UP + count):
            self._send()
            assert self._producer.flush(WAIT_S) == 0
            self._wait_for_all()
        single = [one for one in self._query.recentProgress if one.numInputRows == 1][-count:]
        took_ms = [dict(one.durationMs) for one in single]
        phases = ("triggerExecution", "addBatch", "walCommit", "commitOffsets", "latestOffset")
        return {
            f"one record, {phase} ms": statistics.median(one.get(phase, 0) for one in took_ms)
            for phase in phases
        }

    def at_a_rate(self, records_s: int, seconds: float) -> dict[str, float]:
        first, began_s = self._sent, time.perf_counter()
        for number in range(int(records_s * seconds)):
            while (wait_s := began_s + number / records_s - time.perf_counter()) > 0:
                self._producer.poll(wait_s)
            self._send()
            self._producer.poll(0)
        assert self._producer.flush(WAIT_S) == 0
        self._wait_for_all()
        late_ms = sorted(
            1000 * (self._arrived_s[number] - self._acknowledged_s[number])
            for number in range(first, self._sent)
        )
        return {
            "p50 ms": late_ms[len(late_ms) // 2],
            "p99 ms": late_ms[len(late_ms) * 99 // 100],
        }

    def idle(self, seconds: float) -> dict[str, float]:
        """CPU seconds of a minute in which nothing is written."""
        time.sleep(min(seconds, SETTLE_S))
        spent, brokers_s = spent_here(), spent_by(self._brokers)
        time.sleep(seconds)
        used, brokers_s = spent_here().since(spent), spent_by(self._brokers) - brokers_s
        return {
            "idle, Java CPU-s/min": used.java_s * 60 / seconds,
            "idle, Python CPU-s/min": used.python_s * 60 / seconds,
            "idle, brokers CPU-s/min": brokers_s * 60 / seconds,
        }

    def stop(self) -> None:
        self._query.stop()

    def _start(self, spark: SparkSession, asked: Mapping[str, Any]) -> StreamingQuery:
        options = {**asked["options"], "subscribe": self._topic, "startingOffsets": "earliest"}
        rows = spark.readStream.format(asked["format"]).options(**options).load()
        checkpoint = str(Path(asked["directory"]) / "checkpoint")
        writer = rows.writeStream.foreachBatch(self._take)
        return writer.option("checkpointLocation", checkpoint).start()

    def _take(self, rows: DataFrame, _number: int) -> None:
        values = [row[0] for row in rows.select("value").collect()]
        now_s = time.perf_counter()
        with self._news:
            for value in values:
                self._arrived_s[int(value.split()[0])] = now_s
            self._news.notify()

    def _send(self) -> None:
        number, self._sent = self._sent, self._sent + 1
        value = (b"%d" % number + FILLING)[: len(FILLING)]

        def acknowledged(error: KafkaError | None, _message: Message) -> None:
            assert error is None, error
            self._acknowledged_s[number] = time.perf_counter()

        self._producer.produce(self._topic, value, on_delivery=acknowledged)

    def _wait_for_all(self) -> None:
        with self._news:
            arrived = self._news.wait_for(lambda: len(self._arrived_s) == self._sent, WAIT_S)
        assert arrived, f"{len(self._arrived_s)} of {self._sent} records; {self._query.exception()}"


if __name__ == "__main__":
    sys.exit(main())
