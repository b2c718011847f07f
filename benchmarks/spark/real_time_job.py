"""How late rows come through Spark's real-time trigger: `python -m … ASKED ANSWER`.

A stream from one topic to another by Spark's own `format("kafka")`. Producer and consumer are this
process, so there is one clock; a record's latency is from being sent to the consumer that has the
row which Spark wrote. Its acknowledgement is no beginning: Spark may be quicker than that.
"""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.spark.session import make_session
from benchmarks.spark.tree import spent_by, spent_here

WAIT_S = 120.0
WARM_UP_S = 10.0
BATCH = "60 seconds"
"""How long one real-time batch lasts: offsets are written to the checkpoint at its end."""
FILLING = b" " * 1000


def main() -> int:
    asked_at, answer_at = map(Path, sys.argv[1:])
    asked = json.loads(asked_at.read_text())
    spark = make_session(asked["jars"], Path(asked["directory"]))
    query = start(spark, asked)
    found = RealTimeJob(asked, query).at_a_rate(asked["records_s"], asked["seconds"])
    query.stop()
    answer_at.write_text(json.dumps(found))
    spark.stop()
    return 0


def start(spark: SparkSession, asked: Mapping[str, Any]) -> StreamingQuery:
    brokers = {"kafka.bootstrap.servers": asked["bootstrap"]}
    rows = spark.readStream.format("kafka").options(**brokers, subscribe=asked["source"]).load()
    writer = rows.select("key", "value").writeStream.format("kafka").outputMode("update")
    writer = writer.options(**brokers, topic=asked["sink"])
    writer = writer.option("checkpointLocation", str(Path(asked["directory"]) / "checkpoint"))
    trigger: Any = writer.trigger  # its stub has no real-time trigger
    query: StreamingQuery = trigger(realTime=BATCH).start()
    return query


class RealTimeJob:
    """Records are numbered from 0 on; their number begins their value."""

    def __init__(self, asked: Mapping[str, Any], query: StreamingQuery) -> None:
        self._asked = asked
        self._query = query
        bootstrap = {"bootstrap.servers": asked["bootstrap"]}
        self._producer = Producer({**bootstrap, "acks": "all", "linger.ms": 0})
        self._consumer = Consumer(
            {**bootstrap, "group.id": "real-time", "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([asked["sink"]])
        self._sent = 0
        self._sent_s: dict[int, float] = {}
        self._arrived_s: dict[int, float] = {}

    def at_a_rate(self, records_s: int, seconds: float) -> dict[str, float]:
        """Milliseconds, and CPU seconds per minute of Spark and of the brokers."""
        self._reach_the_sink()
        self._send_at(records_s, WARM_UP_S)
        first = self._sent
        spent, brokers_s = spent_here(), spent_by(self._asked["brokers"])
        self._send_at(records_s, seconds)
        used = spent_here().since(spent)
        brokers_s = spent_by(self._asked["brokers"]) - brokers_s
        late_ms = sorted(
            1000 * (self._arrived_s[number] - self._sent_s[number])
            for number in range(first, self._sent)
        )
        return {
            "p50 ms": late_ms[len(late_ms) // 2],
            "p99 ms": late_ms[len(late_ms) * 99 // 100],
            "Java CPU-s/min": used.java_s * 60 / seconds,
            "brokers CPU-s/min": brokers_s * 60 / seconds,
        }

    def _reach_the_sink(self) -> None:
        """The query reads from the end on: it begins some time after its start."""
        end_s = time.monotonic() + WAIT_S
        while not self._arrived_s:
            assert time.monotonic() < end_s, f"nothing arrives; {self._query.exception()}"
            self._send()
            self._look(0.5)

    def _send_at(self, records_s: int, seconds: float) -> None:
        began_s = time.perf_counter()
        for number in range(int(records_s * seconds)):
            while (wait_s := began_s + number / records_s - time.perf_counter()) > 0:
                self._look(wait_s)
            self._send()
        end_s = time.monotonic() + WAIT_S
        assert self._producer.flush(WAIT_S) == 0
        while self._sent - 1 not in self._arrived_s:
            assert time.monotonic() < end_s, f"record is late; {self._query.exception()}"
            self._look(0.5)

    def _look(self, wait_s: float) -> None:
        self._producer.poll(0)
        message = self._consumer.poll(min(wait_s, 0.005))
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            self._arrived_s[int(value.split()[0])] = time.perf_counter()

    def _send(self) -> None:
        number, self._sent = self._sent, self._sent + 1
        value = (b"%d" % number + FILLING)[: len(FILLING)]

        def acknowledged(error: KafkaError | None, _message: Message) -> None:
            assert error is None, error

        self._sent_s[number] = time.perf_counter()
        self._producer.produce(self._asked["source"], value, on_delivery=acknowledged)
        self._producer.poll(0)


if __name__ == "__main__":
    sys.exit(main())
