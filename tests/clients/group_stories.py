"""What users of consumer groups do, by three clients; a process per story.

    python -m tests.clients.group_stories STORY --bootstrap HOST:PORT [--group G]

Ends with the line `done`, or with what went wrong; `holds N` tells how many partitions a client has
come to hold. Sessions are long where no client is meant to be found dead: what takes longer than
the deadline has waited for one.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

import aiokafka
import confluent_kafka
import kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

DEADLINE_S = 25.0
SESSION_MS = 45_000
PARTITIONS, RECORDS = 4, 200


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(DEADLINE_S)


def fill(bootstrap: str, topic: str, first: int = 0) -> None:
    """Write records with the numbers from `first` on."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + RECORDS):
        producer.produce(topic, value=str(number), partition=number % PARTITIONS)
    assert producer.flush(DEADLINE_S) == 0


def wait_until_reported(line: str) -> None:
    """Until stdin says `line`: a client cannot see for certain that its broker was away."""
    said = sys.stdin.readline().rstrip("\n")
    assert said == line, f"{said!r} instead of {line!r}"


# librdkafka


def librdkafka_consumer(
    bootstrap: str,
    group: str,
    topic: str,
    *,
    on_revoke: Callable[..., None] | None = None,
    **more: Any,
) -> confluent_kafka.Consumer:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": 500,
        "log_level": 3,
    }
    consumer = confluent_kafka.Consumer(
        settings | {name.replace("_", "."): value for name, value in more.items()}
    )
    if on_revoke is None:
        consumer.subscribe([topic])
    else:
        consumer.subscribe([topic], on_revoke=on_revoke)
    return consumer


def take(
    consumers: Sequence[confluent_kafka.Consumer],
    until: Callable[[set[int]], bool],
    numbers: set[int] | None = None,
) -> set[int]:
    """Poll all in turn until what they have read, or hold, is enough."""
    read = set() if numbers is None else numbers
    polls = 0
    while not until(read):
        polls += 1
        assert polls < DEADLINE_S * 20, f"read={len(read)} held={held(consumers)}"
        for consumer in consumers:
            message = consumer.poll(0.05 / len(consumers))
            if message is not None:
                assert message.error() is None, message.error()
                value = message.value()
                assert value is not None
                read.add(int(value))
    return read


def held(consumers: Sequence[confluent_kafka.Consumer]) -> list[int]:
    return [len(consumer.assignment()) for consumer in consumers]


