"""A process that asks for watermarks all the time: `python -m tests.scenarios.harness.watch`.

Asks the low and high watermark of one partition after the other, by real ListOffsets requests, and
journals each answer with the time at which it was asked for. Questions that a dead broker does not
answer are passed over. `done seen=<n>` after SIGTERM.
"""

import argparse
import signal
import sys
import time
from itertools import cycle
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.scenarios.harness.values import Entry, Kind, pack_entry

ANSWER_S = 1.0
PAUSE_S = 0.01


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    options = parser.parse_args()

    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": "watch",
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    seen = 0
    with options.journal.open("wb") as journal:
        for partition in cycle(range(options.partitions)):
            if stopping:
                break
            asked_at_s = time.monotonic()
            try:
                answer = consumer.get_watermark_offsets(
                    TopicPartition(options.topic, partition), timeout=ANSWER_S, cached=False
                )
            except KafkaException:
                answer = None
            if answer is not None:
                low, high = answer
                journal.write(pack_entry(Entry(Kind.SEEN_LOW, 0, partition, 0, low, asked_at_s)))
                journal.write(pack_entry(Entry(Kind.SEEN_HIGH, 0, partition, 0, high, asked_at_s)))
                seen += 1
            time.sleep(PAUSE_S)
    consumer.close()
    print(f"done seen={seen}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
