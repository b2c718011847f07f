"""A client reads partition 0 of a topic from offset 0 until its position is the end.

    python -m tests.clients.end_stories CLIENT --bootstrap HOST:PORT --topic NAME --end OFFSET

Prints `read N`: how many records it got.
"""

import argparse
import asyncio
import sys

import aiokafka
import kafka

POLL_MS = 100


def by_kafka_python(bootstrap: str, topic: str, end: int) -> int:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    place = kafka.TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    count = 0
    while consumer.position(place) < end:
        count += len(consumer.poll(timeout_ms=POLL_MS).get(place, ()))
    consumer.close()
    return count


async def by_aiokafka(bootstrap: str, topic: str, end: int) -> int:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    place = aiokafka.TopicPartition(topic, 0)
    await consumer.start()
    consumer.assign([place])
    consumer.seek(place, 0)
    count = 0
    while await consumer.position(place) < end:
        count += len((await consumer.getmany(timeout_ms=POLL_MS)).get(place, ()))
    await consumer.stop()
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("client", choices=("kafka-python", "aiokafka"))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--end", type=int, required=True)
    options = parser.parse_args()
    where = options.bootstrap, options.topic, options.end
    is_aiokafka = options.client == "aiokafka"
    count = asyncio.run(by_aiokafka(*where)) if is_aiokafka else by_kafka_python(*where)
    sys.stdout.write(f"read {count}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
