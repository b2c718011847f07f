"""Three clients of different make in one group, a thread each; ends with the line `done`.

    python -m tests.clients.mixed_group --bootstrap HOST:PORT

They share four partitions by the one protocol that all of them know, and together read everything.
"""

import argparse
import asyncio
import threading
from collections.abc import Callable

from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from kafka.coordinator.assignors.range import RangePartitionAssignor as KafkaPythonRange

from tests.clients.group_stories import (
    DEADLINE_S,
    RECORDS,
    aiokafka_consumer,
    create,
    fill,
    kafka_python_consumer,
    librdkafka_consumer,
    say,
    take,
    take_by_aiokafka,
    take_by_kafka_python,
)

TOPIC = GROUP = "mixed"
SHARES = [1, 1, 2]


class Together:
    """What all of them have read, and how many partitions each one holds."""

    def __init__(self) -> None:
        self.read: set[int] = set()
        self.sizes: dict[str, int] = {}
        self.failures: list[BaseException] = []
        self._is_over = threading.Event()

    def until(self, name: str, size: Callable[[], int]) -> Callable[[set[int]], bool]:
        def is_over(_: set[int]) -> bool:
            if not self._is_over.is_set():  # those who close first leave more to the others
                self.sizes[name] = size()
                if len(self.read) == RECORDS and sorted(self.sizes.values()) == SHARES:
                    self._is_over.set()
            return self._is_over.is_set()

        return is_over


def librdkafka(bootstrap: str, all_: Together) -> None:
    one = librdkafka_consumer(bootstrap, GROUP, TOPIC, partition_assignment_strategy="range")
    take([one], all_.until("librdkafka", lambda: len(one.assignment())), all_.read)
    one.close()


def kafka_python(bootstrap: str, all_: Together) -> None:
    strategy = [KafkaPythonRange]
    one = kafka_python_consumer(bootstrap, GROUP, TOPIC, partition_assignment_strategy=strategy)
    take_by_kafka_python(
        [one], all_.until("kafka-python", lambda: len(one.assignment())), all_.read
    )
    one.close()


def by_aiokafka(bootstrap: str, all_: Together) -> None:
    async def story() -> None:
        strategy = (AiokafkaRange,)
        async with aiokafka_consumer(
            bootstrap, GROUP, TOPIC, partition_assignment_strategy=strategy
        ) as one:
            enough = all_.until("aiokafka", lambda: len(one.assignment()))
            await take_by_aiokafka([one], enough, all_.read)

    asyncio.run(story())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    bootstrap = parser.parse_args().bootstrap
    create(bootstrap, TOPIC)
    fill(bootstrap, TOPIC)
    all_ = Together()

    def guarded(work: Callable[[str, Together], None]) -> None:
        try:
            work(bootstrap, all_)
        except BaseException as error:  # noqa: BLE001 - raised below
            all_.failures.append(error)

    works = (librdkafka, kafka_python, by_aiokafka)
    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * DEADLINE_S)
    assert not all_.failures, all_.failures
    assert sorted(all_.sizes.values()) == SHARES, all_.sizes
    say("done")


if __name__ == "__main__":
    main()
