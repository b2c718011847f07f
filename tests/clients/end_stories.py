"""A client reads partition 0 of a topic from offset 0 until its position is the end.

    python -m tests.clients.end_stories CLIENT --bootstrap HOST:PORT --topic NAME --end OFFSET

Prints `read N`: how many records it got, and `state DIGEST` of what they leave of each key.
"""

import argparse
import asyncio
import sys

import aiokafka
import kafka

from tests.clients.rebuilt_state import RebuiltState

POLL_MS = 100


def by_kafka_python(bootstrap: str, topic: str, end: int) -> RebuiltState:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    place = kafka.TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    state = RebuiltState()
    while consumer.position(place) < end:
        for record in consumer.poll(timeout_ms=POLL_MS).get(place, ()):
            state.apply(record.key, record.value)
    consumer.close()
    return state


async def by_aiokafka(bootstrap: str, topic: str, end: int) -> RebuiltState:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    place = aiokafka.TopicPartition(topic, 0)
    await consumer.start()
    consumer.assign([place])
    consumer.seek(place, 0)
    state = RebuiltState()
    while await consumer.position(place) < end:
        for record in (await consumer.getmany(timeout_ms=POLL_MS)).get(place, ()):
            state.apply(record.key, record.value)
    await consumer.stop()
    return state


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("client", choices=("kafka-python", "aiokafka"))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--end", type=int, required=True)
    options = parser.parse_args()
    where = options.bootstrap, options.topic, options.end
    is_aiokafka = options.client == "aiokafka"
    state = asyncio.run(by_aiokafka(*where)) if is_aiokafka else by_kafka_python(*where)
    sys.stdout.write(f"read {state.count}\nstate {state.digest()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
