"""Appends records of groups; now and then all live keys again, and raises log start to there.

So the next coordinator has little to read, however many commits there were, and no segment of the
chain is kept for long for the records of a quiet partition.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from broker.groups.decisions.batches import encode_changes, encode_newer
from broker.groups.decisions.key_compaction import LogShape, holds_back, is_due
from broker.groups.decisions.newer_records import NewerRecord
from broker.groups.decisions.outcome import Change
from broker.groups.decisions.state import GroupStates
from broker.groups.log_port import PartitionLog
from logstore.epoch.leadership_transitions import committed
from logstore.errors import LogstoreError
from logstore.ports.clock import Clock

RECORDS_PER_BATCH = 500
BATCH_BYTES = 1 << 20
AGAIN_S = 30.0

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Journal:
    """Every append goes through here, so that the partition's size is known."""

    def __init__(
        self,
        log: PartitionLog,
        states: GroupStates,
        shape: LogShape,
        *,
        clock: Clock,
        start: Callable[..., object],
    ) -> None:
        """`start` runs a coroutine in the background."""
        self.last_seq = -1
        """Of the segment that holds the last append."""
        self.rewrite_count = 0
        self._log = log
        self._states = states
        self._shape = shape
        if shape.record_count:
            shape.first_seq = log.committed_end
        self._next_shape: LogShape | None = None
        self._clock = clock
        self._start = start
        self._rewrite_from_s = 0.0

    def append(self, changes: Sequence[Change]) -> None:
        """Append and apply. Raises `LogstoreError` when this broker leads no longer."""
        for part in _parts(changes):
            self._append(part)
        for change in changes:
            self._states.apply(change)
        if is_due(self._shape, self._states.live_count):
            self._begin_rewrite()

    def let_chain_be_trimmed(self) -> None:
        """Append what is live again where its first record is of long ago: now and then called."""
        if holds_back(self._shape, self._states.live_count, self._log.committed_end):
            self._begin_rewrite()

    def _begin_rewrite(self) -> None:
        if (
            self._next_shape is None
            and self._states.newer.is_whole
            and self._clock.monotonic_s() >= self._rewrite_from_s
        ):
            self._next_shape = LogShape()
            self._start(self._rewrite())

    def _append(self, changes: Sequence[Change]) -> None:
        self._append_batch(encode_changes(changes, now_ms=self._clock.now_ms()), len(changes))

    def _append_batch(self, batch: bytes, count: int) -> None:
        seq = self._log.append(batch)
        self.last_seq = seq
        self._shape.appended(count, seq)
        if self._next_shape is not None:
            self._next_shape.appended(count, seq)

    async def _rewrite(self) -> None:
        """Values are looked up when they are written: what changes later is appended after."""
        start = self._log.end
        try:
            for keys in _parts(self._states.keys()):
                changes = [c for key in keys if (c := self._states.recorded(key)) is not None]
                if changes:
                    self._append(changes)
                await self._clock.sleep_s(0)
            for records in _small_parts(self._states.newer.all()):
                now_ms = self._clock.now_ms()
                self._append_batch(encode_newer(records, now_ms=now_ms), len(records))
                await self._clock.sleep_s(0)
            await committed(self._log, self.last_seq)
            await self._log.raise_log_start(start)
            self.rewrite_count += 1
        except LogstoreError as error:
            self._rewrite_from_s = self._clock.monotonic_s() + AGAIN_S
            logger.warning(
                "log start cannot be raised: partition=%d %s", self._log.partition, error
            )
        else:
            assert self._next_shape is not None
            self._shape = self._next_shape
        finally:
            self._next_shape = None


def _small_parts(records: Sequence[NewerRecord]) -> Iterator[list[NewerRecord]]:
    part: list[NewerRecord] = []
    part_bytes = 0
    for one in records:
        if part and (len(part) == RECORDS_PER_BATCH or part_bytes + one.byte_count > BATCH_BYTES):
            yield part
            part, part_bytes = [], 0
        part.append(one)
        part_bytes += one.byte_count
    if part:
        yield part


def _parts(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(islice(rest, RECORDS_PER_BATCH)):
        yield part
