"""How old and how many records a topic keeps: where a partition's log is to start by that. Pure.

    by time    batches before the first one that is young enough (retention.ms)
    by size    the oldest batches, while at least retention.bytes remain

A `Ledger` keeps a partition's index from pass to pass, aggregated in groups of about a hundredth of
the retained data: log start rises in such steps, so that a busy partition costs an occasional
registry write instead of one per pass, and a pass without new segments reads nothing.

As in Kafka the maximum timestamp of a group decides, so a record with a timestamp in the future
retains its group and all behind it. A batch without a timestamp is deleted only with a later one.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from logstore.config.topics import topic_value
from logstore.formats.index_rows import ROW, Rows

UNLIMITED = -1
STEPS = 100
NO_TIMESTAMP = -1


class Part(NamedTuple):
    """Records up to below `end` that go together: a batch of the log, or a file of the table."""

    end: int
    byte_count: int
    max_timestamp: int
    """In ms; -1: not known."""


class ListedFile(Protocol):
    """A file that a topic's table lists, as far as retention needs it."""

    @property
    def size_bytes(self) -> int: ...
    @property
    def min_offset(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int | None: ...


class Policy(NamedTuple):
    """Retention of each partition; -1: no limit."""

    keep_ms: int
    keep_bytes: int

    @staticmethod
    def of(configs: Mapping[str, str], defaults: Mapping[str, str]) -> "Policy | None":
        """Of a topic with these configs; None: it only compacts, or keeps everything."""
        policy = topic_value("cleanup.policy", configs, defaults)
        keep_ms = topic_value("retention.ms", configs, defaults)
        keep_bytes = topic_value("retention.bytes", configs, defaults)
        assert isinstance(policy, tuple)
        assert isinstance(keep_ms, int)
        assert isinstance(keep_bytes, int)
        if "delete" not in policy or (keep_ms == keep_bytes == UNLIMITED):
            return None
        return Policy(keep_ms, keep_bytes)


@dataclass(slots=True)
class _PartGroup:
    end: int
    byte_count: int
    oldest_ms: int
    newest_ms: int


class Ledger:
    """One partition: `at` is the offset to read on from, `log_start` where its log is to start."""

    __slots__ = ("_bytes", "_groups", "at", "is_new", "log_start")

    def __init__(self, log_start: int) -> None:
        self.log_start = self.at = log_start
        self.is_new = True
        """Whether nothing was read yet."""
        self._groups: deque[_PartGroup] = deque()
        self._bytes = 0

    def wants_more(self, policy: Policy, now_ms: int, up_to: int) -> bool:
        """Whether to read on before deciding; `up_to`: nothing from there on may go."""
        if self.at >= up_to:
            return False
        if policy.keep_bytes != UNLIMITED:
            return True
        cutoff_ms = now_ms - policy.keep_ms
        return not any(group.newest_ms >= cutoff_ms for group in self._groups)

    def take(self, parts: Iterable[Part], policy: Policy) -> None:
        """Aggregate the parts read from `at` on."""
        self.is_new = False
        for part in parts:
            self._add(part, policy)
            self.at = max(self.at, part.end)

    def skip_to(self, end: int) -> None:
        """Nothing lies between `at` and `end`."""
        self.at = max(self.at, end)

    def decide(self, policy: Policy, now_ms: int, log_start: int) -> int:
        """Where the log is to start, `log_start` (where it does) or above."""
        if log_start > self.log_start:
            self._drop_below(log_start)
        if policy.keep_bytes != UNLIMITED:
            self._drop(self._count_of_surplus(policy.keep_bytes))
        if policy.keep_ms != UNLIMITED:
            self._drop(self._count_of_old(now_ms - policy.keep_ms))
        return self.log_start

    def _add(self, part: Part, policy: Policy) -> None:
        self._bytes += part.byte_count
        last = self._groups[-1] if self._groups else None
        if last is None or not _belongs(part, last, policy):
            self._groups.append(_PartGroup(*part, part.max_timestamp))
            return
        last.end = max(last.end, part.end)
        last.byte_count += part.byte_count
        last.oldest_ms = min(last.oldest_ms, part.max_timestamp)
        last.newest_ms = max(last.newest_ms, part.max_timestamp)

    def _count_of_old(self, cutoff_ms: int) -> int:
        count = 0
        for number, group in enumerate(self._groups, 1):
            if group.newest_ms >= cutoff_ms:
                break
            if group.newest_ms > NO_TIMESTAMP:
                count = number
        return count

    def _count_of_surplus(self, keep_bytes: int) -> int:
        count, left = 0, self._bytes
        for group in self._groups:
            left -= group.byte_count
            if left < keep_bytes:
                break
            count += 1
        return count

    def _drop(self, count: int) -> None:
        for _ in range(count):
            group = self._groups.popleft()
            self._bytes -= group.byte_count
            self.log_start = max(self.log_start, group.end)

    def _drop_below(self, log_start: int) -> None:
        """Log start was raised elsewhere. A group that it cuts through counts as a whole."""
        while self._groups and self._groups[0].end <= log_start:
            self._drop(1)
        self.log_start = log_start
        self.at = max(self.at, log_start)


def _belongs(part: Part, group: _PartGroup, policy: Policy) -> bool:
    """Whether to count `part` with the group before it."""
    if (part.max_timestamp < 0) != (group.newest_ms < 0):
        return False
    oldest_ms = min(group.oldest_ms, part.max_timestamp)
    newest_ms = max(group.newest_ms, part.max_timestamp)
    if policy.keep_ms != UNLIMITED and newest_ms - oldest_ms > policy.keep_ms // STEPS:
        return False
    if policy.keep_bytes == UNLIMITED:
        return True
    return group.byte_count + part.byte_count <= policy.keep_bytes // STEPS


def parts_of_rows(rows: Rows, number: int, up_to: int) -> Iterator[Part]:
    """The batches of index rows from `number` on, below `up_to`."""
    for at in range(number * ROW.size, len(rows), ROW.size):
        _, _, length, _, _, _, base, last, max_timestamp, _, _ = ROW.unpack_from(rows, at)
        if base >= up_to:
            return
        yield Part(last + 1, length, max_timestamp)


def parts_of_files(files: Sequence[ListedFile], end: int) -> Iterator[Part]:
    """Files of a table by their first offset; `end` is that of the last of them."""
    for number, file in enumerate(files, 1):
        following = files[number].min_offset if number < len(files) else end
        newest_ms = NO_TIMESTAMP if file.max_timestamp_ms is None else file.max_timestamp_ms
        yield Part(following, file.size_bytes, newest_ms)
