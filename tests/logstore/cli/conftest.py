"""A log on disk, the same to the byte on every run, and the `logstore` command on it."""

import asyncio
import json
import random
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from logstore.cli.main import main
from logstore.epoch.log import Log, LogSettings, Topic
from logstore.objects.directory import DirectoryStore
from logstore.objects.metered import StoreCounts
from logstore.ports.objects import Buffer, ObjectInfo
from logstore.ports.registry import Condition, Row
from logstore.protocol.chain.identity import ensure_identity
from logstore.protocol.leading.start import BrokerInfo
from logstore.records.batch import Codec, read_header
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.registry.retrying import RetryingRegistry
from logstore.registry.sqlite import SqliteRows
from logstore.runners.step_runner import StepRunner
from logstore.stores.backends import EMBEDDED_REGISTRY
from logstore.stores.location import DirectoryLocation
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock, run
from logstore.wiring.open import OpenLog


class InlineStore:
    """A directory as an asynchronous store without threads, for virtual time."""

    def __init__(self, directory: Path) -> None:
        self._store = DirectoryStore(directory)

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        self._store.create(key, parts)

    async def get(self, key: str) -> bytes:
        return self._store.get(key)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._store.get_range(key, start, length)

    async def delete(self, key: str) -> None:
        self._store.delete(key)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        for info in self._store.list(prefix):
            yield info

    async def close(self) -> None:
        self._store.close()


class InlineRows:
    """A registry file as asynchronous rows without a thread of the loop's."""

    def __init__(self, path: Path) -> None:
        self._rows = SqliteRows(path).blocking()

    async def get(self, pk: str, sk: str) -> Row | None:
        return self._rows.get(pk, sk)

    async def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        return self._rows.query(pk, prefix, after=after, limit=limit)

    async def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self._rows.put_if(pk, sk, row, conditions, write_id)

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self._rows.update_if(pk, sk, sets, conditions, write_id)

    async def delete_if(
        self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self._rows.delete_if(pk, sk, conditions, write_id)

    async def close(self) -> None:
        self._rows.close()


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Answer]


@pytest.fixture
def logstore(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `logstore ARGUMENTS` in this process."""

    def run_command(*arguments: object) -> Answer:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    return run_command


@pytest.fixture
def written(written_once: Path, tmp_path: Path) -> Path:
    """A copy of the log that `written_once` tells of, to do with as one likes."""
    return Path(shutil.copytree(written_once, tmp_path / "log"))


@pytest.fixture(scope="session")
def written_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two broker epochs of a log with two topics; the second epoch did not end cleanly.

    Chain 1: `orders` of two partitions and `notes` of one, three segments of records, closed with a
    checkpoint. Chain 2: takes all three over, two more segments, no checkpoint.
    """
    directory = tmp_path_factory.mktemp("written")
    run(_write(directory))
    return directory


async def _write(directory: Path) -> None:
    nonces = (number.to_bytes(16, "big") for number in count(1))
    await _one_epoch(directory, lambda: next(nonces), _first_epoch)
    await _one_epoch(directory, lambda: next(nonces), _second_epoch)


async def _one_epoch(
    directory: Path, draw_nonce: Callable[[], bytes], story: Callable[[Log], Any]
) -> None:
    clock, rng = VirtualClock(), random.Random(0)
    write_ids = count(1)
    registry = RetryingRegistry(
        InlineRows(directory / "registry.db"), lambda: f"w{next(write_ids)}", clock, rng
    )
    runner = StepRunner(InlineStore(directory), registry, clock, rng, draw_nonce)
    identity = await runner.run(ensure_identity(EMBEDDED_REGISTRY))
    opened = OpenLog(DirectoryLocation(directory), runner, identity, StoreCounts())
    me = BrokerInfo(broker=1, host="127.0.0.1", port=9092, rack="", lock="lock")
    group = asyncio.TaskGroup()
    try:
        async with group as tasks:
            log = await Log.start(opened, me, LogSettings(), tasks)
            await story(log)
            log.writer.stop()
            raise _EpochOver
    except* _EpochOver:
        pass
    await opened.close()


class _EpochOver(Exception): ...


async def _first_epoch(log: Log) -> None:
    orders = await log.create_topic("orders", 2, {"retention.ms": "1000"})
    notes = await log.create_topic("notes", 1, {})
    await produce(log, orders, 0, [("a", "first"), ("b", "second")], headers={"seq": b"\x00\x01"})
    await produce(log, orders, 1, [(None, "no key")], compression="lz4")
    await produce(log, notes, 0, [("n", None)])
    assert await log.close(timeout_s=60)


async def _second_epoch(log: Log) -> None:
    await produce(log, log.topics["orders"], 0, [("c", "third")])
    await produce(log, log.topics["notes"], 0, [("n", "\x00\x07")])


async def produce(
    log: Log,
    topic: Topic,
    partition: int,
    pairs: Sequence[tuple[str | None, str | None]],
    *,
    headers: Mapping[str, bytes] | None = None,
    compression: Codec = "none",
) -> None:
    """Append one batch and wait until it is committed: one segment."""
    records = [
        Record(
            number,
            EPOCH_MS + number,
            None if key is None else key.encode(),
            None if value is None else value.encode(),
            tuple((headers or {}).items()),
        )
        for number, (key, value) in enumerate(pairs)
    ]
    batch = memoryview(encode_batch(records, compression=compression))
    appended = topic.leaders[partition].append(batch, read_header(batch, 0, len(batch)))
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    log.when_committed(
        appended.seq,
        lambda error: done.set_result(None) if error is None else done.set_exception(error),
    )
    await done
