"""What clients of a log saw, and whether that can have been one log.

Names of rules are those of Jepsen's Kafka test where it has one:

    H1   lost            what was acknowledged, or read, is there at the end, at its offset
    H2   doubled         what an idempotent producer sent is there once
    H3   two values      one offset shows one value, to everybody and for ever
    H4   phantom         what is read was sent, to that partition
    H13  real time       an acknowledged offset is above all those acknowledged before it was sent
    H14  watermarks      never go back: not on one broker, nor from a leader epoch to a later
    H17  sequences       of one producer are there once each, in order, without holes
    H18  leader epochs   never fall with the offset
    H20  ack truth       the offset in an acknowledgement is where the value is

Violations are found as soon as they can be and kept as text.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class Partition(NamedTuple):
    topic_id: bytes
    number: int


@dataclass(frozen=True, slots=True)
class Sent:
    """One batch of values as a producer made it, before its first attempt."""

    partition: Partition
    values: tuple[bytes, ...]
    is_idempotent: bool
    acked_before: int
    """The highest offset acknowledged before it was sent."""


class StoredRecord(NamedTuple):
    """One record of the log as it stands at the end."""

    offset: int
    value: bytes
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    sequence: int


@dataclass(slots=True)
class _Seen:
    """What is known of one partition."""

    values: dict[int, bytes] = field(default_factory=dict)
    sent: dict[bytes, Sent] = field(default_factory=dict)
    acked_max: int = -1
    watermarks: dict[int, int] = field(default_factory=dict)
    """Highest served by the leader of each leader epoch."""
    lowest: dict[int, int] = field(default_factory=dict)
    """Lowest served by the leader of each leader epoch."""
    served: dict[int, int] = field(default_factory=dict)
    """Highest served by each broker epoch, as leader or follower."""


class History:
    """One run. Call as things happen; `check_end` with the log that is left."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.acked_count = 0
        self.read_count = 0
        self.served: Counter[str] = Counter()
        self._partitions: dict[Partition, _Seen] = {}
        self._deleted: set[bytes] = set()

    def _of(self, partition: Partition) -> _Seen:
        return self._partitions.setdefault(partition, _Seen())

    def send(self, partition: Partition, values: tuple[bytes, ...], *, idempotent: bool) -> Sent:
        seen = self._of(partition)
        sent = Sent(partition, values, idempotent, seen.acked_max)
        for value in values:
            seen.sent[value] = sent
        return sent

    def ack(self, sent: Sent, base_offset: int) -> None:
        seen = self._of(sent.partition)
        self.acked_count += 1
        if base_offset <= sent.acked_before:
            self._violated("H13", sent.partition, f"acked={base_offset} after={sent.acked_before}")
        for number, value in enumerate(sent.values):
            self._show(sent.partition, base_offset + number, value, "H20")
        seen.acked_max = max(seen.acked_max, base_offset + len(sent.values) - 1)

    def read(self, partition: Partition, offset: int, value: bytes) -> None:
        self.read_count += 1
        self._show(partition, offset, value, "H3")

    def serve_watermark(
        self, partition: Partition, broker_epoch: int, leader_epoch: int | None, watermark: int
    ) -> None:
        """A broker said that the log is committed up to `watermark`; None: as a follower."""
        seen = self._of(partition)
        served = seen.served.get(broker_epoch, 0)
        if watermark < served:
            text = f"broker_epoch={broker_epoch} served={watermark} before={served}"
            self._violated("H14", partition, text)
        seen.served[broker_epoch] = max(served, watermark)
        if leader_epoch is None:
            return
        before = max((w for e, w in seen.watermarks.items() if e <= leader_epoch), default=0)
        after = min((w for e, w in seen.lowest.items() if e > leader_epoch), default=watermark)
        if not before <= watermark <= after:
            text = f"leader_epoch={leader_epoch} served={watermark} before={before} after={after}"
            self._violated("H14", partition, text)
        seen.watermarks[leader_epoch] = max(watermark, seen.watermarks.get(leader_epoch, 0))
        seen.lowest[leader_epoch] = min(watermark, seen.lowest.get(leader_epoch, watermark))

    def acked_end(self, partition: Partition) -> int:
        """Where what is acknowledged by now ends."""
        return self._of(partition).acked_max + 1

    def answer_fetch(self, partition: Partition, watermark: int, acked_end: int) -> None:
        """A fetch was answered as if the log ended at `watermark`, asked after `acked_end`."""
        if watermark < acked_end:
            self._violated("H14", partition, f"stale: answered={watermark} acked={acked_end}")

    def delete(self, topic_id: bytes) -> None:
        """Somebody asked for the topic to be deleted: it need not be there any more."""
        self._deleted.add(topic_id)

    def is_deleted(self, topic_id: bytes) -> bool:
        return topic_id in self._deleted

    def known(self, partition: Partition) -> dict[int, bytes]:
        """What was acknowledged or read so far, by offset."""
        return dict(self._of(partition).values)

    def _show(self, partition: Partition, offset: int, value: bytes, rule: str) -> None:
        seen = self._of(partition)
        if value not in seen.sent:
            self._violated("H4", partition, f"offset={offset} value={value[:40]!r}")
        known = seen.values.setdefault(offset, value)
        if known != value:
            self._violated(rule, partition, f"offset={offset} values={known[:40]!r} {value[:40]!r}")

    def _violated(self, rule: str, partition: Partition, text: str) -> None:
        topic = partition.topic_id.hex()[:8]
        self.violations.append(f"{rule}: topic={topic} partition={partition.number} {text}")

    # The end

    def check_end(self, left: dict[Partition, list[StoredRecord]]) -> None:
        """Compare with the whole log as it is left; topics asked to be deleted may be missing."""
        for partition, seen in self._partitions.items():
            if partition.topic_id in self._deleted:
                continue
            records = left.get(partition)
            if records is None:
                if seen.values:
                    self._violated("H1", partition, "the whole partition is gone")
                continue
            self._check_values(partition, seen, records)
            self._check_sequences(partition, records)

    def _check_values(self, partition: Partition, seen: _Seen, records: list[StoredRecord]) -> None:
        there = {record.offset: record.value for record in records}
        if [record.offset for record in records] != list(range(len(records))):
            self._violated("S3", partition, "offsets are not dense")
        for offset, value in seen.values.items():
            if there.get(offset) != value:
                found = there.get(offset, b"nothing")
                text = f"offset={offset} value={value[:40]!r} there={found[:40]!r}"
                self._violated("H1", partition, text)
        counts = Counter(record.value for record in records)
        for value, count in counts.items():
            sent = seen.sent.get(value)
            if sent is None:
                self._violated("H4", partition, f"value={value[:40]!r}")
            elif count > 1 and sent.is_idempotent:
                self._violated("H2", partition, f"value={value[:40]!r} count={count}")

    def _check_sequences(self, partition: Partition, records: list[StoredRecord]) -> None:
        following: dict[tuple[int, int], int] = {}
        leader_epoch = -1
        for record in records:
            if record.leader_epoch < leader_epoch:
                self._violated("H18", partition, f"offset={record.offset}")
            leader_epoch = record.leader_epoch
            if record.producer_id < 0:
                continue
            producer = (record.producer_id, record.producer_epoch)
            expected = following.get(producer, 0)
            if record.sequence != expected:
                text = f"offset={record.offset} sequence={record.sequence} expected={expected}"
                self._violated("H17", partition, text)
            following[producer] = record.sequence + 1
