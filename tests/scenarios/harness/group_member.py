"""A member of a group: `python -m tests.scenarios.harness.group_member --client librdkafka …`.

Reads, and commits what it has read before it reads on. Everything goes to its journal; it says
`ready` when it has subscribed, and leaves the group on SIGTERM. Offsets are committed in the
client's own generation, so a member that lost its partitions is refused. SIGUSR1 prints what its
threads are doing.
"""

import argparse
import asyncio
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from tests.clients.java_users import tool_command
from tests.scenarios.harness.group_journal import MemberJournal

POLL_S = 0.5
BATCH = 500
HEARTBEAT_MS = 1000
ANSWER_MS = 5000
REBALANCE_MS = 30_000


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def read_parts(offsets: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Epoch ranges without a hole."""
    parts: list[list[int]] = []
    for partition, all_ in offsets.items():
        for offset in all_:
            if parts and parts[-1][0] == partition and parts[-1][2] == offset - 1:
                parts[-1][2] = offset
            else:
                parts.append([partition, offset, offset])
    return parts


def java(options: argparse.Namespace) -> NoReturn:
    """Becomes Apache Kafka's verifiable consumer, which tells what it does by itself."""
    more = ["--topic", options.topic, "--group-id", options.group]
    more += ["--session-timeout", str(options.session_ms)]
    if options.client_id:
        settings = options.journal.with_suffix(".properties")
        settings.write_text(f"client.id={options.client_id}\n")
        more += ["--command-config", str(settings)]
    command = tool_command("VerifiableConsumer", "--bootstrap-server", options.bootstrap, *more)
    os.execvp(command[0], command)


def librdkafka(
    options: argparse.Namespace, journal: MemberJournal, is_over: Callable[[], bool]
) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    offsets: dict[int, list[int]] = {}

    def assigned(_: Any, parts: Iterable[Any]) -> None:
        journal.note("assigned", [[one.partition] for one in parts])

    def revoked(_: Any, parts: Iterable[Any]) -> None:
        """What was read until here will not be committed any more."""
        journal.note("read", read_parts(offsets))
        offsets.clear()
        journal.note("revoked", [[one.partition] for one in parts])

    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "client.id": options.client_id or "rdkafka",
            "partition.assignment.strategy": "range",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": options.session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "max.poll.interval.ms": REBALANCE_MS,
            "reconnect.backoff.max.ms": 1000,
            "log_level": 2,
        }
    )
    consumer.subscribe([options.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    say("ready")
    while not is_over():
        for number in range(BATCH):
            message = consumer.poll(0 if number else POLL_S)
            if message is None:
                break
            partition, offset = message.partition(), message.offset()
            if message.error() is not None:
                say(f"poll: {message.error()!r}")
            elif partition is not None and offset is not None:
                offsets.setdefault(partition, []).append(offset)
        if not offsets:
            continue
        journal.note("read", read_parts(offsets))
        parts = [[partition, all_[-1] + 1] for partition, all_ in offsets.items()]
        journal.note("commits", parts)
        wanted = [TopicPartition(options.topic, part, at) for part, at in parts]
        try:
            consumer.commit(offsets=wanted, asynchronous=False)
            journal.note("committed", parts)
        except KafkaException as error:
            journal.note("refused", parts)
            say(f"commit: {error}")
        offsets.clear()  # they are in the journal; `revoked` notes what is not
    consumer.close()


def kafka_python(
    options: argparse.Namespace,
    journal: MemberJournal,
    is_over: Callable[[], bool],
    *,
    asks_for_offsets: bool = True,
) -> None:
    """Begins each assignment at the committed offsets, as the other clients do by themselves.

    Without `asks_for_offsets` it may go on where it was before another owner (docs/consumers.md).
    """
    import kafka
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            journal.note("revoked", [[one.partition] for one in revoked])

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            journal.note("assigned", [[one.partition] for one in assigned])
            if asks_for_offsets:  # a listener that waits for an answer stops the heartbeats
                consumer.pause(*assigned)

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=options.bootstrap.split(","),
        group_id=options.group,
        client_id=options.client_id or "kafka-python",
        partition_assignment_strategy=[RangePartitionAssignor],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=options.session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=REBALANCE_MS,
    )
    consumer.subscribe([options.topic], listener=Listener())
    say("ready")
    while not is_over():
        try:
            begin_at_committed(consumer)
            polled = consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=BATCH)
        except KafkaError as error:  # also what ended its heartbeats; the next poll joins again
            say(f"poll: {error!r}")
            continue
        if not polled:
            continue
        offsets = {part.partition: [one.offset for one in got] for part, got in polled.items()}
        journal.note("read", read_parts(offsets))
        parts = [[partition, all_[-1] + 1] for partition, all_ in offsets.items()]
        journal.note("commits", parts)
        wanted = {
            part: OffsetAndMetadata(got[-1].offset + 1, "", -1) for part, got in polled.items()
        }
        try:
            consumer.commit(wanted)
            journal.note("committed", parts)
        except KafkaError:
            journal.note("refused", parts)
    consumer.close()


def begin_at_committed(consumer: Any) -> None:
    """Resume what an assignment has paused. Raises `KafkaError`: it stays paused."""
    for part in consumer.paused():
        offset = consumer.committed(part, timeout_ms=ANSWER_MS)
        if offset is None:
            consumer.seek_to_beginning(part)
        else:
            consumer.seek(part, offset)
        consumer.resume(part)


def by_aiokafka(
    options: argparse.Namespace, journal: MemberJournal, is_over: Callable[[], bool]
) -> None:
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            journal.note("revoked", [[one.partition] for one in revoked])

        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            journal.note("assigned", [[one.partition] for one in assigned])

    async def member() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            client_id=options.client_id or "aiokafka",
            partition_assignment_strategy=(RangePartitionAssignor,),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=options.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=REBALANCE_MS,
        )
        consumer.subscribe([options.topic], listener=Listener())
        await consumer.start()
        say("ready")
        while not is_over():
            try:
                polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=BATCH)
            except KafkaError as error:
                say(f"poll: {error!r}")
                continue
            if not polled:
                continue
            offsets = {part.partition: [one.offset for one in got] for part, got in polled.items()}
            journal.note("read", read_parts(offsets))
            parts = [[partition, all_[-1] + 1] for partition, all_ in offsets.items()]
            journal.note("commits", parts)
            try:
                await consumer.commit({part: got[-1].offset + 1 for part, got in polled.items()})
                journal.note("committed", parts)
            except KafkaError:
                journal.note("refused", parts)
        await consumer.stop()

    asyncio.run(member())


CLIENTS: Mapping[str, Callable[[argparse.Namespace, MemberJournal, Callable[[], bool]], None]] = {
    "librdkafka": librdkafka,
    "kafka-python": kafka_python,
    "kafka-python-alone": partial(kafka_python, asks_for_offsets=False),
    "aiokafka": by_aiokafka,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--client", choices=(*CLIENTS, "java"), required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--client-id", help="member ids begin with it; else the client's name")
    parser.add_argument("--session-ms", type=int, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    options = parser.parse_args()
    if options.client == "java":
        java(options)
    faulthandler.register(signal.SIGUSR1)
    logging.basicConfig(stream=sys.stdout, format="%(asctime)s %(message)s")
    logging.getLogger("kafka.coordinator").setLevel(logging.INFO)  # kafka-python's generations
    stopping: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    CLIENTS[options.client](options, MemberJournal(options.journal), lambda: bool(stopping))
    say("left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
