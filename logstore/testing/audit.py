"""Looks through everything that is stored and says what is wrong with it.

Chains from seq 0 on, by their bytes alone; then the registry and the checkpoints against them:

    S2  segments up to the first gap or seal follow each other; nothing beyond exists for anybody
    S4  every epoch drawn has its opening, every sealed chain its seal
    S8  checksums of indexes, batches and states hold
    checkpoints are what a replay from seq 0 gives, byte for byte
    take entries stand before batches, and match the partition's row
    stretches of a row meet: one ends where the next begins
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from logstore.chains.checkpoint import decode_checkpoint, encode_checkpoint
from logstore.chains.keys import CHECKPOINTS, checkpoint_key, segment_key
from logstore.chains.replay import ChainState, Stretch, StretchKey
from logstore.chains.walk import Front, read_front
from logstore.errors import LogstoreError, NotFound
from logstore.index.rows import row_at, row_count
from logstore.metadata import read_partition_rows, read_topics
from logstore.objects.memory import MemoryObjects
from logstore.perform import BlockingPerformer
from logstore.records.batch import split_batches
from logstore.records.decode import decode_records
from logstore.registry.memory import MemoryRows
from logstore.registry.store import Row
from logstore.rows import (
    CHAIN,
    CLUSTER,
    ChainRow,
    ChainStatus,
    ClusterRow,
    PartitionRow,
    TopicRow,
    chain_sk,
)
from logstore.segments.format import EntryKind, SegmentKind
from logstore.testing.history import Partition, StoredRecord
from logstore.testing.simulated_rows import at_once

RECORDS_BYTES_MAX = 1 << 24


@dataclass(slots=True)
class AuditedChain:
    """One chain as its bytes tell it."""

    state: ChainState
    fronts: list[Front] = field(default_factory=list)
    seal: int | None = None


@dataclass(slots=True)
class Audit:
    """What was found. `records` are those of every partition that has a row."""

    violations: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    chains: dict[int, AuditedChain] = field(default_factory=dict)
    topics: dict[str, TopicRow] = field(default_factory=dict)
    records: dict[Partition, list[StoredRecord]] = field(default_factory=dict)


class _ReadableRows:
    """The reads of a registry, at once."""

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows

    def get(self, pk: str, sk: str) -> Row | None:
        return at_once(self._rows.get(pk, sk))

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        return at_once(self._rows.query(pk, prefix, limit=1_000_000))


def audit(objects: MemoryObjects, rows: MemoryRows) -> Audit:
    return _Auditor(objects, rows).run()


class _Auditor:
    def __init__(self, objects: MemoryObjects, rows: MemoryRows) -> None:
        self._objects = objects
        self._rows = _ReadableRows(rows)
        self._performer = BlockingPerformer(objects, self._rows, random.Random(0))
        self._found = Audit()

    def run(self) -> Audit:
        row = self._rows.get(CLUSTER, CLUSTER)
        if row is None:
            return self._found
        cluster = ClusterRow.of(row)
        for epoch in range(1, cluster.next_epoch):
            self._found.chains[epoch] = self._walk(cluster.cluster_id, epoch)
        for epoch, chain in self._found.chains.items():
            self._check_chain_row(epoch, chain)
            self._check_checkpoints(epoch, chain)
        self._found.topics = self._performer.run(read_topics())
        live = {topic.topic_id for topic in self._found.topics.values()}
        for (topic_id, number), partition in self._performer.run(read_partition_rows()):
            if topic_id in live:
                self._check_partition(Partition(topic_id, number), partition)
        return self._found

    def _wrong(self, text: str) -> None:
        self._found.violations.append(text)

    # Chains

    def _walk(self, cluster_id: bytes, epoch: int) -> AuditedChain:
        chain = AuditedChain(ChainState(cluster_id, epoch))
        state, seen = chain.state, self._found.seen
        try:
            while True:
                seq = state.next_seq
                front = self._performer.run(read_front(epoch, seq))
                if front.index.header.kind is SegmentKind.SEAL:
                    chain.seal = seq
                    break
                state.apply_segment(front.index, front.states)
                chain.fronts.append(front)
                self._check_body(epoch, seq, front)
        except NotFound:
            if state.next_seq == 0:
                self._wrong(f"S4: no opening epoch={epoch}")
        except LogstoreError as error:
            self._wrong(f"S8: epoch={epoch} seq={state.next_seq}: {error}")
        beyond = range(state.next_seq + 1, state.next_seq + 9)
        if any(self._exists(segment_key(epoch, seq)) for seq in beyond):
            seen["segments beyond a seal" if chain.seal else "segments beyond a gap"] += 1
        if chain.seal == 1 and self._rows.get(CHAIN, chain_sk(epoch)) is None:
            seen["opening buried"] += 1
        return chain

    def _check_body(self, epoch: int, seq: int, front: Front) -> None:
        body = self._objects.get(segment_key(epoch, seq))[front.index.header.body_at :]
        for entry in front.index.entries:
            if entry.kind == EntryKind.STATE:
                self._found.seen["state in pieces"] += 1
            if entry.kind != EntryKind.BATCH:
                continue
            data = body[entry.position : entry.position + entry.length]
            ((at, header),) = split_batches(data)
            told = (entry.base_offset, entry.last_offset, entry.leader_epoch, entry.producer_id)
            true = (header.base_offset, header.last_offset, header.leader_epoch, header.producer_id)
            if at != 0 or told != true:
                self._wrong(f"S8: entry is not its batch epoch={epoch} seq={seq} {entry}")

    def _exists(self, key: str) -> bool:
        try:
            self._objects.get(key)
        except NotFound:
            return False
        return True

    def _check_chain_row(self, epoch: int, chain: AuditedChain) -> None:
        found = self._rows.get(CHAIN, chain_sk(epoch))
        if found is None:
            if chain.state.stretches:
                self._wrong(f"a chain without a row leads partitions epoch={epoch}")
            return
        row = ChainRow.of(found)
        if row.status is ChainStatus.SEALED and row.seal != chain.seal:
            self._wrong(f"S4: row says seal={row.seal}, chain says {chain.seal} epoch={epoch}")
        if row.checkpoint and not self._exists(checkpoint_key(epoch, row.checkpoint)):
            self._wrong(f"no such checkpoint epoch={epoch} seq={row.checkpoint}")
        if not row.trim <= row.checkpoint <= chain.state.next_seq:
            self._wrong(f"trim, checkpoint, end out of order epoch={epoch} row={row}")

    def _check_checkpoints(self, epoch: int, chain: AuditedChain) -> None:
        for info in self._objects.list(f"{CHECKPOINTS}{epoch:020d}/"):
            data = self._objects.get(info.key)
            front = decode_checkpoint(data)
            if front.seq > chain.state.next_seq:
                self._wrong(f"checkpoint above the end of its chain key={info.key}")
                continue
            self._found.seen["checkpoints"] += 1
            if front.from_seq and front.seq == chain.seal:
                self._found.seen["taken over from a checkpoint"] += 1
            earlier = (*front.earlier, front.seq)
            replayed = replay(chain, front.cluster_id, epoch, earlier)
            if replayed != data:
                self._wrong(f"checkpoint is not what its chain replays to key={info.key}")

    # Partitions

    def _check_partition(self, partition: Partition, row: PartitionRow) -> None:
        records: list[StoredRecord] = []
        named = {ref.leader_epoch: ref for ref in row.stretches}
        for number, ref in enumerate(row.stretches):
            if self._rows.get(CHAIN, chain_sk(ref.chain)) is None:
                self._wrong(f"row names a chain without a row {partition} {ref}")
            chain = self._found.chains[ref.chain].state
            stretch = chain.stretches.get(StretchKey(*partition, ref.leader_epoch))
            following = row.end_of(number)
            if stretch is None:
                if following is not None and following != ref.start:
                    self._wrong(f"an empty stretch is not empty {partition} {ref}")
                if following is not None and any(s.start > 0 for s in row.stretches[:number]):
                    self._found.seen["inherited across an empty stretch"] += 1
                continue
            if stretch.start != ref.start or following not in (None, stretch.end):
                self._wrong(f"stretches do not meet {partition} {ref} end={stretch.end}")
            records += self._records(ref.chain, stretch)
        for epoch, found in self._found.chains.items():
            for key, stretch in found.state.stretches.items():
                if (key.topic_id, key.partition) != partition:
                    continue
                ref = named.get(key.leader_epoch)
                if ref is None and _is_left_out(stretch, key.leader_epoch, row):
                    continue
                if ref is None or ref.chain != epoch:
                    self._wrong(f"take entry without its row {partition} epoch={epoch} {key}")
        self._found.records[partition] = records

    def _records(self, epoch: int, stretch: Stretch) -> list[StoredRecord]:
        records = []
        for number in range(row_count(stretch.rows)):
            row = row_at(stretch.rows, number)
            front = self._found.chains[epoch].fronts[row.seq]
            at = front.index.header.body_at + row.position
            data = self._objects.get_range(segment_key(epoch, row.seq), at, row.length)
            records += records_of_batches(data)
        return records


def _is_left_out(stretch: Stretch, leader_epoch: int, row: PartitionRow) -> bool:
    """Rows need not list what holds no offset that can be read, once it is over."""
    is_over = leader_epoch < row.leader_epoch
    return is_over and (stretch.start == stretch.end or stretch.end <= row.log_start)


def records_of_batches(data: bytes) -> list[StoredRecord]:
    """Every record of whole batches, CRC checked."""
    records = []
    for at, header in split_batches(data):
        batch = data[at : at + header.size_bytes]
        for number, record in enumerate(decode_records(batch, max_bytes=RECORDS_BYTES_MAX)):
            value = b"" if record.value is None else bytes(record.value)
            records.append(
                StoredRecord(
                    header.base_offset + record.offset_delta,
                    value,
                    header.leader_epoch,
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence + number if header.base_sequence >= 0 else -1,
                )
            )
    return records


def replay(
    chain: AuditedChain, cluster_id: bytes, epoch: int, checkpoints: Sequence[int]
) -> bytes | None:
    """The last of `checkpoints` as a replay from seq 0 gives it, with all of them on its way."""
    state = ChainState(cluster_id, epoch)
    encoded: bytes | None = None
    for seq in checkpoints:
        while state.next_seq < seq:
            front = chain.fronts[state.next_seq]
            state.apply_segment(front.index, front.states)
        encoded = encode_checkpoint(state)
        state.checkpoints.append(seq)
        state.spans, state.places = [], []
        for stretch in state.stretches.values():
            stretch.rows = bytearray()
    return encoded
