"""Checks every stored object and row, and reports contradictions.

Chains from seq 0 or their trim point on, by their bytes alone; then the registry and the
checkpoints against them. The checks, and what S1 to S8 are: `logstore.protocol.rules.checks`;
beside them every batch is decoded here, and S7: every checkpoint from the trim point on belongs to
a chain's replay. Those below it wait for their deletion, like the segments there.
"""

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from logstore.errors import Corrupt, LogstoreError, NotFound
from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.formats.chain_state import ChainState, EpochKey, EpochRange
from logstore.formats.checkpoint import decode_checkpoint
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.index_rows import row_at, row_count
from logstore.formats.keys import CHECKPOINTS, checkpoint_key, segment_key
from logstore.formats.partition_row import PartitionRow
from logstore.formats.segment import EntryKind, SegmentKind
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.objects.memory import MemoryObjects
from logstore.ports.registry import Row
from logstore.protocol.chain.walk import Front, read_chain_at, read_checkpoint, read_front
from logstore.protocol.rows.metadata import read_partition_rows, read_topics
from logstore.protocol.rules.checks import (
    SeenChain,
    chain_row_problems,
    checkpoint_of_replay,
    extents_of,
    newest_taken,
    partition_problems,
    take_problem,
    trim_problem,
)
from logstore.protocol.rules.trim import Needs
from logstore.records.batch import split_batches
from logstore.records.decode import decode_records
from logstore.registry.memory import MemoryRows
from logstore.runners.step_runner import BlockingStepRunner
from logstore.testing.audit_topics import deleted_topics, topic_violations
from logstore.testing.history import SEQUENCE_MAX, Partition, StoredRecord
from logstore.testing.simulated_rows import at_once

RECORDS_BYTES_MAX = 1 << 24


@dataclass(slots=True)
class AuditedChain:
    """One chain by its bytes, from its trim point, seq `base`, on."""

    state: ChainState
    base: int = 0
    fronts: dict[int, Front] = field(default_factory=dict)
    seal: int | None = None

    @property
    def seen(self) -> SeenChain:
        return SeenChain(
            epoch=self.state.epoch,
            broker=self.state.broker,
            end=self.state.next_seq,
            seal=self.seal,
            epoch_ranges=extents_of(self.state),
        )


@dataclass(slots=True)
class Audit:
    """Findings. `records` are those of every partition that has a row."""

    violations: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    chains: dict[int, AuditedChain] = field(default_factory=dict)
    topics: dict[str, TopicRow] = field(default_factory=dict)
    records: dict[Partition, list[StoredRecord]] = field(default_factory=dict)
    log_starts: dict[Partition, int] = field(default_factory=dict)
    ends: dict[Partition, int] = field(default_factory=dict)
    """Where each log ends by its chains."""
    begins: dict[Partition, int] = field(default_factory=dict)
    """Below these offsets `records` are a table's."""


class _ReadableRows:
    """The reads of a registry, at once."""

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows

    def get(self, pk: str, sk: str) -> Row | None:
        return at_once(self._rows.get(pk, sk))

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        return at_once(self._rows.query(pk, prefix, limit=1_000_000))


def audit(
    objects: MemoryObjects, rows: MemoryRows, held: Mapping[Partition, int] | None = None
) -> Audit:
    """`held`: by partition, up to where a table holds it."""
    return _Auditor(objects, rows, held or {}).run()


