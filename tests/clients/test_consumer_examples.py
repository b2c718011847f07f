"""The consumers of the examples keep their promises when they are killed in the midst."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker
from tests.scenarios.harness.process import ROOT, Process

pytestmark = pytest.mark.clients

DEADLINE_S = 60.0
PARTITIONS, EACH = 2, 1500
BATCH, SMALL_BATCH = 1000, 100
VALUE = "order " + "x" * 100  # a batch of them is more than a pipe holds
END = "end"  # the last record of a partition, written after the kill

Place = tuple[int, int]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    sooner = ("--set", "group.initial.rebalance.delay.ms=200")
    with start_broker(str(tmp_path_factory.mktemp("log")), more=sooner) as broker:
        yield bootstrap_of(broker)


def fill(bootstrap: str, topic: str) -> set[Place]:
    """The places of all records that there are now, and of the ends yet to come."""
    create_topic(bootstrap, topic, PARTITIONS)
    write(bootstrap, topic, [VALUE] * EACH)
    return {(partition, offset) for partition in range(PARTITIONS) for offset in range(EACH + 1)}


def write(bootstrap: str, topic: str, values: list[str]) -> None:
    """To each partition."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for value in values:
        for partition in range(PARTITIONS):
            producer.produce(topic, value=value, partition=partition)
    assert producer.flush(DEADLINE_S) == 0


def command(name: str, bootstrap: str, topic: str, batch: int, *more: str) -> list[str]:
    # As a static member: one that is killed leaves no ghost that the group has to wait for.
    group = ("--group", f"{topic}-readers", "--instance", "one", "--batch-records", str(batch))
    return [f"examples.consumers.{name}", "--bootstrap", bootstrap, "--topic", topic, *group, *more]


def kill_after(line_count: int, arguments: list[str]) -> list[str]:
    """What it said until it was killed. Meanwhile it cannot say more than fills the pipe."""
    child = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    with child:
        try:
            lines = [child.stdout.readline() for _ in range(line_count)]
        finally:
            child.kill()
        lines += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL
    return lines


def places(lines: list[str]) -> list[Place]:
    fields = [line.split(maxsplit=2) for line in lines if line.endswith("\n")]
    return [(int(partition), int(offset)) for partition, offset, _ in fields]


def finish(arguments: list[str]) -> list[str]:
    """What a second run says until it has come to the end, and was asked to stop."""
    with Process(arguments) as child:
        for partition in range(PARTITIONS):
            child.wait_for(rf"^{partition} \d+ {END}$", deadline_s=DEADLINE_S)
        child.send(signal.SIGTERM)
        assert child.wait(deadline_s=DEADLINE_S) == 0, child.lines
        return [f"{line}\n" for line in child.lines]


def killed_and_run_again(name: str, bootstrap: str, topic: str) -> tuple[set[Place], list[Place]]:
    """What there is, and what was worked on by two runs, the first of which was killed."""
    written = fill(bootstrap, topic)
    arguments = command(name, bootstrap, topic, BATCH)
    first = places(kill_after(BATCH + 100, arguments))  # in its second batch
    write(bootstrap, topic, [END])
    return written, first + places(finish(arguments))


def test_at_most_once_does_nothing_twice_and_loses_a_batch_at_most(bootstrap: str) -> None:
    written, done = killed_and_run_again("at_most_once", bootstrap, "at-most-once")

    assert max(Counter(done).values()) == 1
    assert set(done) <= written
    assert len(written - set(done)) <= BATCH


def test_at_least_once_misses_nothing_and_repeats_a_batch_at_most(bootstrap: str) -> None:
    written, done = killed_and_run_again("at_least_once", bootstrap, "at-least-once")

    assert set(done) == written
    assert len(done) - len(written) <= BATCH


def test_read_process_write_has_an_output_for_every_input(bootstrap: str, tmp_path: Path) -> None:
    topic, output = "to-process", "processed"
    create_topic(bootstrap, output, PARTITIONS)
    written = fill(bootstrap, topic)
    arguments = command("read_process_write", bootstrap, topic, SMALL_BATCH, "--output", output)
    kill_after(3, arguments)
    write(bootstrap, topic, [END])

    with Process(arguments) as child:
        read_until_ends(bootstrap, output)
        child.send(signal.SIGTERM)
        assert child.wait(deadline_s=DEADLINE_S) == 0, child.lines
    found = read_until_ends(bootstrap, output)

    assert set(found) == written
    assert len(found) - len(written) <= SMALL_BATCH
    assert without_repeats(found) == sorted(written)


def read_until_ends(bootstrap: str, topic: str) -> list[Place]:
    """Partition and input's offset of all outputs, to the last of each partition."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    found: list[Place] = []
    for partition in range(PARTITIONS):
        consumer.assign([TopicPartition(topic, partition, 0)])
        value = b""
        while value != END.upper().encode():
            message = consumer.poll(DEADLINE_S)
            assert message is not None, f"only {len(found)} came"
            assert message.error() is None, message.error()
            key, value = message.key(), message.value() or b""
            assert key is not None
            found.append((partition, int(key)))
    consumer.close()
    return found


def without_repeats(found: list[Place]) -> list[Place]:
    """As a reader does it who remembers one offset per partition."""
    highest = dict.fromkeys(range(PARTITIONS), -1)
    kept = []
    for partition, offset in found:
        if offset > highest[partition]:
            highest[partition] = offset
            kept.append((partition, offset))
    return kept
