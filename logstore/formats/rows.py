"""Rows of the registry, one value class each: fields and their attribute names.

    pk                sk                      row
    cluster           cluster                 ClusterRow
    broker            <id>                    BrokerRow
    chain             <epoch, 20 digits>      ChainRow
    topic             <name>                  TopicRow
    partition/<0-f>   <topic id>/<n>          PartitionRow, spread by topic id and n
    lease             <what>                  LeaseRow
    change            feed                    FeedRow
    table             <topic id>              TableRow        (both in `table_rows`)
    compaction        <run>                   CompactionRow
    trim              <topic id>              see `protocol.verified_versions`

Decoding a row that lacks an attribute, or has one of another type, is `Corrupt`; attributes that
came later have a default. Pure.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from logstore.errors import Corrupt
from logstore.formats.row_fields import field_of, id_of, json_of
from logstore.formats.table_rows import COMPACTION as COMPACTION
from logstore.formats.table_rows import COMPACTOR as COMPACTOR
from logstore.formats.table_rows import TABLE as TABLE
from logstore.formats.table_rows import CompactionRow as CompactionRow
from logstore.formats.table_rows import TableRow as TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.ports.registry import Row

CLUSTER = "cluster"
BROKER = "broker"
CHAIN = "chain"
TOPIC = "topic"
LEASE = "lease"
CHANGE, FEED = "change", "feed"
PARTITION_SPREAD = 16
FORMAT_LEVEL = 1
"""Formats this version can write; a cluster whose row says more is refused."""


@dataclass(frozen=True, slots=True)
class ClusterRow:
    cluster_id: bytes
    next_epoch: int
    format_level: int

    def row(self) -> Row:
        return {
            "cluster_id": self.cluster_id.hex(),
            "next_epoch": self.next_epoch,
            "format_level": self.format_level,
        }

    @staticmethod
    def of(row: Row) -> "ClusterRow":
        return ClusterRow(
            id_of(row, "cluster_id"),
            field_of(row, "next_epoch", int),
            field_of(row, "format_level", int),
        )


class BrokerStatus(StrEnum):
    SERVING = "serving"
    DRAINING = "draining"
    """Hands its partitions over and wants no more of them."""
    STOPPED = "stopped"
    """Clean shutdown: its lease need not be waited for."""
    FENCED = "fenced"
    """Taken for dead by the controller: it can renew no more, and finds out when it tries."""


class Address(NamedTuple):
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """`lock` names the file lock its process holds; `heartbeat` only ever grows.

    `host` and `port` are those of the first listener; `listeners` has the address of each, by name.
    """

    epoch: int
    heartbeat: int
    host: str
    port: int
    rack: str
    lock: str
    status: BrokerStatus = BrokerStatus.SERVING
    put_age_ms: int = 0
    """How long its oldest put has been waiting for an answer; 0 when none waits."""
    committed_end: int = 0
    """First seq of its chain that was not committed at its last heartbeat: the store answers it."""
    followed: tuple[int, ...] = ()
    """Chains of other brokers whose tail it has seen lately, and can serve consumers from."""
    listeners: Mapping[str, Address] = field(default_factory=dict)

    def row(self) -> Row:
        return {
            "epoch": self.epoch,
            "heartbeat": self.heartbeat,
            "host": self.host,
            "port": self.port,
            "rack": self.rack,
            "lock": self.lock,
            "status": self.status.value,
            "put_age_ms": self.put_age_ms,
            "committed_end": self.committed_end,
            "followed": json.dumps(self.followed, separators=(",", ":")),
            "listeners": json.dumps(dict(self.listeners), sort_keys=True),
        }

    @staticmethod
    def of(row: Row) -> "BrokerRow":
        try:
            status = BrokerStatus(field_of(row, "status", str, BrokerStatus.SERVING.value))
            known = json_of(row, "listeners").items() if "listeners" in row else ()
            followed = tuple(map(int, json_of(row, "followed"))) if "followed" in row else ()
            listeners = {str(name): Address(str(host), int(port)) for name, (host, port) in known}
        except (AttributeError, TypeError, ValueError) as error:
            raise Corrupt(f"broker row with bad listeners, status or chains: {error}") from error
        return BrokerRow(
            epoch=field_of(row, "epoch", int),
            heartbeat=field_of(row, "heartbeat", int),
            host=field_of(row, "host", str),
            port=field_of(row, "port", int),
            rack=field_of(row, "rack", str),
            lock=field_of(row, "lock", str),
            status=status,
            put_age_ms=field_of(row, "put_age_ms", int, 0),
            committed_end=field_of(row, "committed_end", int, 0),
            followed=followed,
            listeners=listeners,
        )

    def address(self, listener: str) -> Address:
        """Where clients of `listener` reach this broker; without one of that name, by its first."""
        return self.listeners.get(listener) or Address(self.host, self.port)


class ChainStatus(StrEnum):
    OPEN = "open"
    FENCED = "fenced"
    SEALED = "sealed"


NO_SEAL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRow:
    """`trim`, `checkpoint`, `seal` and `deleted` only go up; a checkpoint of 0 is none yet."""

    broker: int
    status: ChainStatus
    trim: int = 0
    checkpoint: int = 0
    seal: int = NO_SEAL
    trim_ms: int = 0
    """When the trim point was published."""
    deleted: int = 0
    """Segments below it are deleted; opening and seal never are."""

    def row(self) -> Row:
        return {
            "broker": self.broker,
            "status": self.status.value,
            "trim": self.trim,
            "checkpoint": self.checkpoint,
            "seal": self.seal,
            "trim_ms": self.trim_ms,
            "deleted": self.deleted,
        }

    @staticmethod
    def of(row: Row) -> "ChainRow":
        try:
            status = ChainStatus(field_of(row, "status", str))
        except ValueError as error:
            raise Corrupt(f"chain row with an unknown status: {error}") from error
        return ChainRow(
            broker=field_of(row, "broker", int),
            status=status,
            trim=field_of(row, "trim", int),
            checkpoint=field_of(row, "checkpoint", int),
            seal=field_of(row, "seal", int),
            trim_ms=field_of(row, "trim_ms", int, 0),
            deleted=field_of(row, "deleted", int, 0),
        )


class TopicStatus(StrEnum):
    LIVE = "live"
    DELETING = "deleting"
    DELETED = "deleted"
    """Kept for a while: a put of this row that was given up as lost would find its place free."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    topic_id: bytes
    status: TopicStatus
    partitions: int
    configs: Mapping[str, str]
    replicas: int = 1
    """Replicas per partition that were asked for; answers show no more than there are brokers."""
    version: int = 0
    """Goes up with every change: of the record in the store that says the same. 0: none does."""

    def row(self) -> Row:
        return {
            "topic_id": self.topic_id.hex(),
            "status": self.status.value,
            "partitions": self.partitions,
            "replicas": self.replicas,
            "configs": json.dumps(dict(self.configs), sort_keys=True),
            "version": self.version,
        }

    @staticmethod
    def of(row: Row) -> "TopicRow":
        configs = json_of(row, "configs")
        if not isinstance(configs, dict):
            raise Corrupt("topic row: configs is not an object")
        try:
            status = TopicStatus(field_of(row, "status", str))
        except ValueError as error:
            raise Corrupt(f"topic row with an unknown status: {error}") from error
        return TopicRow(
            id_of(row, "topic_id"),
            status,
            field_of(row, "partitions", int),
            {str(name): str(value) for name, value in configs.items()},
            field_of(row, "replicas", int, 1),
            field_of(row, "version", int, 0),
        )