def librdkafka_shares(bootstrap: str, group: str) -> None:
    """Two share the partitions; one closes, and the other has all long before a session ends."""
    topic = "librdkafka-shares"
    create(bootstrap, topic)
    first = librdkafka_consumer(bootstrap, group, topic)
    second = librdkafka_consumer(bootstrap, group, topic)
    take([first, second], lambda _: held([first, second]) == [2, 2])
    fill(bootstrap, topic)
    take([first, second], lambda read: len(read) == RECORDS)
    for consumer in (first, second):
        consumer.commit(asynchronous=False)
    second.close()
    take([first], lambda _: held([first]) == [PARTITIONS])
    committed = first.committed(first.assignment(), timeout=DEADLINE_S)
    assert [one.offset for one in committed] == [RECORDS // PARTITIONS] * PARTITIONS, committed
    fill(bootstrap, topic, RECORDS)
    take([first], lambda read: read == set(range(RECORDS, 2 * RECORDS)))
    first.close()


def librdkafka_cooperates(bootstrap: str, group: str) -> None:
    """A second member gets half; the first gives only that half away, and never stops reading."""
    topic = "librdkafka-cooperates"
    create(bootstrap, topic)
    fill(bootstrap, topic)
    revoked: list[int] = []

    def on_revoke(consumer: Any, partitions: list[Any]) -> None:
        revoked.extend(one.partition for one in partitions)
        consumer.incremental_unassign(partitions)

    strategy = "cooperative-sticky"
    first = librdkafka_consumer(
        bootstrap, group, topic, on_revoke=on_revoke, partition_assignment_strategy=strategy
    )
    take([first], lambda _: held([first]) == [PARTITIONS])
    kept = {one.partition for one in first.assignment()}
    second = librdkafka_consumer(bootstrap, group, topic, partition_assignment_strategy=strategy)
    take([first, second], lambda _: held([first, second]) == [2, 2])
    assert len(revoked) == 2, revoked
    assert {one.partition for one in first.assignment()} == kept - set(revoked)
    assert {one.partition for one in second.assignment()} == set(revoked)
    second.close()
    first.close()


def librdkafka_static(bootstrap: str, group: str) -> None:
    """A static member that starts again gets its partitions back, and the other notices nothing."""
    topic = "librdkafka-static"
    create(bootstrap, topic)
    fill(bootstrap, topic)
    revocations: list[Any] = []
    first = librdkafka_consumer(
        bootstrap,
        group,
        topic,
        on_revoke=lambda consumer, partitions: revocations.append(partitions),
        group_instance_id="one",
    )
    second = librdkafka_consumer(bootstrap, group, topic, group_instance_id="two")
    take([first, second], lambda _: held([first, second]) == [2, 2])
    mine = {one.partition for one in second.assignment()}
    revocations.clear()
    second.close()
    again = librdkafka_consumer(bootstrap, group, topic, group_instance_id="two")
    take([first, again], lambda _: held([first, again]) == [2, 2])
    assert {one.partition for one in again.assignment()} == mine
    assert not revocations, "the other member was made to rebalance"
    again.close()
    first.close()


def librdkafka_holds(bootstrap: str, group: str) -> None:
    """Say how many partitions are held whenever that changes, until killed."""
    topic = f"holds-{group}"
    consumer = librdkafka_consumer(bootstrap, group, topic, session_timeout_ms=6000)
    known = -1
    while True:
        consumer.poll(0.1)
        now = len(consumer.assignment())
        if now != known:
            known = now
            say(f"holds {known}")


def librdkafka_goes_on(bootstrap: str, group: str) -> None:
    """Reads and commits; what comes after the broker started again is read once, and in full."""
    topic = "librdkafka-goes-on"
    create(bootstrap, topic)
    fill(bootstrap, topic)
    consumer = librdkafka_consumer(bootstrap, group, topic)
    take([consumer], lambda read: len(read) == RECORDS)
    consumer.commit(asynchronous=False)
    say("committed")
    wait_until_reported("restarted")
    fill(bootstrap, topic, RECORDS)
    read = take([consumer], lambda read: len(read) >= RECORDS)
    assert read == set(range(RECORDS, 2 * RECORDS)), sorted(read)[:10]
    consumer.commit(asynchronous=False)
    consumer.close()
    other = librdkafka_consumer(bootstrap, group, topic)
    fill(bootstrap, topic, 2 * RECORDS)
    read = take([other], lambda read: len(read) >= RECORDS)
    assert read == set(range(2 * RECORDS, 3 * RECORDS)), sorted(read)[:10]
    other.close()


# kafka-python and aiokafka


def kafka_python_consumer(bootstrap: str, group: str, topic: str, **more: Any) -> Any:
    settings = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": 500,
    }
    return kafka.KafkaConsumer(topic, **(settings | more))


def take_by_kafka_python(
    consumers: Sequence[Any], until: Callable[[set[int]], bool], numbers: set[int] | None = None
) -> set[int]:
    read = set() if numbers is None else numbers
    polls = 0
    while not until(read):
        polls += 1
        assert polls < DEADLINE_S * 10, f"read={len(read)}"
        for consumer in consumers:
            for messages in consumer.poll(timeout_ms=50).values():
                read.update(int(message.value) for message in messages)
    return read


