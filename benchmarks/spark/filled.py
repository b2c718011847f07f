"""One load in both places: a log without a broker, and a node of Apache Kafka that serves it."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from types import TracebackType

from benchmarks.load import Load, new_topic, produce
from benchmarks.peers.kafka import start_kafka
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server, Start, running, stop
from benchmarks.spark.values import checksum, values_of

PARTITIONS = 4
WARM_UP_SHARE = 4
"""The topic that is read before has this part of the records."""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    rows: int
    crc: int
    """The sum of all values' CRC-32."""


@dataclass(frozen=True, slots=True)
class Place:
    """What Spark needs to read there. `brokers` are the processes that have to run meanwhile."""

    format: str
    options: dict[str, str]
    brokers: tuple[int, ...]
    topic: Topic
    warm_up: Topic


class Filled:
    """Servers are started and filled when they are first asked for, and end with the `with`."""

    def __init__(self, kind: str, load: Load) -> None:
        self._kind = kind
        self._load = load
        self._servers = ExitStack()

    def __enter__(self) -> "Filled":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._servers.close()

    @cached_property
    def log(self) -> Place:
        """Its broker has gone: the objects and the registry's file are all there is."""
        server, topic, warm_up = self._fill(start_logstore)
        stop(server.processes)
        return Place("logstore", {"path": str(server.directory)}, (), topic, warm_up)

    @cached_property
    def kafka(self) -> Place:
        server, topic, warm_up = self._fill(start_kafka)
        options = {"kafka.bootstrap.servers": server.bootstrap}
        brokers = tuple(one.pid for one in server.processes)
        return Place("kafka", options, brokers, topic, warm_up)

    def _fill(self, start: Start) -> tuple[Server, Topic, Topic]:
        server = self._servers.enter_context(running(start))
        small = replace(self._load, total_bytes=self._load.total_bytes // WARM_UP_SHARE)
        topic, warm_up = (self._topic(server, load) for load in (self._load, small))
        os.sync()  # what is still to be written to disk would be written during the first read
        return server, topic, warm_up

    def _topic(self, server: Server, load: Load) -> Topic:
        name = new_topic(server.bootstrap, partitions=PARTITIONS)
        produce(server.bootstrap, name, load, spread=PARTITIONS, values=self._values)
        return Topic(name, load.record_count, checksum(self._values, load.record_count))

    @cached_property
    def _values(self) -> list[bytes]:
        return list(values_of(self._kind, self._load.record_bytes))


Choose = Callable[[Filled], Place]