class EpochEntry(NamedTuple):
    """One leadership as the partition's row lists it: `chain` is a broker epoch."""

    leader_epoch: int
    chain: int
    start: int


NOBODY = -1
START_FIELDS = ("log_start", "start_reason")
RISING_FIELDS = (*START_FIELDS, "edited_end")


class StartReason(StrEnum):
    """Why a log start was raised."""

    RETENTION = "retention"
    RECORDS_DELETED = "records deleted"
    REWRITTEN = "rewritten"
    """Live keys of the records below were appended again."""
    RESTORED = "restored"
    """Nothing below was stored any more when the registry was rebuilt."""

    def to(self, log_start: int) -> str:
        """As a partition's row has it."""
        return f"{self.value}: {log_start}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """`epoch_ranges` are in leader epoch order; the last is the current one.

    `start_reason` says why log start was last raised, and to where: `start_reason()`.
    `replicas` are broker ids, the preferred leader first. `target` is the broker that is to lead
    next: the leader releases the partition to it. `reassigning`, where it is not empty, replaces
    `replicas` with the next leadership. Below `edited_end` only the topic's table is read.
    """

    broker: int
    chain: int
    leader_epoch: int
    log_start: int
    epoch_ranges: tuple[EpochEntry, ...]
    replicas: tuple[int, ...] = ()
    reassigning: tuple[int, ...] = ()
    target: int = NOBODY
    start_reason: str = ""
    edited_end: int = 0

    def row(self) -> Row:
        return {
            "broker": self.broker,
            "chain": self.chain,
            "leader_epoch": self.leader_epoch,
            "log_start": self.log_start,
            "start_reason": self.start_reason,
            "stretches": json.dumps(self.epoch_ranges, separators=(",", ":")),
            "replicas": json.dumps(self.replicas, separators=(",", ":")),
            "reassigning": json.dumps(self.reassigning, separators=(",", ":")),
            "target": self.target,
            **({"edited_end": self.edited_end} if self.edited_end else {}),
        }

    def leadership(self) -> Row:
        """The attributes that a leader change writes; none of those that rise independently."""
        return {name: value for name, value in self.row().items() if name not in RISING_FIELDS}

    @staticmethod
    def of(row: Row) -> "PartitionRow":
        try:
            epoch_ranges = tuple(EpochEntry(*map(int, item)) for item in json_of(row, "stretches"))
            replicas = _brokers(row, "replicas")
            reassigning = _brokers(row, "reassigning")
        except (TypeError, ValueError) as error:
            raise Corrupt(f"partition row: bad epoch ranges or replicas: {error}") from error
        broker = field_of(row, "broker", int)
        found = PartitionRow(
            broker=broker,
            chain=field_of(row, "chain", int),
            leader_epoch=field_of(row, "leader_epoch", int),
            log_start=field_of(row, "log_start", int),
            epoch_ranges=epoch_ranges,
            replicas=replicas or (broker,),
            reassigning=reassigning,
            target=field_of(row, "target", int, NOBODY),
            start_reason=field_of(row, "start_reason", str, ""),
            edited_end=field_of(row, "edited_end", int, 0),
        )
        if not epoch_ranges or epoch_ranges[-1][:2] != (found.leader_epoch, found.chain):
            raise Corrupt("partition row: its last epoch range is not its leader's")
        return found

    @staticmethod
    def new(broker: int, chain: int, replicas: Sequence[int] = ()) -> "PartitionRow":
        """The row of a partition without an earlier leader."""
        return PartitionRow(
            broker=broker,
            chain=chain,
            leader_epoch=0,
            log_start=0,
            epoch_ranges=(EpochEntry(0, chain, 0),),
            replicas=tuple(replicas) or (broker,),
        )

    def taken_by(
        self, *, broker: int, chain: int, start: int, known_from: int = 0
    ) -> "PartitionRow":
        """The row of the next leadership, which starts at offset `start`.

        `known_from` is the newest leader epoch with a committed leadership-begin entry: it and all
        later ones stay listed, earlier ones only while they hold offsets from log start on.
        """
        epoch = self.leader_epoch + 1
        epoch_ranges = (*self.epoch_ranges, EpochEntry(epoch, chain, start))
        kept = [
            ref
            for ref, following in pairwise(epoch_ranges)
            if ref.leader_epoch >= known_from or following.start > max(ref.start, self.log_start)
        ]
        return replace(
            self,
            broker=broker,
            chain=chain,
            leader_epoch=epoch,
            epoch_ranges=(*kept, epoch_ranges[-1]),
            replicas=self.reassigning or self.replicas,
            reassigning=(),
            target=NOBODY,
        )

    def end_of(self, number: int) -> int | None:
        """End offset of epoch range `number`: where the next starts; None for the current one."""
        following = self.epoch_ranges[number + 1 :]
        return following[0].start if following else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """Holder of a lease. `epoch` rises with each new owner, `heartbeat` with each renewal."""

    owner: int
    owner_epoch: int
    epoch: int
    heartbeat: int

    def row(self) -> Row:
        return {
            "owner": self.owner,
            "owner_epoch": self.owner_epoch,
            "epoch": self.epoch,
            "heartbeat": self.heartbeat,
        }

    @staticmethod
    def of(row: Row) -> "LeaseRow":
        return LeaseRow(
            owner=field_of(row, "owner", int),
            owner_epoch=field_of(row, "owner_epoch", int),
            epoch=field_of(row, "epoch", int),
            heartbeat=field_of(row, "heartbeat", int),
        )


class FeedChange(NamedTuple):
    """A changed row: a topic's, or one of its partitions' (`partition` not -1)."""

    topic: str
    topic_id: bytes
    partition: int = -1


_TOPIC_OF = itemgetter(0, 1)
FEED_CHANGES_KEPT = 600
FEED_RUNS_KEPT = 64
"""Runs of changes of one topic. With names of 20 letters no more than 7 KB in all, and about 3 KB
after a takeover in one topic: watchers read all of it all the time, and pay by 4 KB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRow:
    """The latest changes of topics and partitions, a hint for watchers.

    `version` counts all changes there ever were; `changes` are the last of them.
    """

    version: int = 0
    changes: tuple[FeedChange, ...] = ()

    def row(self) -> Row:
        changes = [
            (topic, topic_id.hex(), [number for _, _, number in run])
            for (topic, topic_id), run in groupby(self.changes, key=_TOPIC_OF)
        ]
        return {
            "version": self.version,
            "changes": json.dumps(changes, separators=(",", ":")),
        }

    @staticmethod
    def of(row: Row) -> "FeedRow":
        try:
            changes = tuple(
                FeedChange(str(topic), bytes.fromhex(topic_id), int(number))
                for topic, topic_id, numbers in json_of(row, "changes")
                # A number by itself: an earlier version wrote it.
                for number in (numbers if isinstance(numbers, list) else [numbers])
            )
        except (TypeError, ValueError) as error:
            raise Corrupt(f"change feed: bad changes: {error}") from error
        return FeedRow(version=field_of(row, "version", int), changes=changes)

    def with_changes(self, changes: Sequence[FeedChange]) -> "FeedRow":
        kept = (*self.changes, *changes)[-FEED_CHANGES_KEPT:]
        runs = [len(list(run)) for _, run in groupby(kept, key=_TOPIC_OF)]
        dropped = sum(runs[:-FEED_RUNS_KEPT])
        return FeedRow(version=self.version + len(changes), changes=kept[dropped:])

    def since(self, version: int) -> Sequence[FeedChange] | None:
        """Changes after the first `version` ones; None: too long ago, or of another feed."""
        count = self.version - version
        if not 0 <= count <= len(self.changes):
            return None
        return self.changes[len(self.changes) - count :]


def chain_sk(epoch: int) -> str:
    return f"{epoch:020d}"


def partition_pk(topic_id: bytes, partition: int) -> str:
    return f"partition/{(topic_id[0] + partition) % PARTITION_SPREAD:x}"


def partition_pks() -> list[str]:
    """Every pk that partition rows may have."""
    return [f"partition/{digit:x}" for digit in range(PARTITION_SPREAD)]


def partition_sk(topic_id: bytes, partition: int) -> str:
    return f"{topic_id.hex()}/{partition:06d}"


def topic_partition_of(sk: str) -> TopicPartition:
    """Topic id and partition of a partition row's sk."""
    topic_id, _, partition = sk.partition("/")
    try:
        return TopicPartition(bytes.fromhex(topic_id), int(partition))
    except ValueError as error:
        raise Corrupt(f"partition row with a strange key: sk={sk}") from error


def _brokers(row: Row, name: str) -> tuple[int, ...]:
    return tuple(map(int, json_of(row, name))) if name in row else ()