def kafka_python_shares(bootstrap: str, group: str) -> None:
    topic = "kafka-python-shares"
    create(bootstrap, topic)
    first = kafka_python_consumer(bootstrap, group, topic)
    second = kafka_python_consumer(bootstrap, group, topic)

    def is_shared(read: set[int]) -> bool:
        return [len(c.assignment()) for c in (first, second)] == [2, 2]

    take_by_kafka_python([first, second], is_shared)
    fill(bootstrap, topic)
    take_by_kafka_python([first, second], lambda read: len(read) == RECORDS)
    for consumer in (first, second):
        consumer.commit()
    second.close()
    take_by_kafka_python([first], lambda _: len(first.assignment()) == PARTITIONS)
    assert {first.committed(one) for one in first.assignment()} == {RECORDS // PARTITIONS}
    first.close()


def kafka_python_static(bootstrap: str, group: str) -> None:
    topic = "kafka-python-static"
    create(bootstrap, topic)
    fill(bootstrap, topic)
    first = kafka_python_consumer(bootstrap, group, topic, group_instance_id="one")
    take_by_kafka_python([first], lambda _: len(first.assignment()) == PARTITIONS)
    first.close()
    again = kafka_python_consumer(bootstrap, group, topic, group_instance_id="one")
    take_by_kafka_python([again], lambda _: len(again.assignment()) == PARTITIONS)
    again.close()


def kafka_python_administers(bootstrap: str, group: str) -> None:
    """Lists, describes and deletes groups, and reads their offsets."""
    topic = "kafka-python-administers"
    create(bootstrap, topic)
    fill(bootstrap, topic)
    consumer = kafka_python_consumer(bootstrap, group, topic)
    take_by_kafka_python([consumer], lambda read: len(read) == RECORDS)
    consumer.commit()
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    listed = admin.list_consumer_groups().result(DEADLINE_S)
    assert group in {one.group_id for one in listed.valid}, listed.valid
    described = admin.describe_consumer_groups([group])[group].result(DEADLINE_S)
    assert described.state.name == "STABLE", described.state
    (member,) = described.members
    assert len(member.assignment.topic_partitions) == PARTITIONS
    asked = confluent_kafka.ConsumerGroupTopicPartitions(group)
    offsets = admin.list_consumer_group_offsets([asked])[group].result(DEADLINE_S)
    assert len(offsets.topic_partitions) == PARTITIONS
    consumer.close()
    admin.delete_consumer_groups([group])[group].result(DEADLINE_S)
    listed = admin.list_consumer_groups().result(DEADLINE_S)
    assert group not in {one.group_id for one in listed.valid}


def aiokafka_consumer(bootstrap: str, group: str, topic: str, **more: Any) -> Any:
    settings = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": 500,
    }
    return aiokafka.AIOKafkaConsumer(topic, **(settings | more))


async def take_by_aiokafka(
    consumers: Sequence[Any], until: Callable[[set[int]], bool], numbers: set[int] | None = None
) -> set[int]:
    read = set() if numbers is None else numbers
    async with asyncio.timeout(DEADLINE_S):
        while not until(read):
            for consumer in consumers:
                for messages in (await consumer.getmany(timeout_ms=50)).values():
                    read.update(int(message.value) for message in messages)
    return read


def aiokafka_shares(bootstrap: str, group: str) -> None:
    topic = "aiokafka-shares"
    create(bootstrap, topic)

    async def story() -> None:
        first = aiokafka_consumer(bootstrap, group, topic)
        second = aiokafka_consumer(bootstrap, group, topic)
        await asyncio.gather(first.start(), second.start())

        def is_shared(read: set[int]) -> bool:
            return [len(c.assignment()) for c in (first, second)] == [2, 2]

        await take_by_aiokafka([first, second], is_shared)
        fill(bootstrap, topic)
        await take_by_aiokafka([first, second], lambda read: len(read) == RECORDS)
        for consumer in (first, second):
            await consumer.commit()
        await second.stop()
        await take_by_aiokafka([first], lambda _: len(first.assignment()) == PARTITIONS)
        assert {await first.committed(p) for p in first.assignment()} == {RECORDS // PARTITIONS}
        await first.stop()

    asyncio.run(story())


def aiokafka_static(bootstrap: str, group: str) -> None:
    topic = "aiokafka-static"
    create(bootstrap, topic)
    fill(bootstrap, topic)

    async def story() -> None:
        consumer = aiokafka_consumer(bootstrap, group, topic, group_instance_id="one")
        await consumer.start()
        await take_by_aiokafka([consumer], lambda _: len(consumer.assignment()) == PARTITIONS)
        await consumer.stop()

    for _ in range(2):
        asyncio.run(story())


STORIES = {
    story.__name__: story
    for story in (
        librdkafka_shares,
        librdkafka_cooperates,
        librdkafka_static,
        librdkafka_holds,
        librdkafka_goes_on,
        kafka_python_shares,
        kafka_python_static,
        kafka_python_administers,
        aiokafka_shares,
        aiokafka_static,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("story", choices=STORIES)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group")
    options = parser.parse_args()
    STORIES[options.story](options.bootstrap, options.group or options.story)
    say("done")


if __name__ == "__main__":
    main()
