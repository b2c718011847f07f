"""A log in a directory, written by a broker's `Log` in a thread: for tests of readers."""

import asyncio
import random
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from logstore.epoch.log import Log, LogSettings
from logstore.epoch.writer import ChainLimits
from logstore.errors import LogstoreError
from logstore.ports.clock import SystemClock
from logstore.protocol.chain.flush import FlushSettings
from logstore.protocol.leading.start import BrokerInfo
from logstore.protocol.rows.metadata import read_brokers, read_partition_row
from logstore.records.arrow import decode_to_arrow
from logstore.records.batch import check_batch, read_header
from logstore.wiring.open import open_log

T = TypeVar("T")

WAIT_S = 60.0
CLOCK = SystemClock()


class LogOnDisk:
    """One life of one broker: `with LogOnDisk(directory) as log`. A later one takes over.

    A bucket's URL will do as well, with `storage` settings, if it has been made a log.
    """

    def __init__(
        self,
        directory: Path | str,
        storage: Mapping[str, str] | None = None,
        *,
        checkpoint_segments: int = 8,
        topic_defaults: Mapping[str, str] | None = None,
    ) -> None:
        """`topic_defaults`: configs that its topics have where they say nothing."""
        self.directory = directory
        self.storage = storage or {}
        self._settings = LogSettings(
            flush=FlushSettings(interval_s=0.002),
            limits=ChainLimits(checkpoint_segments=checkpoint_segments),
        )
        self._topic_defaults = topic_defaults or {}
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="log-on-disk")

    def __enter__(self) -> "LogOnDisk":
        self._thread.start()
        assert self._ready.wait(WAIT_S)
        self._raise_failure()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WAIT_S)
        if error is None:
            self._raise_failure()

    def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> bytes:
        """The new topic's id; every partition can be read."""

        async def create() -> bytes:
            topic = await self._log.create_topic(name, partitions, configs or {})
            return topic.topic_id

        return self._call(create())

    def create_partitions(self, name: str, count: int) -> None:
        """Let a topic grow to `count` partitions."""
        self._call(self._log.create_partitions(name, count))

    def delete_topic(self, name: str) -> None:
        self._call(self._log.delete_topic(name))

    def append(self, topic: str, partition: int, *batches: bytes) -> None:
        """Append batches to one partition and wait until all are committed."""
        self.append_all([(topic, partition, batch) for batch in batches])

    def append_all(
        self, batches: Sequence[tuple[str, int, bytes]], *, append_time_ms: int | None = None
    ) -> None:
        """Append (topic, partition, batch) in this order, as one request, and wait."""

        async def append() -> None:
            seq = 0
            for topic, partition, batch in batches:
                leader = self._log.topics[topic].leaders[partition]
                data = memoryview(batch)
                seq = leader.append(data, check_batch(data, 0, len(data)), append_time_ms).seq
            await self._committed(seq)

        self._call(append())

    def fetch(self, topic: str, partition: int) -> list[int]:
        """The offsets that a consumer gets from log start on, once the broker knows its row."""
        return self._call(self._fetch(topic, partition))

    def fetch_chunk(
        self, topic: str, partition: int, offset: int, bytes_max: int
    ) -> tuple[list[int], int]:
        """The offsets that one fetch gives from `offset` on, and where the next one begins."""

        async def fetch() -> tuple[list[int], int]:
            leader = self._log.topics[topic].leaders[partition]
            chunk = await self._log.read(leader, offset, leader.high_watermark, bytes_max)
            return [n for n in offsets_in(chunk.buffers) if n >= offset], chunk.end_offset

        return self._call(fetch())

    async def _fetch(self, topic: str, partition: int) -> list[int]:
        leader = self._log.topics[topic].leaders[partition]
        row = await self._runner.run(read_partition_row(leader.topic_id, partition))
        assert row is not None
        async with asyncio.timeout(WAIT_S):
            while leader.edited_end < row.edited_end:
                self._log.look_again()
                await CLOCK.sleep_s(0.01)
        found: list[int] = []
        offset, end = leader.log_start, leader.high_watermark
        while offset < end:
            chunk = self._log.read_in_memory(leader, offset, end, 1 << 20)
            if chunk is None:
                chunk = await self._log.read(leader, offset, end, 1 << 20)
            found += [n for n in offsets_in(chunk.buffers) if n >= offset]
            offset = chunk.end_offset
        return found

    def heartbeat(self) -> None:
        """Wait until the broker's row says how far its chain is committed now."""
        self._call(self._heartbeat())

    async def _heartbeat(self) -> None:
        async with asyncio.timeout(WAIT_S):
            while True:
                broker = (await self._runner.run(read_brokers()))[1]
                if broker.committed_end == self._log.writer.committed_end:
                    return
                await CLOCK.sleep_s(0.01)

    def end(self, topic: str, partition: int) -> int:
        return self._log.topics[topic].leaders[partition].high_watermark

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(WAIT_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:  # noqa: BLE001 - the test's thread raises it
            self._failure = error
        finally:
            self._ready.set()

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        opened = await open_log(
            str(self.directory), clock=CLOCK, rng=random.Random(0), storage=self.storage
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                me = BrokerInfo(
                    1, "localhost", 9092, "", "the lock", topic_defaults=self._topic_defaults
                )
                self._runner = opened.runner
                self._log = await Log.start(opened, me, self._settings, tasks)
                self._ready.set()
                await self._stop.wait()
                assert await self._log.close(timeout_s=WAIT_S)
                raise _Stopped
        except* _Stopped:
            pass
        finally:
            await opened.close()

    async def _committed(self, seq: int) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: LogstoreError | None) -> None:
            future.set_exception(error) if error else future.set_result(None)

        self._log.when_committed(seq, done)
        await future

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


class _Stopped(Exception):
    """Ends the tasks of a broker that has closed its log."""


def offsets_in(buffers: Sequence[memoryview]) -> Iterator[int]:
    """Of the records in whole batches, one after the other."""
    data = b"".join(buffers)
    at = 0
    while at < len(data):
        header = read_header(data, at, len(data))
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12])
        rows = decode_to_arrow(
            [memoryview(data)[at:end]],
            start=header.base_offset,
            end=header.next_offset,
            columns=["offset"],
            rows_max=10_000,
            bytes_max=1 << 20,
            payload_bytes_max=1 << 28,
        )
        for batch in rows:
            yield from batch.column("offset").to_pylist()
        at = end
