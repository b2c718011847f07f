"""Manifests that adopt requests name, and how far their batches are counted; kept for a while.

A driver that had no answer asks again, and finds its manifest here, with all that was counted.
"""

import asyncio
from dataclasses import dataclass, field

from broker.answers.kept_reads import KeptReads
from logstore.errors import Corrupt
from logstore.formats.staging_keys import SinkBatch
from logstore.protocol.sinks.staged_counts import StagedCounts
from logstore.protocol.sinks.staged_reads import ReadManifest, read_manifest
from logstore.runners.step_runner import StepRunner

KEPT_MAX = 64
KEPT_BYTES_MAX = 64 << 20
OBJECT_BYTES, PARTITION_BYTES = 40, 300
"""Memory of a staged object and of a partition that a manifest names, beside its bytes."""


@dataclass(frozen=True, slots=True)
class KeptManifest:
    read: ReadManifest
    counts: StagedCounts
    counting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the request that counts; others wait, and go on with what it has counted."""

    @property
    def bytes(self) -> int:
        head = self.read.manifest.head
        lines = OBJECT_BYTES * len(head.objects) + PARTITION_BYTES * len(head.rows)
        return len(self.read.data) + lines


class StagedManifests:
    def __init__(
        self, runner: StepRunner, cluster_id: bytes, store_reads: asyncio.Semaphore
    ) -> None:
        self._runner = runner
        self._cluster_id = cluster_id
        self._store_reads = store_reads
        self._kept: KeptReads[SinkBatch, KeptManifest] = KeptReads(
            self._read, lambda kept: kept.bytes, count_max=KEPT_MAX, weight_max=KEPT_BYTES_MAX
        )

    async def get(self, batch: SinkBatch, nonce: bytes) -> KeptManifest:
        """The manifest of `batch`. Raises `NotFound`, `Corrupt` (also for one of another nonce),
        `Refused`, or as the store does."""
        kept = await self._kept.get(batch)
        if kept.read.manifest.nonce != nonce:
            self._kept.forget(batch)
            raise Corrupt(f"manifest is another one than was asked for: key={batch.manifest_key}")
        return kept

    async def _read(self, batch: SinkBatch) -> KeptManifest:
        async with self._store_reads:
            read = await self._runner.run(read_manifest(batch, self._cluster_id))
        return KeptManifest(read, StagedCounts(read.manifest))
