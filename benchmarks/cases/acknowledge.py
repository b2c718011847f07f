"""Time to acknowledge at 5 MB/s, one record a batch as they come: p50 and p99 in milliseconds.

Wall time, so only as good as the machine is quiet; beside the peer in the same run.
"""

import os
import time

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.contenders import Contenders, beside_kafka
from benchmarks.load import new_topic
from benchmarks.options import Options
from benchmarks.peers.server import Server

RECORD_BYTES, RATE_BYTES_S, SECONDS = 1000, 5_000_000, 10


def contenders(options: Options) -> Contenders:
    return beside_kafka(_run, options)


def _run(server: Server, options: Options) -> dict[str, float]:
    topic = new_topic(server.bootstrap)
    producer = Producer({"bootstrap.servers": server.bootstrap, "acks": "all", "linger.ms": 0})
    took_ms: list[float] = []
    value = os.urandom(RECORD_BYTES)
    began = time.perf_counter()
    count = int(RATE_BYTES_S * SECONDS * options.scale) // RECORD_BYTES

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        latency_s = message.latency()
        assert latency_s is not None
        took_ms.append(latency_s * 1000)

    for number in range(count):
        due = began + number * RECORD_BYTES / RATE_BYTES_S
        while (wait_s := due - time.perf_counter()) > 0:
            producer.poll(min(wait_s, 0.001))
        producer.produce(topic, value, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(60) == 0
    took_ms = sorted(took_ms[len(took_ms) // 10 :])
    return {
        "p50 ms": took_ms[len(took_ms) // 2],
        "p99 ms": took_ms[len(took_ms) * 99 // 100],
    }
