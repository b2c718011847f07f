"""Retention over a whole log without a broker, for `logstore gc`: raises log starts in rows. Pure.

It knows what checkpoints hold, which is committed, and changes a row as its leader would: while it
names that leadership, upwards only. A live leader hears of it by the change feed.

Brokers' retention (`log.retention.ms`) is not stored in the log. So a topic is swept by its own
configs, and by defaults only if the caller gives them; `logstore gc` gives the cleanup policy that
brokers published.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from logstore.config.topics import TOPIC_SETTINGS
from logstore.errors import LogstoreError, NotFound
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import PartitionRow, StartReason
from logstore.formats.topic_row import TopicStatus
from logstore.protocol.deletion.records_deletion import Raise, raise_log_starts
from logstore.protocol.partitions.epoch_ranges import ChainCheckpoints, locate_offset
from logstore.protocol.partitions.index_cache import IndexCache
from logstore.protocol.rows.changes import publish
from logstore.protocol.rows.metadata import read_partition_rows, read_topics
from logstore.protocol.rules.retention import (
    Ledger,
    ListedFile,
    Policy,
    files_of,
    parts_of_files,
    parts_of_rows,
    segments_of,
)
from logstore.protocol.steps import BelievedMs, ModifiedMs, Steps, retried

OFFSET_MAX = 2**63 - 1
ATTEMPTS_MAX = 5
FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}
INTERNAL = "__"
"""Prefix of the names of internal topics."""


class TableSnapshot(Protocol):
    """A version of a topic's table, as far as retention needs it."""

    def end(self, partition: int) -> int | None: ...

    def files_for(self, partition: int, start: int, end: int) -> Sequence[ListedFile]: ...

    def key_of(self, path: str) -> str: ...


class Kept(NamedTuple):
    """A topic that does not keep everything."""

    name: str
    policy: Policy


@dataclass(slots=True)
class Swept:
    """Result of a sweep. `troubles`: partitions that could not be read, one line each."""

    raised: int = 0
    troubles: list[str] = field(default_factory=list)


def topics_to_sweep(defaults: Mapping[str, str]) -> Steps[dict[bytes, Kept]]:
    """By topic id; `defaults` are configs of topics that say nothing themselves."""
    builtin = {name: setting.default for name, setting in TOPIC_SETTINGS.items()}
    defaults = {**builtin, **FOR_EVER, **defaults}
    topics = yield from read_topics()
    return {
        row.topic_id: Kept(name, policy)
        for name, row in topics.items()
        if row.status is TopicStatus.LIVE
        and not name.startswith(INTERNAL)
        and (policy := Policy.of(row.configs, defaults)) is not None
    }


def sweep(topics: Mapping[bytes, Kept], snapshots: Mapping[bytes, TableSnapshot]) -> Steps[Swept]:
    """Raise log starts of the partitions of `topics`; `snapshots` are of those with a table."""
    done = Swept()
    now_ms: int = yield BelievedMs()
    checkpoints = ChainCheckpoints(IndexCache())
    wanted: list[Raise] = []
    for (topic_id, number), row in (yield from read_partition_rows()).items():
        kept = topics.get(topic_id)
        if kept is None:
            continue
        look = _PartitionSweep(
            topic_id, number, row, kept.policy, checkpoints, snapshots.get(topic_id)
        )
        try:
            offset = yield from look.decide(now_ms)
        except LogstoreError as error:
            done.troubles.append(f"topic={kept.name} partition={number}: {error}")
            continue
        if offset > row.log_start:
            leads = row.chain, row.leader_epoch
            wanted.append(Raise(topic_id, number, *leads, offset, StartReason.RETENTION))
    outcomes = yield from raise_log_starts(wanted)
    changes = []
    for one, outcome in zip(wanted, outcomes, strict=True):
        name = topics[one.topic_id].name
        if isinstance(outcome, int):
            changes.append(FeedChange(name, one.topic_id, one.partition))
        elif outcome is not None:
            done.troubles.append(f"topic={name} partition={one.partition}: {outcome}")
    if changes:
        yield from publish(changes)
    done.raised = len(changes)
    return done


class _PartitionSweep(NamedTuple):
    """One partition by its row, the checkpoints of its chains, and its table."""

    topic_id: bytes
    number: int
    row: PartitionRow
    policy: Policy
    checkpoints: ChainCheckpoints
    snapshot: TableSnapshot | None

    def decide(self, now_ms: int) -> Steps[int]:
        """Where its log is to start. Raises as the store does."""
        ledger = Ledger(self.row.log_start)
        self._read_table(ledger)
        while True:
            key = ledger.undated(self.policy, now_ms)
            if key is not None:
                ledger.date(key, (yield from written_ms(key, now_ms)))
                continue
            if not ledger.wants_more(self.policy, now_ms, OFFSET_MAX):
                break
            located = yield from locate_offset(
                self.checkpoints, self.topic_id, self.number, self.row.epoch_ranges, ledger.at
            )
            if located is None:
                break
            parts = parts_of_rows(located.rows, located.number, OFFSET_MAX)
            ledger.take(parts, self.policy, segments_of(located.chain))
        return ledger.decide(self.policy, now_ms, self.row.log_start)

    def _read_table(self, ledger: Ledger) -> None:
        end = None if self.snapshot is None else self.snapshot.end(self.number)
        if self.snapshot is None or end is None or end <= ledger.at:
            return
        files = self.snapshot.files_for(self.number, ledger.at, end)
        source = files_of(files, self.snapshot.key_of)
        ledger.take(parts_of_files(files, end), self.policy, source)
        ledger.skip_to(end)


def written_ms(key: str, now_ms: int) -> Steps[int]:
    """When the store took the object; `now_ms` if it is gone: nothing in it is known to be older.

    Raises as the store does.
    """
    try:
        modified_ms: int = yield from retried(ModifiedMs(key), attempts_max=ATTEMPTS_MAX)
    except NotFound:
        return now_ms
    return modified_ms
