"""Rows of the registry, one value class each: what they hold and how it is spelt.

    pk                sk                      row
    cluster           cluster                 ClusterRow
    broker            <id>                    BrokerRow
    chain             <epoch, 20 digits>      ChainRow
    topic             <name>                  TopicRow
    partition/<0-f>   <topic id>/<n>          PartitionRow, spread by topic id and n

Decoding a row that lacks an attribute, or has one of another type, is `Corrupt`. Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from logstore.errors import Corrupt
from logstore.registry.store import Row, Value

V = TypeVar("V", str, int)

CLUSTER = "cluster"
BROKER = "broker"
CHAIN = "chain"
TOPIC = "topic"
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
            _hex(row, "cluster_id"),
            _field(row, "next_epoch", int),
            _field(row, "format_level", int),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """`lock` names the file lock its process holds; `heartbeat` only ever grows."""

    epoch: int
    heartbeat: int
    host: str
    port: int
    rack: str
    lock: str

    def row(self) -> Row:
        return {
            "epoch": self.epoch,
            "heartbeat": self.heartbeat,
            "host": self.host,
            "port": self.port,
            "rack": self.rack,
            "lock": self.lock,
        }

    @staticmethod
    def of(row: Row) -> "BrokerRow":
        return BrokerRow(
            epoch=_field(row, "epoch", int),
            heartbeat=_field(row, "heartbeat", int),
            host=_field(row, "host", str),
            port=_field(row, "port", int),
            rack=_field(row, "rack", str),
            lock=_field(row, "lock", str),
        )


class ChainStatus(StrEnum):
    OPEN = "open"
    FENCED = "fenced"
    SEALED = "sealed"


NO_SEAL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRow:
    """`trim`, `checkpoint` and `seal` only go up; a checkpoint of 0 is none yet."""

    broker: int
    status: ChainStatus
    trim: int = 0
    checkpoint: int = 0
    seal: int = NO_SEAL

    def row(self) -> Row:
        return {
            "broker": self.broker,
            "status": self.status.value,
            "trim": self.trim,
            "checkpoint": self.checkpoint,
            "seal": self.seal,
        }

    @staticmethod
    def of(row: Row) -> "ChainRow":
        try:
            status = ChainStatus(_field(row, "status", str))
        except ValueError as error:
            raise Corrupt(f"chain row with an unknown status: {error}") from error
        return ChainRow(
            broker=_field(row, "broker", int),
            status=status,
            trim=_field(row, "trim", int),
            checkpoint=_field(row, "checkpoint", int),
            seal=_field(row, "seal", int),
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

    def row(self) -> Row:
        return {
            "topic_id": self.topic_id.hex(),
            "status": self.status.value,
            "partitions": self.partitions,
            "configs": json.dumps(dict(self.configs), sort_keys=True),
        }

    @staticmethod
    def of(row: Row) -> "TopicRow":
        configs = _json(row, "configs")
        if not isinstance(configs, dict):
            raise Corrupt("topic row: configs is not an object")
        try:
            status = TopicStatus(_field(row, "status", str))
        except ValueError as error:
            raise Corrupt(f"topic row with an unknown status: {error}") from error
        return TopicRow(
            _hex(row, "topic_id"),
            status,
            _field(row, "partitions", int),
            {str(name): str(value) for name, value in configs.items()},
        )


class StretchRef(NamedTuple):
    """One leadership as the partition's row lists it: `chain` is a broker epoch."""

    leader_epoch: int
    chain: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """`stretches` are in leader epoch order; the last is the current one."""

    broker: int
    chain: int
    leader_epoch: int
    log_start: int
    stretches: tuple[StretchRef, ...]

    def row(self) -> Row:
        return {
            "broker": self.broker,
            "chain": self.chain,
            "leader_epoch": self.leader_epoch,
            "log_start": self.log_start,
            "stretches": json.dumps(self.stretches, separators=(",", ":")),
        }

    @staticmethod
    def of(row: Row) -> "PartitionRow":
        try:
            stretches = tuple(StretchRef(*map(int, item)) for item in _json(row, "stretches"))
        except (TypeError, ValueError) as error:
            raise Corrupt(f"partition row: bad stretches: {error}") from error
        found = PartitionRow(
            broker=_field(row, "broker", int),
            chain=_field(row, "chain", int),
            leader_epoch=_field(row, "leader_epoch", int),
            log_start=_field(row, "log_start", int),
            stretches=stretches,
        )
        if not stretches or stretches[-1][:2] != (found.leader_epoch, found.chain):
            raise Corrupt("partition row: its last stretch is not its leader's")
        return found

    def taken_by(self, *, broker: int, chain: int, start: int) -> "PartitionRow":
        """The row of the next leadership, which starts at offset `start`."""
        epoch = self.leader_epoch + 1
        return PartitionRow(
            broker=broker,
            chain=chain,
            leader_epoch=epoch,
            log_start=self.log_start,
            stretches=(*self.stretches, StretchRef(epoch, chain, start)),
        )

    def end_of(self, number: int) -> int | None:
        """End offset of stretch `number`: where the next starts; None for the current one."""
        following = self.stretches[number + 1 :]
        return following[0].start if following else None


def chain_sk(epoch: int) -> str:
    return f"{epoch:020d}"


def partition_pk(topic_id: bytes, partition: int) -> str:
    return f"partition/{(topic_id[0] + partition) % PARTITION_SPREAD:x}"


def partition_pks() -> list[str]:
    """Every pk that partition rows may have."""
    return [f"partition/{digit:x}" for digit in range(PARTITION_SPREAD)]


def partition_sk(topic_id: bytes, partition: int) -> str:
    return f"{topic_id.hex()}/{partition:06d}"


def topic_partition_of(sk: str) -> tuple[bytes, int]:
    """Topic id and partition of a partition row's sk."""
    topic_id, _, partition = sk.partition("/")
    try:
        return bytes.fromhex(topic_id), int(partition)
    except ValueError as error:
        raise Corrupt(f"partition row with a strange key: sk={sk}") from error


def _field(row: Row, name: str, kind: type[V]) -> V:
    value: Value | None = row.get(name)
    if not isinstance(value, kind):
        raise Corrupt(f"registry row lacks an attribute: name={name} type={kind.__name__}")
    return value


def _hex(row: Row, name: str) -> bytes:
    try:
        value = bytes.fromhex(_field(row, name, str))
    except ValueError as error:
        raise Corrupt(f"registry row with a bad id: name={name}") from error
    if len(value) != 16:
        raise Corrupt(f"registry row with a bad id: name={name} bytes={len(value)}")
    return value


def _json(row: Row, name: str) -> Any:
    try:
        return json.loads(_field(row, name, str))
    except ValueError as error:
        raise Corrupt(f"registry row with bad JSON: name={name}") from error
