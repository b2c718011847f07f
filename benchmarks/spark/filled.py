"""One load in both places: a log without a broker, and a node of Apache Kafka that serves it."""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType

from benchmarks.load import Load, new_topic, produce
from benchmarks.peers.kafka import start_kafka
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server, Start, running, stop
from benchmarks.spark.values import checksum, values_of

PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    rows: int
    crc: int
    """The sum of all values' CRC-32."""


@dataclass(frozen=True, slots=True)
class Place:
    """Spark's options for reading there; `brokers` are the processes that have to run for it."""

    format: str
    options: dict[str, str]
    brokers: tuple[int, ...]
    topic: Topic


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
        server, topic = self._fill(start_logstore)
        stop(server.processes)
        return Place("logstore", {"path": str(server.directory)}, (), topic)

    @cached_property
    def kafka(self) -> Place:
        server, topic = self._fill(start_kafka)
        options = {"kafka.bootstrap.servers": server.bootstrap}
        return Place("kafka", options, tuple(one.pid for one in server.processes), topic)

    def _fill(self, start: Start) -> tuple[Server, Topic]:
        server = self._servers.enter_context(running(start))
        name = new_topic(server.bootstrap, partitions=PARTITIONS)
        produce(server.bootstrap, name, self._load, spread=PARTITIONS, values=self._values)
        os.sync()  # else pages that are not on disk yet would be written during the first read
        rows = self._load.record_count
        return server, Topic(name, rows, checksum(self._values, rows))

    @cached_property
    def _values(self) -> list[bytes]:
        return list(values_of(self._kind, self._load.record_bytes))
