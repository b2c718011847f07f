"""Row of a partition: its leader, its leaderships, its log start. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, NamedTuple

from logstore.errors import Corrupt
from logstore.formats.row_fields import NUMBERS, OPTIONAL_INT, decode_row, encode_row
from logstore.formats.topic_partition import TopicPartition
from logstore.ports.registry import Row

PARTITION_SPREAD = 16


class EpochEntry(NamedTuple):
    """One leadership as the partition's row lists it: `chain` is a broker epoch."""

    leader_epoch: int
    chain: int
    start: int


NO_BROKER = -1
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


def _epoch_ranges_of(text: str) -> tuple[EpochEntry, ...]:
    return tuple(EpochEntry(*map(int, item)) for item in json.loads(text))


_EPOCH_RANGES = NUMBERS._replace(decode=_epoch_ranges_of, name="stretches")


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
    epoch_ranges: Annotated[tuple[EpochEntry, ...], _EPOCH_RANGES]
    replicas: Annotated[tuple[int, ...], NUMBERS] = ()
    reassigning: Annotated[tuple[int, ...], NUMBERS] = ()
    target: int = NO_BROKER
    start_reason: str = ""
    edited_end: Annotated[int, OPTIONAL_INT] = 0

    def row(self) -> Row:
        return encode_row(self)

    def leadership(self) -> Row:
        """The attributes that a leader change writes; none of those that rise independently."""
        return {name: value for name, value in self.row().items() if name not in RISING_FIELDS}

    @staticmethod
    def of(row: Row) -> "PartitionRow":
        decoded = decode_row(PartitionRow, row)
        if not decoded.epoch_ranges or decoded.epoch_ranges[-1][:2] != (
            decoded.leader_epoch,
            decoded.chain,
        ):
            raise Corrupt("partition row: its last epoch range is not its leader's")
        return decoded if decoded.replicas else replace(decoded, replicas=(decoded.broker,))

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
            target=NO_BROKER,
        )

    def end_of(self, number: int) -> int | None:
        """End offset of epoch range `number`: where the next starts; None for the current one."""
        following = self.epoch_ranges[number + 1 :]
        return following[0].start if following else None


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