class _Auditor:
    def __init__(
        self, objects: MemoryObjects, rows: MemoryRows, held: Mapping[Partition, int]
    ) -> None:
        self._held = held
        self._objects = objects
        self._rows = _ReadableRows(rows)
        self._runner = BlockingStepRunner(objects, self._rows, random.Random(0))
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
        partitions = self._runner.run(read_partition_rows())
        self._found.topics = self._runner.run(read_topics())
        topic_rows = self._rows.query(TOPIC)
        self._found.violations += topic_violations(
            self._objects, topic_rows, {key.topic_id for key in partitions}, self._found.seen
        )
        topics = self._found.topics.values()
        chains = {epoch: chain.seen for epoch, chain in self._found.chains.items()}
        wanted = {t.topic_id for t in topics if t.status is TopicStatus.LIVE}
        rows = {topic.topic_id for topic in topics}
        deleted, deleting = deleted_topics(self._objects), rows - wanted
        self._check_topics(rows | deleted, deleted, partitions.keys())
        taken = newest_taken(chains)
        held = {TopicPartition(*partition): end for partition, end in self._held.items()}
        self._check_trims(Needs(wanted, partitions, taken, held, deleted, deleting))
        # A late creation may put back rows of a topic that is being deleted; they are never read.
        for (topic_id, number), partition in partitions.items():
            if topic_id in wanted:
                self._check_partition(Partition(topic_id, number), partition, chains)
        return self._found

    def _check_topics(
        self,
        known: Collection[bytes],
        deleted: Collection[bytes],
        partitions: Collection[TopicPartition],
    ) -> None:
        """Every live topic has all of its rows, and no chain leads an unknown topic.

        The put of a topic row whose broker died may arrive after a start has dropped its
        partitions, and a put of one of those after that: no chain has led one, or none has a row
        and a record says that it was deleted. The controller, or the next start, drops it, too.
        """
        led = {
            key.topic_id for one in self._found.chains.values() for key in one.state.epoch_ranges
        }
        for name, topic in self._found.topics.items():
            if topic.status is TopicStatus.LIVE:
                numbers = range(topic.partitions)
                lacking = [
                    n for n in numbers if TopicPartition(topic.topic_id, n) not in partitions
                ]
                is_late = topic.topic_id not in led or (
                    len(lacking) == topic.partitions and topic.topic_id in deleted
                )
                if lacking and not is_late:
                    self._wrong(f"a topic lacks rows of partitions: name={name} {lacking}")
        for epoch, chain in self._found.chains.items():
            for key in chain.state.epoch_ranges:
                if key.topic_id not in known:
                    self._wrong(f"a topic is not known epoch={epoch} topic={key.topic_id.hex()}")

    def _wrong(self, text: str) -> None:
        self._found.violations.append(text)

    # Chains

    def _walk(self, cluster_id: bytes, epoch: int) -> AuditedChain:
        chain = self._entered(cluster_id, epoch)
        state, seen = chain.state, self._found.seen
        try:
            while True:
                seq = state.next_seq
                front = self._runner.run(read_front(epoch, seq))
                if front.index.header.kind is SegmentKind.SEAL:
                    chain.seal = seq
                    break
                state.apply_segment(front.index, front.states)
                chain.fronts[seq] = front
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

    def _entered(self, cluster_id: bytes, epoch: int) -> AuditedChain:
        """At the trim point, by the checkpoint there; the opening is looked for in any case."""
        row = self._rows.get(CHAIN, chain_sk(epoch))
        trim = 0 if row is None else ChainRow.of(row).trim
        if trim:
            self._check_opening(epoch)
        return AuditedChain(self._runner.run(read_chain_at(cluster_id, epoch, trim)), trim)

    def _check_opening(self, epoch: int) -> None:
        try:
            front = self._runner.run(read_front(epoch, 0))
        except LogstoreError as error:
            self._wrong(f"S4: no opening epoch={epoch}: {error}")
        else:
            if front.index.header.kind is not SegmentKind.OPENING:
                self._wrong(f"S4: no opening epoch={epoch}")

    def _check_body(self, epoch: int, seq: int, front: Front) -> None:
        body = self._objects.get(segment_key(epoch, seq))[front.index.header.body_at :]
        for entry in front.index.entries:
            if entry.kind == EntryKind.STATE:
                self._found.seen["state in pieces"] += 1
            if entry.kind != EntryKind.BATCH:
                continue
            data = body[entry.position : entry.position + entry.length]
            ((at, header),) = split_batches(data)
            named = (entry.base_offset, entry.last_offset, entry.leader_epoch, entry.producer_id)
            true = (header.base_offset, header.last_offset, header.leader_epoch, header.producer_id)
            if at != 0 or named != true:
                self._wrong(f"S8: entry is not its batch epoch={epoch} seq={seq} {entry}")

    def _exists(self, key: str) -> bool:
        try:
            self._objects.get(key)
        except NotFound:
            return False
        return True

    def _check_chain_row(self, epoch: int, chain: AuditedChain) -> None:
        attributes = self._rows.get(CHAIN, chain_sk(epoch))
        if attributes is None:
            if chain.state.epoch_ranges:
                self._wrong(f"a chain without a row leads partitions epoch={epoch}")
            return
        row = ChainRow.of(attributes)
        for seq in self._named_checkpoints(epoch, row):
            if not self._exists(checkpoint_key(epoch, seq)):
                self._wrong(f"no such checkpoint epoch={epoch} seq={seq}")
        for problem in chain_row_problems(row, chain.seen):
            self._wrong(f"S4, S5: {problem.where}: {problem.detail}")

    def _named_checkpoints(self, epoch: int, row: ChainRow) -> list[int]:
        """The last one, and the earlier ones that it names and that were not to be deleted."""
        if not row.checkpoint:
            return []
        try:
            front = self._runner.run(read_checkpoint(epoch, row.checkpoint))
        except LogstoreError:
            return [row.checkpoint]
        return [*(seq for seq in front.earlier if seq >= row.trim), row.checkpoint]

    def _check_trims(self, needs: Needs) -> None:
        for epoch, chain in self._found.chains.items():
            if chain.base:
                self._found.seen["chain trimmed"] += 1
                front = self._runner.run(read_checkpoint(epoch, chain.base))
                problem = trim_problem(front, needs)
                if problem is not None:
                    self._wrong(f"S5: {problem.where}: {problem.detail}")

    def _check_checkpoints(self, epoch: int, chain: AuditedChain) -> None:
        row = self._rows.get(CHAIN, chain_sk(epoch))
        seqs = [] if row is None else self._named_checkpoints(epoch, ChainRow.of(row))
        named = {checkpoint_key(epoch, seq) for seq in seqs}
        replays = _Replays(self._runner, chain)
        for info in self._objects.list(f"{CHECKPOINTS}{epoch:020d}/"):
            if info.key < checkpoint_key(epoch, chain.base):
                continue  # about to be deleted, and no reader enters the chain there
            data = self._objects.get(info.key)
            try:
                front = decode_checkpoint(data)
            except Corrupt:
                if info.key in named:
                    raise
                continue  # stored by a fenced broker: nothing names it, so it is not read
            if front.seq > chain.state.next_seq:
                self._wrong(f"checkpoint above the end of its chain key={info.key}")
                continue
            self._found.seen["checkpoints"] += 1
            if front.from_seq and front.seq == chain.seal:
                self._found.seen["taken over from a checkpoint"] += 1
            if front.seq <= chain.base:
                continue  # below it there is nothing left to replay
            if replays.checkpoint_at(front.cluster_id, (*front.earlier, front.seq)) != data:
                self._wrong(f"checkpoint is not what its chain replays to key={info.key}")

    # Partitions

    def _check_partition(
        self, partition: Partition, row: PartitionRow, chains: Mapping[int, SeenChain]
    ) -> None:
        for problem in partition_problems(*partition, row, chains):
            self._wrong(f"{partition}: {problem.detail}")
        records: list[StoredRecord] = []
        end = row.log_start
        for ref in row.epoch_ranges:
            if self._rows.get(CHAIN, chain_sk(ref.chain)) is None:
                self._wrong(f"row names a chain without a row {partition} {ref}")
            chain = self._found.chains[ref.chain].state
            epoch_range = chain.epoch_ranges.get(EpochKey(*partition, ref.leader_epoch))
            end = ref.start if epoch_range is None else epoch_range.end
            if epoch_range is not None:
                records += self._records(ref.chain, epoch_range)
        self._check_takes(partition, row, chains)
        self._found.records[partition] = records
        self._found.ends[partition] = end
        self._found.log_starts[partition] = row.log_start

    def _check_takes(
        self, partition: Partition, row: PartitionRow, chains: Mapping[int, SeenChain]
    ) -> None:
        begun: dict[int, int] = {}
        for epoch, seen in chains.items():
            for key, extent in seen.epoch_ranges.items():
                if Partition(key.topic_id, key.partition) == partition:
                    begun[key.leader_epoch] = extent.start
                    unknown = take_problem(
                        key,
                        extent,
                        epoch,
                        row,
                        self._held.get(partition, 0),
                    )
                    if unknown is not None:
                        self._wrong(f"{partition}: {unknown.detail}")
        for earlier, later in pairwise(sorted(begun)):
            if later > earlier + 1 and begun[later] > 0:
                self._found.seen["inherited across an empty stretch"] += 1
        self._count_leaderships(partition)

    def _count_leaderships(self, partition: Partition) -> None:
        """Counts how the partition's epoch ranges ended, one after the other."""
        seen, led = self._found.seen, {}
        for epoch, chain in self._found.chains.items():
            for key, epoch_range in chain.state.epoch_ranges.items():
                if Partition(key.topic_id, key.partition) == partition:
                    led[key.leader_epoch] = (epoch, chain.state.broker, epoch_range.released)
                    seen["releases"] += epoch_range.released
        for earlier, later in pairwise(sorted(led)):
            seen["led by one broker after the other"] += led[earlier][1] != led[later][1]
            if led[earlier][2] and led[earlier][0] == led[later][0] and later == earlier + 1:
                seen["taken back after a release"] += 1

    def _records(self, epoch: int, epoch_range: EpochRange) -> list[StoredRecord]:
        records = []
        for number in range(row_count(epoch_range.rows)):
            row = row_at(epoch_range.rows, number)
            front = self._found.chains[epoch].fronts[row.seq]
            at = front.index.header.body_at + row.position
            data = self._objects.get_range(segment_key(epoch, row.seq), at, row.length)
            records += records_of_batches(data)
        return records


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
                    (header.base_sequence + number) & SEQUENCE_MAX
                    if header.base_sequence >= 0
                    else -1,
                )
            )
    return records


