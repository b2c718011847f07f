"""Indexes of staged objects that adopt requests read: each once, those read last kept.

A manifest of up to `KEPT_MAX` objects is counted and copied, by all requests about it, with one
read of each index. Of a larger one each index is read twice, first to count its batches.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from broker.answers.kept_reads import KeptReads
from broker.network.turns import Turns
from logstore.errors import LogstoreError
from logstore.formats.staged_object import StagedIndex, StagedRef
from logstore.formats.staging_keys import SinkBatch
from logstore.protocol.sinks.staged_reads import read_staged_index
from logstore.runners.step_runner import StepRunner, outcome_of

KEPT_MAX = 64
KEPT_BYTES_MAX = 16 << 20
"""Of indexes as they are stored."""
AT_ONCE_MAX = 16
"""Read ahead by one request."""

Front = tuple[SinkBatch, StagedRef]
Visit = Callable[[StagedRef, StagedIndex], Awaitable[bool]]
"""Whether to go on with the next object."""


class StagedFronts:
    def __init__(
        self,
        runner: StepRunner,
        cluster_id: bytes,
        store_reads: asyncio.Semaphore,
        turns: Turns,
    ) -> None:
        self._turns = turns
        self._runner = runner
        self._cluster_id = cluster_id
        self._store_reads = store_reads
        self.kept: KeptReads[Front, StagedIndex] = KeptReads(
            self._read,
            lambda index: index.header.index_bytes,
            count_max=KEPT_MAX,
            weight_max=KEPT_BYTES_MAX,
        )

    async def visit_all(
        self,
        batch: SinkBatch,
        refs: Sequence[StagedRef],
        at_once: Callable[[], int],
        visit: Visit,
    ) -> None:
        """Call `visit` with each index, in order; `at_once` says how many may be read ahead.

        Raises the first error, once all before it were visited.
        """
        waiting: deque[tuple[StagedRef, asyncio.Task[StagedIndex | LogstoreError]]] = deque()
        begun = 0
        try:
            async with asyncio.TaskGroup() as tasks:
                async for _ in self._turns.share(refs):  # those that are kept are there at once
                    while begun < len(refs) and len(waiting) < at_once():
                        ref = refs[begun]
                        waiting.append((ref, tasks.create_task(self._get(batch, ref))))
                        begun += 1
                    ref, task = waiting.popleft()
                    index = await task
                    if isinstance(index, LogstoreError):
                        raise index
                    if not await visit(ref, index):
                        break
                for _, task in waiting:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _get(self, batch: SinkBatch, ref: StagedRef) -> StagedIndex | LogstoreError:
        return await outcome_of(self.kept.get((batch, ref)))

    async def _read(self, front: Front) -> StagedIndex:
        batch, ref = front
        async with self._store_reads:
            return await self._runner.run(read_staged_index(batch, ref, self._cluster_id))
