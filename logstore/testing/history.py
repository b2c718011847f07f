"""The answers that clients of a log got, and whether one log can have given them.

Names of rules are those of Jepsen's Kafka test where it has one:

    H1   lost            what was acknowledged, or read, is there at the end, at its offset
    H2   doubled         what an idempotent producer sent is there once
    H3   two values      one offset shows one value, to everybody and for ever
    H4   phantom         what is read was sent, to that partition
    H7   skip            a consumer sees offsets without holes, unless its position was reset
    H8   step back       ... and in order
    H9   sends           what one idempotent producer sends lies in the order in which it was sent
    H11  unseen          every acknowledged record was read by a consumer, once all has been read
    H13  real time       an acknowledged offset is above all acknowledged or read before it was sent
    H14  watermarks      never go back: not on one broker, nor from a leader epoch to a later; log
                         start neither, and only to a requested offset
    H17  sequences       of one producer are there once each, in order, without holes
    H18  leader epochs   never fall with the offset
    H20  ack truth       the offset in an acknowledgement is where the value is
    H21  edits           rows that the owner of a table deleted are not read once that is final
    H22  retention       raises a log start above no record that was young at that time and that no
                         owner had deleted; by size, only while enough remains

H12, cycles of who saw whose: a request here is about one partition, so what has an order in real
time in each of them has one in all (Herlihy and Wing: linearizability is local). H13 and "stale" of
H14 demand just that. Violations are found as soon as they can be and kept as text.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from logstore.testing.seen import Expiry, KnownBefore, Partition, Seen, Sent, StoredRecord
from logstore.testing.surplus import Surplus, bytes_left_max

__all__ = ["SEQUENCE_MAX", "ClientHistory", "KnownBefore", "Partition", "Sent", "StoredRecord"]

SEQUENCE_MAX = 2**31 - 1
"""Sequences wrap to 0 after it."""


class ClientHistory:
    """One run. Call as things happen; `check_end` with the log that is left."""

    def __init__(self, report: Callable[[str], None] = lambda text: None) -> None:
        self.violations: list[str] = []
        self.acked_count = 0
        self.read_count = 0
        self._report = report
        self._sent_count = 0
        self._partitions: dict[Partition, Seen] = {}
        self._deleted: set[bytes] = set()
        self._was_put_back = False
        self._positions: dict[tuple[str, Partition], int] = {}
        self._without_beginning: set[int] = set()
        self._surpluses: dict[Partition, list[Surplus]] = {}

    def _of(self, partition: Partition) -> Seen:
        return self._partitions.setdefault(partition, Seen())

    # Producers

    def send(
        self,
        partition: Partition,
        values: tuple[bytes, ...],
        *,
        idempotent: bool,
        sender: str = "",
        timestamp_ms: int = 0,
    ) -> Sent:
        seen = self._of(partition)
        known = max(seen.acked_max, seen.read_max)
        sent = Sent(partition, values, idempotent, known, sender, self._sent_count, timestamp_ms)
        self._sent_count += 1
        for value in values:
            seen.sent[value] = sent
        return sent

    def try_again(self, sent: Sent) -> None:
        """A producer that is not idempotent sends it (again): each attempt may be stored."""
        self._of(sent.partition).attempts[sent.number] += 1

    def ack(self, sent: Sent, base_offset: int) -> None:
        seen = self._of(sent.partition)
        self.acked_count += 1
        if base_offset <= sent.known_before:
            self._violated("H13", sent.partition, f"acked={base_offset} after={sent.known_before}")
        for number, value in enumerate(sent.values):
            self._show(sent.partition, base_offset + number, value, "H20")
        seen.acked[base_offset] = sent
        seen.acked_max = max(seen.acked_max, base_offset + len(sent.values) - 1)

    def begin_anywhere(self, producer_id: int) -> None:
        """The first batch of that producer that is stored may bear any sequence."""
        self._without_beginning.add(producer_id)

    # Consumers

    def assign(self, reader: str, partition: Partition, offset: int | None = None) -> None:
        """`reader` goes on at `offset`, or wherever its next poll begins."""
        if offset is None:
            self._positions.pop((reader, partition), None)
        else:
            self._positions[reader, partition] = offset

    def position(self, reader: str, partition: Partition) -> int:
        return self._positions.get((reader, partition), 0)

    def poll(self, reader: str, partition: Partition, records: Sequence[tuple[int, bytes]]) -> None:
        """Records of one answer, in order."""
        expected = self._positions.get((reader, partition))
        for offset, value in records:
            is_dropped = expected is not None and self._is_gone(partition, expected, offset)
            if expected is not None and offset != expected and not is_dropped:
                rule = "H7" if offset > expected else "H8"
                text = f"reader={reader} expected={expected} got={offset}"
                self._violated(rule, partition, text)
            self.read(partition, offset, value)
            expected = offset + 1
        if expected is not None:
            self._positions[reader, partition] = expected

    def read(self, partition: Partition, offset: int, value: bytes) -> None:
        seen = self._of(partition)
        self.read_count += 1
        seen.read.add(offset)
        seen.read_max = max(seen.read_max, offset)
        if offset in seen.forbidden:
            self._violated("H21", partition, f"offset={offset} value={value[:40]!r}")
        self._show(partition, offset, value, "H3")

    # What brokers say of the log

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
        """End of the acknowledged offsets."""
        return self._of(partition).acked_max + 1

    def answer_fetch(
        self, partition: Partition, watermark: int, acked_end: int, by: str = "leader"
    ) -> None:
        """A fetch was answered as if the log ended at `watermark`, asked after `acked_end`."""
        if watermark < acked_end:
            self._violated("H14", partition, f"stale: {by}={watermark} acked={acked_end}")

    def ask(self, partition: Partition) -> KnownBefore:
        """A client sends a request: answers on several connections may overtake each other."""
        seen = self._of(partition)
        return KnownBefore(
            partition,
            seen.acked_max + 1,
            dict(seen.watermarks),
            dict(seen.served),
            dict(seen.starts),
        )

    def ask_in_doubt(self, asked: KnownBefore) -> KnownBefore:
        """Two brokers may believe that they lead: one may lack what the other acknowledged."""
        return replace(asked, acked_end=0)

    def answer(
        self,
        asked: KnownBefore,
        *,
        broker_epoch: int,
        leader_epoch: int | None,
        watermark: int,
        log_start: int,
        by: str = "leader",
    ) -> None:
        """The answer to it: how far the log is committed, and where it starts.

        `leader_epoch` is None for the answer of a follower, which may know less.
        """
        partition, seen = asked.partition, self._of(asked.partition)
        before = asked.served.get(broker_epoch, 0)
        if watermark < before:
            text = f"broker_epoch={broker_epoch} answered={watermark} before={before}"
            self._violated("H14", partition, text)
        seen.served[broker_epoch] = max(watermark, seen.served.get(broker_epoch, 0))
        if leader_epoch is not None:
            self._answer_as_leader(asked, leader_epoch, watermark, by)
        start_before = asked.starts.get(broker_epoch, 0)
        if not start_before <= log_start <= self._start_max(seen):
            text = f"log start={log_start} before={start_before} asked={seen.start_asked}"
            self._violated("H14", partition, f"broker_epoch={broker_epoch} {text}")
        seen.starts[broker_epoch] = max(log_start, seen.starts.get(broker_epoch, 0))

    def _answer_as_leader(
        self, asked: KnownBefore, leader_epoch: int, watermark: int, by: str
    ) -> None:
        partition, seen = asked.partition, self._of(asked.partition)
        # Of earlier and later leaderships all is over or settled, whenever it was answered.
        earlier = [w for e, w in seen.watermarks.items() if e < leader_epoch]
        before = max([asked.watermarks.get(leader_epoch, 0), *earlier])
        after = min((w for e, w in seen.lowest.items() if e > leader_epoch), default=watermark)
        if not before <= watermark <= after:
            text = f"leader_epoch={leader_epoch} answered={watermark} from={before} to={after}"
            self._violated("H14", partition, text)
        seen.watermarks[leader_epoch] = max(watermark, seen.watermarks.get(leader_epoch, 0))
        seen.lowest[leader_epoch] = min(watermark, seen.lowest.get(leader_epoch, watermark))
        self.answer_fetch(partition, watermark, asked.acked_end, by)

    # Log start

    def ask_log_start(self, partition: Partition, offset: int) -> None:
        """A client is about to request that the log begins at `offset`."""
        seen = self._of(partition)
        seen.start_asked = max(seen.start_asked, offset)

    def expire(self, partition: Partition, offset: int, cutoff_ms: int) -> None:
        """Retention has raised log start to `offset`; timestamps below `cutoff_ms` were old then.

        A record whose offset is not known yet is judged when it gets known.
        """
        seen = self._of(partition)
        if offset <= seen.start_asked:
            return
        expiry = Expiry(seen.start_asked, offset, cutoff_ms, frozenset(seen.edited))
        seen.expiries.append(expiry)
        for known, value in sorted(seen.values.items()):
            if self._was_young(partition, expiry, known, value):
                break
        seen.start_asked = offset

    def expire_surplus(
        self, partition: Partition, offset: int, keep_bytes: int, table_bytes: int
    ) -> None:
        """Retention by size has raised log start to `offset`; it had to leave `keep_bytes`.

        `table_bytes` are those of all files of the table that reach above. Judged now, and at the
        end again by the offsets that got known.
        """
        seen = self._of(partition)
        if offset <= seen.start_asked:
            return
        batches = {sent.number: sent for sent in seen.sent.values()}
        surplus = Surplus(offset, keep_bytes, table_bytes, batches.values())
        if not self._took_too_much(partition, surplus):
            self._surpluses.setdefault(partition, []).append(surplus)
        seen.start_asked = offset

    def _took_too_much(self, partition: Partition, surplus: Surplus) -> bool:
        left = bytes_left_max(self._of(partition), surplus)
        if left < surplus.keep_bytes:
            text = f"log start={surplus.log_start} bytes left={left} of={surplus.keep_bytes}"
            self._violated("H22", partition, text)
        return left < surplus.keep_bytes

    def _was_young(self, partition: Partition, expiry: Expiry, offset: int, value: bytes) -> bool:
        start, end, cutoff_ms, edited = expiry
        sent = self._of(partition).sent.get(value)
        if sent is None or not start <= offset < end or sent.timestamp_ms < cutoff_ms:
            return False
        if offset in edited:
            return False
        text = f"offset={offset} timestamp={sent.timestamp_ms} cutoff={cutoff_ms} log start={end}"
        self._violated("H22", partition, text)
        return True

    def ack_log_start(self, partition: Partition, offset: int) -> None:
        seen = self._of(partition)
        seen.start_acked = max(seen.start_acked, offset)

    def put_back(self) -> None:
        """The registry is lost, or an older copy: rows alone say where log starts were raised to.

        A restore finds them where what is stored begins. What was asked to be deleted may be gone
        all the same, wherever a log starts then.
        """
        self._was_put_back = True
        for seen in self._partitions.values():
            seen.start_acked = 0
            seen.starts = {}

    def _gone_below(self, partition: Partition) -> int:
        return self.start_asked(partition) if self._was_put_back else 0

    def _is_gone(self, partition: Partition, start: int, end: int) -> bool:
        """Whether a consumer that expects `start` may go on at `end`, above it."""
        edited = self._of(partition).edited
        first = max(start, self._gone_below(partition))
        return start < end and all(offset in edited for offset in range(first, end))

    def _start_max(self, seen: Seen) -> int:
        """Where a log may start at most. A restore finds it where the first row is."""
        return seen.first_kept(seen.start_asked) if self._was_put_back else seen.start_asked

    def start_asked(self, partition: Partition) -> int:
        """No record from here on was asked to be deleted."""
        return self._of(partition).start_asked

    def start_max(self, partition: Partition) -> int:
        """Where the log may start at most: above what was asked, where a restore found the first
        row that no owner had deleted.
        """
        return self._start_max(self._of(partition))

    def serve_log_start(self, partition: Partition, broker_epoch: int, log_start: int) -> None:
        seen = self._of(partition)
        before = seen.starts.get(broker_epoch, 0)
        if not before <= log_start <= self._start_max(seen):
            text = f"log start={log_start} before={before} asked={seen.start_asked}"
            self._violated("H14", partition, f"broker_epoch={broker_epoch} {text}")
        seen.starts[broker_epoch] = max(before, log_start)

    # The owner of a table

    def edit(self, partition: Partition, offsets: Iterable[int]) -> None:
        """The owner is about to delete these rows: from now on they may be absent."""
        self._of(partition).edited.update(offsets)

    def forbid(self, partition: Partition, offsets: Iterable[int]) -> None:
        """The deletion of these rows is final for every reader."""
        self._of(partition).forbidden.update(offsets)

    def edited(self, partition: Partition) -> Collection[int]:
        """Offsets whose rows may be absent."""
        return self._of(partition).edited

    def first_kept(self, partition: Partition, offset: int) -> int:
        """The first offset from `offset` on that no owner deleted."""
        return self._of(partition).first_kept(offset)

    def delete(self, topic_id: bytes) -> None:
        """A client requested deletion of the topic: it need not exist any more."""
        self._deleted.add(topic_id)

    def is_deleted(self, topic_id: bytes) -> bool:
        return topic_id in self._deleted

    def known(self, partition: Partition) -> dict[int, bytes]:
        """Records acknowledged or read so far and not deleted by an owner, by offset."""
        seen = self._of(partition)
        return {offset: value for offset, value in seen.values.items() if offset not in seen.edited}

    def _show(self, partition: Partition, offset: int, value: bytes, rule: str) -> None:
        seen = self._of(partition)
        if value not in seen.sent:
            self._violated("H4", partition, f"offset={offset} value={value[:40]!r}")
        if offset not in seen.values:
            for expiry in seen.expiries:
                self._was_young(partition, expiry, offset, value)
        known = seen.values.setdefault(offset, value)
        if known != value:
            self._violated(rule, partition, f"offset={offset} values={known[:40]!r} {value[:40]!r}")

    def _violated(self, rule: str, partition: Partition, text: str) -> None:
        topic = partition.topic_id.hex()[:8]
        self.violations.append(f"{rule}: topic={topic} partition={partition.number} {text}")
        self._report(f"VIOLATION {self.violations[-1]}")

    # The end

    def check_end(
        self,
        left: Mapping[Partition, Sequence[StoredRecord]],
        log_starts: Mapping[Partition, int] | None = None,
        begins: Mapping[Partition, int] | None = None,
        *,
        all_was_read: bool = False,
    ) -> None:
        """Compare with the whole log as it is left; topics asked to be deleted may be missing.

        Below their log start, 0 where none is given, records may be missing. Below `begins` a
        table holds them, which does not say who sent them.
        """
        for partition, seen in self._partitions.items():
            if partition.topic_id in self._deleted:
                continue
            records = left.get(partition)
            if records is None:
                if seen.values:
                    self._violated("H1", partition, "the whole partition is gone")
                continue
            log_start = (log_starts or {}).get(partition, 0)
            self._check_start(partition, seen, log_start)
            self._check_stored(partition, seen, records)
            # Below log start some chains are trimmed sooner than others.
            begin_kept = max(log_start, self._gone_below(partition))
            kept = [record for record in records if record.offset >= begin_kept]
            self._check_kept(partition, seen, kept, begin_kept)
            begin = (begins or {}).get(partition, 0)
            self._check_sequences(partition, kept, is_whole=not log_start and not begin)
            self._check_order(partition, seen)
            for surplus in self._surpluses.get(partition, ()):
                self._took_too_much(partition, surplus)
            if all_was_read:
                self._check_seen(partition, seen, begin_kept)

    def _check_start(self, partition: Partition, seen: Seen, log_start: int) -> None:
        lowest = max(seen.start_acked, *seen.starts.values(), 0)
        if not lowest <= log_start <= self._start_max(seen):
            text = f"log start={log_start} acked or shown={lowest} asked={seen.start_asked}"
            self._violated("H14", partition, text)

    def _check_stored(
        self, partition: Partition, seen: Seen, records: Sequence[StoredRecord]
    ) -> None:
        """Every record present must be right, whether or not it may be deleted."""
        for record in records:
            known = seen.values.get(record.offset, record.value)
            if known != record.value:
                text = f"offset={record.offset} value={known[:40]!r} there={record.value[:40]!r}"
                self._violated("H1", partition, text)
        for value, count in Counter(record.value for record in records).items():
            sent = seen.sent.get(value)
            if sent is None:
                self._violated("H4", partition, f"value={value[:40]!r}")
            elif count > 1 and sent.is_idempotent:
                self._violated("H2", partition, f"value={value[:40]!r} count={count}")

    def _check_kept(
        self, partition: Partition, seen: Seen, kept: Sequence[StoredRecord], log_start: int
    ) -> None:
        offsets = {record.offset for record in kept}
        end = seen.first_kept(max(offsets, default=log_start - 1) + 1)
        # Counted, not listed: a flipped bit may put an offset at 2^60.
        accounted = [one for one in offsets | seen.edited if log_start <= one < end]
        if len(accounted) < end - log_start or len(offsets) < len(kept):
            self._violated("S3", partition, f"offsets are not dense from log start={log_start}")
        highest = max(seen.served.values(), default=0)
        if highest > end:
            self._violated("H14", partition, f"served={highest} and the log ends at {end}")
        for offset, value in seen.values.items():
            if offset >= log_start and offset not in offsets and offset not in seen.edited:
                self._violated("H1", partition, f"offset={offset} value={value[:40]!r} is gone")

    def _check_sequences(
        self, partition: Partition, kept: Sequence[StoredRecord], *, is_whole: bool
    ) -> None:
        following: dict[tuple[int, int], int] = {}
        leader_epoch = -1
        for record in kept:
            if record.leader_epoch < leader_epoch:
                self._violated("H18", partition, f"offset={record.offset}")
            leader_epoch = record.leader_epoch
            if record.producer_id < 0:
                continue
            producer = (record.producer_id, record.producer_epoch)
            # Where the beginning of the log is gone, so may be that of what a producer sent.
            has_beginning = is_whole and record.producer_id not in self._without_beginning
            expected = following.get(producer, 0 if has_beginning else record.sequence)
            if record.sequence != expected:
                text = f"offset={record.offset} sequence={record.sequence} expected={expected}"
                self._violated("H17", partition, text)
            following[producer] = (record.sequence + 1) & SEQUENCE_MAX

    def _check_order(self, partition: Partition, seen: Seen) -> None:
        by_sender: dict[str, list[tuple[int, int]]] = {}
        for offset, sent in seen.acked.items():
            if sent.is_idempotent and sent.sender:
                by_sender.setdefault(sent.sender, []).append((sent.number, offset))
        for sender, numbered in by_sender.items():
            for (_, earlier), (_, later) in pairwise(sorted(numbered)):
                if later <= earlier:
                    text = f"sender={sender} offset={earlier} before offset={later}"
                    self._violated("H9", partition, text)

    def _check_seen(self, partition: Partition, seen: Seen, log_start: int) -> None:
        for base, sent in seen.acked.items():
            wanted = set(range(base, base + len(sent.values))) - seen.edited
            unseen = sorted(wanted - seen.read)
            if unseen and unseen[-1] >= log_start:
                self._violated("H11", partition, f"never read offset={unseen[-1]}")
