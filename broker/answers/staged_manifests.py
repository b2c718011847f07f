"""Manifests that adopt requests name: read once, however many ask, and kept for a while.

A driver that had no answer asks again, and finds its manifest here.
"""

import asyncio
from collections import OrderedDict

from logstore.errors import Corrupt, LogstoreError
from logstore.formats.staging_keys import SinkBatch
from logstore.protocol.staged_reads import ReadManifest, read_manifest
from logstore.runners.step_runner import StepRunner

KEPT_MAX = 64
KEPT_BYTES_MAX = 64 << 20


class StagedManifests:
    def __init__(self, runner: StepRunner, cluster_id: bytes) -> None:
        self._runner = runner
        self._cluster_id = cluster_id
        self._kept: OrderedDict[SinkBatch, ReadManifest] = OrderedDict()
        self._bytes = 0
        self._reading: dict[SinkBatch, asyncio.Future[ReadManifest]] = {}

    async def get(self, batch: SinkBatch, nonce: bytes, turn: asyncio.Semaphore) -> ReadManifest:
        """The manifest of `batch`. Raises `NotFound`, `Corrupt` (also for one of another nonce),
        `Refused`, or as the store does."""
        kept = self._kept.get(batch)
        read = kept if kept is not None else await self._read_once(batch, turn)
        if read.manifest.nonce != nonce:
            self._forget(batch)
            raise Corrupt(f"manifest is another one than was asked for: key={batch.manifest_key}")
        return read

    async def _read_once(self, batch: SinkBatch, turn: asyncio.Semaphore) -> ReadManifest:
        while (reading := self._reading.get(batch)) is not None:
            try:
                return await asyncio.shield(reading)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling() or not reading.cancelled():
                    raise
                # Only the caller that was reading it was cancelled; now this one reads.
        return await self._read(batch, turn)

    async def _read(self, batch: SinkBatch, turn: asyncio.Semaphore) -> ReadManifest:
        future: asyncio.Future[ReadManifest] = asyncio.get_running_loop().create_future()
        self._reading[batch] = future
        try:
            async with turn:
                read = await self._runner.run(read_manifest(batch, self._cluster_id))
        except (LogstoreError, asyncio.CancelledError) as error:
            _end(future, error)
            raise
        finally:
            del self._reading[batch]
        self._keep(batch, read)
        future.set_result(read)
        return read

    def _keep(self, batch: SinkBatch, read: ReadManifest) -> None:
        self._forget(batch)
        self._kept[batch] = read
        self._bytes += len(read.data)
        while len(self._kept) > KEPT_MAX or (self._bytes > KEPT_BYTES_MAX and len(self._kept) > 1):
            self._forget(next(iter(self._kept)))

    def _forget(self, batch: SinkBatch) -> None:
        dropped = self._kept.pop(batch, None)
        self._bytes -= 0 if dropped is None else len(dropped.data)


def _end(
    future: "asyncio.Future[ReadManifest]", error: LogstoreError | asyncio.CancelledError
) -> None:
    if isinstance(error, LogstoreError):
        future.set_exception(error)
        future.exception()  # there may be no other waiter
    else:
        future.cancel()
