"""How old and how many records a topic keeps: where a partition's log is to start by that. Pure.

    by time    batches before the first one that is young enough (retention.ms)
    by size    the oldest batches, while at least retention.bytes remain

A `Ledger` keeps a partition's index from pass to pass, aggregated in groups of about a hundredth of
the retained data: log start rises in such steps, so that a busy partition costs an occasional
registry write instead of one per pass, and a pass without new segments reads nothing.

As in Kafka the maximum timestamp of a group decides, so a record with a timestamp in the future
retains its group and all behind it. A group without timestamps is as old as the object that holds
the last of it, by the store: one request for a group, made only when all before it is old.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from typing import NamedTuple, Protocol

from logstore.config.topics import topic_value
from logstore.formats.index_rows import ROW, Rows
from logstore.formats.keys import segment_key

UNLIMITED = -1
STEPS = 100
NO_TIMESTAMP = -1
SEGMENTS_PER_GROUP = 256
"""In a row: their batches without a timestamp count as written with the last of them."""


class Part(NamedTuple):
    """Records up to below `end` that go together: a batch of the log, or a file of the table."""

    end: int
    byte_count: int
    max_timestamp: int
    """In ms; -1: not known."""
    number: int = 0
    """Of the object that holds it: a segment's seq, or the place among the files."""


class PartObjects(NamedTuple):
    """The objects that parts were read from."""

    key_of: Callable[[int], str]
    """The key of the one with a number (`Part.number`)."""
    per_group: int
    """How many in a row may count as written with the last of them."""


class ListedFile(Protocol):
    """A file that a topic's table lists, as far as retention needs it."""

    @property
    def path(self) -> str: ...
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
    newest_ms: int
    """The maximum timestamp; without timestamps when it was written, -1 as long as not asked."""
    last_number: int
    oldest_ms: int
    first_number: int
    key: str | None = None
    """Of the object that dates it, where no part has a timestamp."""

    def is_before(self, cutoff_ms: int) -> bool:
        """Whether all of it is known to be older."""
        return NO_TIMESTAMP < self.newest_ms < cutoff_ms


class Ledger:
    """One partition: `at` is the offset to read on from, `log_start` where its log is to start."""

    __slots__ = ("_bytes", "_groups", "at", "is_new", "log_start")

    def __init__(self, log_start: int) -> None:
        self.log_start = self.at = log_start
        self.is_new = True
        """Whether nothing was read yet."""
        self._groups: deque[_PartGroup] = deque()
        self._bytes = 0

    def undated(self, policy: Policy, now_ms: int) -> str | None:
        """The key of the object whose age decides next: ask it and say it by `date`; None: none.

        That of the first group that is not old, if it has no timestamps.
        """
        if policy.keep_ms == UNLIMITED:
            return None
        group = self._first_not_old(now_ms - policy.keep_ms)
        return group.key if group is not None and group.newest_ms == NO_TIMESTAMP else None

    def date(self, key: str, written_ms: int) -> None:
        """The object with this key was written at that time, by the store."""
        for group in self._groups:
            if group.key == key:
                group.oldest_ms = group.newest_ms = written_ms

    def wants_more(self, policy: Policy, now_ms: int, up_to: int) -> bool:
        """Whether to read on before deciding; `up_to`: nothing from there on may go."""
        if self.at >= up_to:
            return False
        if policy.keep_bytes != UNLIMITED:
            return True
        cutoff_ms = now_ms - policy.keep_ms
        return not any(group.newest_ms >= cutoff_ms for group in self._groups)

    def take(self, parts: Iterable[Part], policy: Policy, objects: PartObjects) -> None:
        """Aggregate the parts read from `at` on."""
        self.is_new = False
        known_count = len(self._groups)
        for part in parts:
            self._add(part, policy, objects.per_group)
            self.at = max(self.at, part.end)
        # A group that has a key does not go on with other parts: they may be of other objects.
        for group in islice(self._groups, known_count, None):
            if group.newest_ms == NO_TIMESTAMP:
                group.key = objects.key_of(group.last_number)

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

    def _add(self, part: Part, policy: Policy, per_group: int) -> None:
        self._bytes += part.byte_count
        last = self._groups[-1] if self._groups else None
        if last is None or not _belongs(part, last, policy, per_group):
            self._groups.append(_PartGroup(*part, part.max_timestamp, part.number))
            return
        last.end = max(last.end, part.end)
        last.last_number = part.number
        last.byte_count += part.byte_count
        last.oldest_ms = min(last.oldest_ms, part.max_timestamp)
        last.newest_ms = max(last.newest_ms, part.max_timestamp)

    def _first_not_old(self, cutoff_ms: int) -> _PartGroup | None:
        return next((group for group in self._groups if not group.is_before(cutoff_ms)), None)

    def _count_of_old(self, cutoff_ms: int) -> int:
        return sum(1 for _ in takewhile(lambda one: one.is_before(cutoff_ms), self._groups))

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


def _belongs(part: Part, group: _PartGroup, policy: Policy, per_group: int) -> bool:
    """Whether to count `part` with the group before it."""
    if policy.keep_ms != UNLIMITED and not _is_of_a_time(part, group, policy.keep_ms, per_group):
        return False
    if policy.keep_bytes == UNLIMITED:
        return True
    return group.byte_count + part.byte_count <= policy.keep_bytes // STEPS


def _is_of_a_time(part: Part, group: _PartGroup, keep_ms: int, per_group: int) -> bool:
    """Whether what is kept so long may go at once."""
    if part.max_timestamp < 0 or group.newest_ms < 0:
        is_undated = part.max_timestamp < 0 and group.newest_ms < 0 and group.key is None
        return is_undated and part.number - group.first_number < per_group
    oldest_ms = min(group.oldest_ms, part.max_timestamp)
    return max(group.newest_ms, part.max_timestamp) - oldest_ms <= keep_ms // STEPS


def segments_of(chain: int) -> PartObjects:
    """Of `parts_of_rows`."""
    return PartObjects(partial(segment_key, chain), SEGMENTS_PER_GROUP)


def parts_of_rows(rows: Rows, number: int, up_to: int) -> Iterator[Part]:
    """The batches of index rows from `number` on, below `up_to`."""
    for at in range(number * ROW.size, len(rows), ROW.size):
        seq, _, length, _, _, _, base, last, max_timestamp, _, _ = ROW.unpack_from(rows, at)
        if base >= up_to:
            return
        yield Part(last + 1, length, max_timestamp, seq)


def files_of(files: Sequence[ListedFile], key_of: Callable[[str], str]) -> PartObjects:
    """Of `parts_of_files`; `key_of` gives the key of a file's path in its table."""
    return PartObjects(lambda number: key_of(files[number].path), per_group=1)


def parts_of_files(files: Sequence[ListedFile], end: int) -> Iterator[Part]:
    """Files of a table by their first offset; `end` is that of the last of them."""
    for number, file in enumerate(files, 1):
        following = files[number].min_offset if number < len(files) else end
        newest_ms = NO_TIMESTAMP if file.max_timestamp_ms is None else file.max_timestamp_ms
        yield Part(following, file.size_bytes, newest_ms, number - 1)
