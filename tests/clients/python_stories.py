"""What users of kafka-python and aiokafka do besides plain records, a process per story.

    python -m tests.clients.python_stories STORY --bootstrap HOST:PORT

Ends with the line `done`, or with what went wrong. A process of its own, since these libraries warn
of what is not ours.
"""

import argparse
import asyncio
import socket
import sys

import aiokafka
import aiokafka.admin
import kafka
import kafka.admin
from kafka.errors import TopicAlreadyExistsError

DEADLINE_S = 60.0
POLL_MS = int(DEADLINE_S * 1000)


def kafka_python_topics(bootstrap: str) -> None:
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([kafka.admin.NewTopic("kp-admin", 3, 1)])
    try:
        admin.create_topics([kafka.admin.NewTopic("kp-admin", 3, 1)])
    except TopicAlreadyExistsError:
        pass
    else:
        raise AssertionError("created twice")
    assert "kp-admin" in admin.list_topics()
    (described,) = admin.describe_topics(["kp-admin"])
    assert len(described["partitions"]) == 3, described
    admin.delete_topics(["kp-admin"])
    assert "kp-admin" not in admin.list_topics()
    admin.close()


def kafka_python_times(bootstrap: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)  # idempotent, as it is by default
    for timestamp in (1_000, 2_000):
        sent = producer.send("kp-times", value=None, key=b"k", timestamp_ms=timestamp)
        sent.get(DEADLINE_S)
    producer.close()
    partition = kafka.TopicPartition("kp-times", 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    consumer.assign([partition])
    found = consumer.offsets_for_times({partition: 1_500})[partition]
    assert (found.offset, found.timestamp) == (1, 2_000), found
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 2}
    consumer.seek(partition, 1)
    ((message,),) = consumer.poll(timeout_ms=POLL_MS).values()
    assert (message.offset, message.key, message.value) == (1, b"k", None), message
    consumer.close()


def kafka_python_quota(bootstrap: str) -> None:
    """Its client id has a quota of 20,000 bytes a second, each way."""
    mine = {"bootstrap_servers": bootstrap, "client_id": "kp-limited"}
    producer = kafka.KafkaProducer(**mine)
    for _ in range(7):
        producer.send("kp-limited", value=b"v" * 40_000, partition=0).get(DEADLINE_S)
    throttled_ms = producer.metrics()["producer-metrics"]["throttle-time-max"]
    assert throttled_ms > 0, producer.metrics()
    producer.close()
    consumer = kafka.KafkaConsumer(**mine, group_id=None, auto_offset_reset="earliest")
    consumer.assign([kafka.TopicPartition("kp-limited", 0)])
    count = 0
    while count < 7:
        polled = consumer.poll(timeout_ms=POLL_MS)
        assert polled, f"only {count} came"
        count += sum(map(len, polled.values()))
    throttled_ms = consumer.metrics()["consumer-metrics"]["throttle-time-max"]
    assert throttled_ms > 0, consumer.metrics()
    consumer.close()


def aiokafka_topics(bootstrap: str) -> None:
    async def story() -> None:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        await admin.create_topics([aiokafka.admin.NewTopic("aio-admin", 2, 1)])
        assert "aio-admin" in await admin.list_topics()
        await admin.delete_topics(["aio-admin"])
        assert "aio-admin" not in await admin.list_topics()
        await admin.close()

    asyncio.run(story())


def aiokafka_subscribes(bootstrap: str) -> None:
    """Without a group a subscription is all partitions."""

    async def story() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait("alone", b"x")
        async with aiokafka.AIOKafkaConsumer(
            "alone", bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            assert (await consumer.getone()).value == b"x"

    asyncio.run(story())


def aiokafka_restart(bootstrap: str) -> None:
    _outlive_a_broker(bootstrap, idempotent=False)


def aiokafka_restart_idempotent(bootstrap: str) -> None:
    _outlive_a_broker(bootstrap, idempotent=True)


def _outlive_a_broker(bootstrap: str, *, idempotent: bool) -> None:
    """Write, see the broker go, write on to the next one with the same producer."""

    async def story() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=idempotent
        ) as producer:
            for number in range(2):
                placed = await producer.send_and_wait("kept", b"%d" % number, partition=0)
                assert placed.offset == number, placed
            host, _, port = bootstrap.rpartition(":")
            with socket.create_connection((host, int(port)), DEADLINE_S) as watch:
                sys.stdout.write("written\n")
                sys.stdout.flush()
                # Its end cannot be missed, however soon the next broker listens on the same port.
                assert await asyncio.to_thread(watch.recv, 1) == b""
            placed = await producer.send_and_wait("kept", b"2", partition=0)
            assert placed.offset == 2, placed
        async with aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([aiokafka.TopicPartition("kept", 0)])
            values = [(await consumer.getone()).value for _ in range(3)]
            assert values == [b"0", b"1", b"2"], values

    asyncio.run(story())


STORIES = {
    story.__name__: story
    for story in (
        kafka_python_topics,
        kafka_python_times,
        kafka_python_quota,
        aiokafka_topics,
        aiokafka_subscribes,
        aiokafka_restart,
        aiokafka_restart_idempotent,
    )
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("story", choices=STORIES)
    parser.add_argument("--bootstrap", required=True)
    options = parser.parse_args()
    STORIES[options.story](options.bootstrap)
    sys.stdout.write("done\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
