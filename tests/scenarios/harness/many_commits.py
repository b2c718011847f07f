"""How soon a coordinator answers after a million commits and a kill -9; run by hand.

    python -m tests.scenarios.harness.many_commits [--commits 1000000] [--groups 1] [--directory D]

Commits go out in requests of 1,000 partitions, by the wire client, without a member. With one group
the same 1,000 keys change all the time; with 1,000 groups every commit is a key of its own. Time to
the first answer is from the start of the new process, and from when it said that it listens.
"""

import argparse
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

from broker.groups.decisions.group_partition import OFFSETS_TOPIC, partition_of
from logstore.errors import LogstoreError
from logstore.wire.framing.client import Connection
from logstore.wire.messages.find_coordinator import FindCoordinatorRequest
from logstore.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from logstore.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.scenarios.harness.brokers import START_S, bootstrap_of, create_topic, start_broker, stop
from tests.scenarios.harness.process import Process
from tests.servers.child import free_port

TOPIC = "committed"
PARTITIONS = 1000
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
OFFSETS_PARTITIONS = 50
ANSWER_S = 300.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    groups = [f"group-{number}" for number in range(options.groups)]
    rounds = options.commits // PARTITIONS
    port = free_port()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        log = str((options.directory or Path(temporary)) / "log")
        broker = stack.enter_context(start_broker(log, port=port))
        create_topic(bootstrap_of(broker), TOPIC, PARTITIONS)
        began_s = time.monotonic()
        with Connection.open("127.0.0.1", port, ANSWER_S) as connection:
            for group in groups:
                await_coordinator(connection, group)
            for number in range(rounds):
                commit(connection, groups[number % len(groups)], number)
        took_s = time.monotonic() - began_s
        print(f"committed {rounds * PARTITIONS} in {took_s:.1f} s, groups={len(groups)}")
        print(f"{OFFSETS_TOPIC}: {size_of(bootstrap_of(broker), groups)}")
        broker.send(signal.SIGKILL)
        broker.wait()
        began_s = time.monotonic()
        again = stack.enter_context(start_broker(log, port=port))
        bootstrap_of(again)
        listening_s = time.monotonic()
        last = rounds - 1
        first_answer(port, groups[last % len(groups)], last)
        answered_s = time.monotonic()
        for at in {0, len(groups) // 2, len(groups) - 1}:
            first_answer(port, groups[at], last - (last - at) % len(groups))
        all_s = time.monotonic()
        print(
            f"first answer {answered_s - began_s:.2f} s after the start of the process, "
            f"{answered_s - listening_s:.2f} s after it listened; "
            f"others after {all_s - began_s:.2f} s; {memory_of(again)}"
        )
        stop(again)
    return 0


def await_coordinator(connection: Connection, group: str) -> None:
    """The first question makes the topic."""
    deadline_s = time.monotonic() + START_S
    while True:
        assert time.monotonic() < deadline_s, "no coordinator"
        request = FindCoordinatorRequest(group, 0, [group])
        (found,) = connection.call(FIND_COORDINATOR, request).coordinators
        if not found.error_code and not fetch(connection, group)[0]:
            return
        time.sleep(0.05)


def commit(connection: Connection, group: str, offset: int) -> None:
    parts = [OffsetCommitRequestPartition(number, offset) for number in range(PARTITIONS)]
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(TOPIC, partitions=parts)])
    (topic,) = connection.call(OFFSET_COMMIT, request).topics
    assert not any(one.error_code for one in topic.partitions), topic.partitions[0].error_code


def fetch(connection: Connection, group: str) -> tuple[int, set[int]]:
    """The error, and the offsets of all partitions."""
    topics = [OffsetFetchRequestTopics(TOPIC, partition_indexes=[*range(PARTITIONS)])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)])
    (answer,) = connection.call(OFFSET_FETCH, request).groups
    if answer.error_code:
        return answer.error_code, set()
    return 0, {one.committed_offset for one in answer.topics[0].partitions}


def first_answer(port: int, group: str, offset: int) -> None:
    """Until the group's offsets are answered, which must be the last ones committed."""
    deadline_s = time.monotonic() + ANSWER_S
    while True:
        assert time.monotonic() < deadline_s, "no answer"
        try:
            with Connection.open("127.0.0.1", port, ANSWER_S) as connection:
                code, offsets = fetch(connection, group)
        except LogstoreError:
            code, offsets = -1, set()
        if not code:
            assert offsets == {offset}, f"wanted={offset} got={sorted(offsets)[:5]}"
            return
        time.sleep(0.01)


def size_of(bootstrap: str, groups: list[str]) -> str:
    """What the partitions of these groups hold: records, and bytes of their keys and values."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "size", "enable.partition.eof": True}
    )
    numbers = sorted({partition_of(group, OFFSETS_PARTITIONS) for group in groups})
    first_last = [
        consumer.get_watermark_offsets(TopicPartition(OFFSETS_TOPIC, number), timeout=START_S)
        for number in numbers
    ]
    starts = [
        TopicPartition(OFFSETS_TOPIC, n, fl[0]) for n, fl in zip(numbers, first_last, strict=True)
    ]
    consumer.assign(starts)
    left, records, size = set(numbers), 0, 0
    while left:
        for message in consumer.consume(10_000, timeout=START_S):
            error = message.error()
            if error is None:
                records += 1
                size += len(message.key() or b"") + len(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
    consumer.close()
    written = sum(end for _, end in first_last)
    return f"records {records} of {written} written, {size} bytes, partitions {len(numbers)}"


def memory_of(broker: Process) -> str:
    status = Path(f"/proc/{broker.pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((line for line in lines if line.startswith("VmRSS")), "")


if __name__ == "__main__":
    sys.exit(main())