class _Replays:
    """Checkpoints of one chain as replays give them.

    A replay goes on to the next checkpoint if that one names those which it has passed: else the
    last of many checkpoints would be replayed as often as there are any.
    """

    def __init__(self, runner: BlockingStepRunner, chain: AuditedChain) -> None:
        self._runner = runner
        self._chain = chain
        self._state: ChainState | None = None
        self._passed: tuple[int, ...] = ()

    def checkpoint_at(self, cluster_id: bytes, seqs: Sequence[int]) -> bytes | None:
        """The last of `seqs`, after those before it."""
        base = self._chain.base
        above = tuple(seq for seq in seqs if seq > base)
        state, passed = self._state, self._passed
        if state is None or state.cluster_id != cluster_id or above[: len(passed)] != passed:
            epoch = self._chain.state.epoch
            state, passed = self._runner.run(read_chain_at(cluster_id, epoch, base)), ()
        self._state, self._passed = state, above
        return replay(self._chain, state, above[len(passed) :])


def replay(chain: AuditedChain, state: ChainState, checkpoints: Sequence[int]) -> bytes | None:
    """The last of `checkpoints` as a replay from `state` gives it, with all of them on its way."""
    encoded: bytes | None = None
    for seq in checkpoints:
        while state.next_seq < seq:
            front = chain.fronts[state.next_seq]
            state.apply_segment(front.index, front.states)
        encoded = checkpoint_of_replay(state)
    return encoded
