"""A partition, led or followed, as the readers of a broker see it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from logstore.formats.chain_state import EpochKey
from logstore.formats.index_rows import Rows
from logstore.formats.partition_row import EpochEntry
from logstore.formats.topic_partition import TopicPartition


class Readable(Protocol):
    """A partition that can be read here: a `Leader`, or a `Followed`."""

    topic_id: bytes
    partition: int
    topic_partition: TopicPartition
    log_start: int
    high_watermark: int
    edited_end: int
    """Below it the topic's table is read, and no segment: its owner changed rows there."""

    @property
    def epoch_ranges(self) -> Sequence[EpochEntry]: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def key(self) -> EpochKey: ...

    @property
    def log_end(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...

    @property
    def first_offset_in_memory(self) -> int: ...

    def rows_for_offset(self, offset: int) -> tuple[Rows, int]: ...

    def rows_for_time(self, timestamp: int, from_offset: int = 0) -> tuple[Rows, int] | None: ...

    def max_timestamp_below(self, offset: int) -> tuple[int, int]: ...

    def raise_log_start(self, offset: int) -> None:
        """Log start is at least `offset`, by the partition's row."""
        ...

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]: ...

    def unwatch(self, watcher: Callable[[], None]) -> None: ...
