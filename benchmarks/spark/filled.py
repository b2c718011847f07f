"""One load in both places: a log without a broker, and a node of Apache Kafka that serves it."""

import os
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from benchmarks.load import Load, new_topic, produce_share, settings_of_share
from benchmarks.options import Options
from benchmarks.peers.kafka import start_kafka
from benchmarks.peers.log_place import log_place
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server, running, stop
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
    proxy: str | None = None
    """Before the bucket: it counts requests."""


class Filled:
    """Servers are started and filled when they are first asked for, and end with the `with`."""

    def __init__(self, kind: str, load: Load, options: Options) -> None:
        self._kind = kind
        settings = {**load.settings, **settings_of_share(options.share)}
        # A segment holds a whole batch at least.
        settings["batch.size"] = min(int(settings["batch.size"]), options.segment_bytes)
        self._load = replace(load, settings=settings)
        self._options = options
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
        folder = Path(self._servers.enter_context(TemporaryDirectory(prefix="logstore-bench-")))
        place = self._servers.enter_context(log_place(self._options, folder))
        settings = self._options.fill_settings
        server = start_logstore(folder, place=place, settings=settings)
        try:
            topic = self._produce(server)
        finally:
            stop(server.processes)
        place.far()
        return Place("logstore", {"path": place.url, **place.storage}, (), topic, place.proxy)

    @cached_property
    def kafka(self) -> Place:
        server = self._servers.enter_context(running(start_kafka))
        topic = self._produce(server)
        options = {"kafka.bootstrap.servers": server.bootstrap}
        return Place("kafka", options, tuple(one.pid for one in server.processes), topic)

    def _produce(self, server: Server) -> Topic:
        name = new_topic(server.bootstrap, partitions=PARTITIONS)
        rows = produce_share(
            server.bootstrap,
            name,
            self._load,
            share=self._options.share,
            spread=PARTITIONS,
            values=self._values,
        )
        os.sync()  # else pages that are not on disk yet would be written during the first read
        return Topic(name, rows, checksum(self._values, rows))

    @cached_property
    def _values(self) -> list[bytes]:
        return list(values_of(self._kind, self._load.record_bytes))
