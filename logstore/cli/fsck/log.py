"""A whole log held against its registry, also while it is written: the runner of `logstore fsck`.

Chain rows are read first, then objects, then rows of partitions and topics: rows read later must
know all contents of a chain. A log that changes during the check may still seem damaged, so each
problem is checked again, rows first; only problems found every time count.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby

from logstore.cli.fsck.again import found_each_time
from logstore.cli.fsck.chain import FsckCounts, check_chain
from logstore.cli.fsck.tables import SeenTables, check_tables, end_problems
from logstore.cli.fsck.topics import DataLocation, check_topics
from logstore.cli.inspect.chain_view import parsed_key
from logstore.cli.inspect.registry_view import query_all
from logstore.cli.output import Advance
from logstore.errors import Corrupt, LogstoreError
from logstore.formats.broker_row import BROKER, BrokerRow
from logstore.formats.chain_row import CHAIN, ChainRow
from logstore.formats.checkpoint import Checkpoint
from logstore.formats.keys import (
    CHAINS,
    CHECKPOINTS,
    chain_prefix,
    checkpoint_key,
    segment_key,
)
from logstore.formats.partition_row import PartitionRow, partition_pks, topic_partition_of
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.history.forms.names import table_key
from logstore.ports.objects import ObjectInfo
from logstore.protocol.chain.opening import OLD_REGISTRY, read_cluster
from logstore.protocol.chain.walk import read_checkpoint
from logstore.protocol.rules.checks import (
    Problem,
    ProblemKind,
    SeenChain,
    newest_taken,
    partition_problems,
    take_problem,
    trim_problem,
)
from logstore.protocol.rules.disposal import fate_of, may_drop_rows
from logstore.protocol.rules.trim import Needs
from logstore.protocol.sinks.staging_check import StagingFound
from logstore.wiring.open import ReadableLog

_RANKS = {what: rank for rank, what in enumerate(ProblemKind)}


@dataclass(slots=True)
class Verdict:
    """Findings of `logstore fsck`, the worst first. `counts` are of the first check."""

    counts: FsckCounts
    problems: Sequence[Problem]

    def add_staging(self, found: StagingFound) -> None:
        """Its problems come last: none of them is about a record of the log."""
        counts = self.counts
        counts.manifests, counts.staged = found.manifests, found.objects
        counts.unnamed = found.unnamed
        self.problems = [*self.problems, *found.problems]


@dataclass(slots=True)
class _Findings:
    counts: FsckCounts = field(default_factory=FsckCounts)
    problems: list[Problem] = field(default_factory=list)
    chains: dict[int, SeenChain] = field(default_factory=dict)


def check_log(log: ReadableLog, advance: Advance, *, bodies: bool = False) -> Verdict:
    """Raises `Refused` when the registry belongs to another cluster or is not there at all."""
    first = _LogCheck(log, advance, bodies).everything()

    def look_again(problems: Sequence[Problem]) -> Sequence[Problem]:
        suspects = {epoch for problem in problems for epoch in problem.chains}
        return _LogCheck(log, advance, bodies).only(suspects).problems

    problems = found_each_time(first.problems, look_again)
    return Verdict(first.counts, sorted(problems, key=lambda problem: _RANKS[problem.what]))


class _LogCheck:
    """One check, of everything or at some chains and the partitions that lie in them."""

    def __init__(self, log: ReadableLog, advance: Advance, bodies: bool) -> None:
        self._log, self._advance, self._bodies = log, advance, bodies
        self._found = _Findings()
        self._rows: dict[int, ChainRow] = {}
        self._committed_ends: dict[int, int] = {}
        self._wanted: set[int] | None = None
        self._tables = SeenTables()

    def everything(self) -> _Findings:
        self._begin()
        listed = self._log.runner.store.list(CHAINS)
        for epoch, objects in _by_chain(listed, self._found.problems):
            self._check_chain(epoch, objects)
        return self._finish()

    def only(self, epochs: set[int]) -> _Findings:
        self._wanted = epochs
        self._begin()
        for epoch in sorted(epochs):
            listed = self._log.runner.store.list(chain_prefix(epoch))
            for chain, objects in _by_chain(listed, self._found.problems):
                self._check_chain(chain, objects)
        # Keys that fit no chain are looked for in the list of all, without reading anything.
        self._note_strange_keys()
        return self._finish()

    def _begin(self) -> None:
        """Tables before chains: no table holds what the log has not committed by then."""
        self._read_chain_rows()
        self._read_committed_ends()
        self._tables = check_tables(self._log, self._found.counts, bodies=self._bodies)
        self._found.problems += self._tables.problems

    def _finish(self) -> _Findings:
        self._check_epochs()
        self._check_checkpoint_keys()
        self._check_partitions()
        return self._found

    # Chains

    def _read_chain_rows(self) -> None:
        for sk, row in query_all(self._log, CHAIN):
            try:
                self._rows[int(sk)] = ChainRow.of(row)
            except (Corrupt, ValueError) as error:
                self._problem(ProblemKind.BAD_ROW, f"row chain/{sk}", str(error))

    def _read_committed_ends(self) -> None:
        """By chain, as brokers said with their last heartbeats; bad rows are reported elsewhere."""
        for _, row in query_all(self._log, BROKER):
            with suppress(Corrupt):
                said = BrokerRow.of(row)
                self._committed_ends[said.epoch] = said.committed_end

    def _check_chain(self, epoch: int, objects: Iterable[tuple[int, ObjectInfo]]) -> None:
        checked = check_chain(
            self._log.runner,
            self._log.identity.cluster_id,
            epoch,
            self._rows.get(epoch),
            self._counted(objects),
            self._found.counts,
            committed_end=self._committed_ends.get(epoch, 0),
            bodies=self._bodies,
        )
        self._found.problems += checked.problems
        self._found.chains[epoch] = checked.seen

    def _counted(
        self, objects: Iterable[tuple[int, ObjectInfo]]
    ) -> Iterator[tuple[int, ObjectInfo]]:
        for item in objects:
            yield item
            self._advance(1)

    def _note_strange_keys(self) -> None:
        for _, objects in _by_chain(self._log.runner.store.list(CHAINS), self._found.problems):
            for _ in objects:
                pass

    def _check_epochs(self) -> None:
        """Every epoch drawn has an opening; none is in use that was not drawn."""
        findings = self._found
        drawn = self._log.runner.run(read_cluster(self._log.identity.cluster_id)).next_epoch
        expected = {*range(1, drawn), *self._rows}
        if self._wanted is not None:
            expected &= self._wanted
        for epoch in sorted(expected - set(findings.chains)):
            detail = f"nothing is there of chain {epoch}"
            self._problem(ProblemKind.NO_OPENING, segment_key(epoch, 0), detail, epoch)
        for epoch, chain in findings.chains.items():
            if epoch > drawn or (epoch == drawn and chain.end > 1):
                detail = f"chain {epoch} is in use, next_epoch={drawn}: {OLD_REGISTRY}"
                self._problem(ProblemKind.OLD_REGISTRY, "row cluster", detail, epoch)
        for sk, row in query_all(self._log, BROKER):
            try:
                epoch = BrokerRow.of(row).epoch
            except Corrupt as error:
                self._problem(ProblemKind.BAD_ROW, f"row broker/{sk}", str(error))
                continue
            if epoch >= drawn:
                detail = f"broker {sk} has epoch={epoch}, next_epoch={drawn}: {OLD_REGISTRY}"
                self._problem(ProblemKind.OLD_REGISTRY, "row cluster", detail, epoch)

    def _check_checkpoint_keys(self) -> None:
        """Count the checkpoints that no row leads to. Those that one does have been compared."""
        named: dict[int, frozenset[int]] = {}
        for info in self._log.runner.store.list(CHECKPOINTS):
            place = parsed_key(info.key)
            if place is None or checkpoint_key(*place) != info.key:
                self._problem(ProblemKind.STRANGE_KEY, info.key, "no checkpoint has this key")
                continue
            epoch, seq = place
            if epoch not in named:
                named = {epoch: self._named_checkpoints(epoch)}  # keys come sorted by epoch
            self._found.counts.unused_checkpoints += seq not in named[epoch]

    def _named_checkpoints(self, epoch: int) -> frozenset[int]:
        row = self._rows.get(epoch)
        if row is None or not row.checkpoint:
            return frozenset()
        try:
            front = self._log.runner.run(read_checkpoint(epoch, row.checkpoint))
        except LogstoreError:
            return frozenset((row.checkpoint,))
        return frozenset((*front.earlier, front.seq))

    # Partitions and topics

    def _check_partitions(self) -> None:
        rows = self._partition_rows()
        topics = self._topics()
        chains = self._found.chains
        known = {topic.topic_id for topic in topics.values()}
        live = {t.topic_id for t in topics.values() if t.status is TopicStatus.LIVE}
        self._found.counts.partitions = len(rows)
        fronts = self._fronts_at_trim_points()
        holders, counts = self._holders(fronts), self._found.counts
        with_partitions = {key.topic_id for key in rows}
        seen = check_topics(
            self._log, topics, holders, with_partitions, counts, bodies=self._bodies
        )
        self._found.problems += seen.problems
        led = {
            key.topic_id: epoch
            for epoch, chain in sorted(chains.items())
            for key in chain.epoch_ranges
        }
        for (topic_id, number), row in rows.items():
            self._found.problems += partition_problems(topic_id, number, row, chains)
            if topic_id in known:
                continue
            fate = fate_of(None, deletion_recorded=topic_id in seen.deleted)
            if may_drop_rows(fate, was_led=topic_id in led).may:
                self._found.counts.half_done += 1
            else:
                where = f"row partition/{topic_id.hex()}/{number}"
                detail = "no topic has this id, and a chain has led it"
                self._problem(ProblemKind.NO_TOPIC, where, detail, row.chain, led[topic_id])
        # A late creation may put back rows of a topic that was deleted, or is being deleted.
        gone = (known - live) | seen.deleted
        held = self._tables.ends(rows.keys())
        for epoch, chain in chains.items():
            for key, extent in chain.epoch_ranges.items():
                taken = rows.get(key.topic_partition)
                if taken is not None and key.topic_id not in gone:
                    durable_end = held.get(key.topic_partition, 0)
                    self._note(take_problem(key, extent, epoch, taken, durable_end))
        self._check_topics(topics, rows, led, seen.deleted)
        # Restore, too, leaves the rows of such topics as they were.
        kept = {key: row for key, row in rows.items() if key.topic_id not in gone}
        self._found.problems += end_problems(self._tables, kept, chains)
        newest = newest_taken(chains)
        needs = Needs(live, rows, newest, held, seen.deleted, known - live)
        for epoch, front in fronts.items():
            self._note(trim_problem(front, needs, self._rows[epoch].deleted))

    def _holders(self, fronts: Mapping[int, Checkpoint]) -> dict[bytes, DataLocation]:
        """By topic id, one place that holds data of it, or held it: a table, or the newest chain.

        A checkpoint at a trim point still names topics that its chain has forgotten since.
        """
        holders = {
            key.topic_id: DataLocation(checkpoint_key(epoch, front.seq), (epoch,))
            for epoch, front in sorted(fronts.items())
            for key in front.epoch_ranges
        }
        for topic_id in self._tables.snapshots:
            holders[topic_id] = DataLocation(table_key(topic_id), ())
        for epoch, chain in sorted(self._found.chains.items()):
            for key in chain.epoch_ranges:
                holders[key.topic_id] = DataLocation(segment_key(epoch, 0), (epoch,))
        return holders

    def _check_topics(
        self,
        topics: Mapping[str, TopicRow],
        rows: Mapping[TopicPartition, PartitionRow],
        led: Mapping[bytes, int],
        deleted: Collection[bytes],
    ) -> None:
        """`led`: by topic id, a chain that has an epoch range of it; `deleted`: by the records."""
        for name, topic in topics.items():
            if topic.status is not TopicStatus.LIVE:
                continue
            lacking = [
                n for n in range(topic.partitions) if TopicPartition(topic.topic_id, n) not in rows
            ]
            has_none = len(lacking) == topic.partitions
            was_led = topic.topic_id in led and not (has_none and topic.topic_id in deleted)
            if lacking and not was_led:
                self._found.counts.half_done += 1
            elif lacking:
                detail = f"no row of partitions {lacking[:10]} (of {topic.partitions})"
                chains = [led[topic.topic_id]] if topic.topic_id in led else []
                self._problem(ProblemKind.NO_PARTITION, f"row topic/{name}", detail, *chains)

    def _fronts_at_trim_points(self) -> dict[int, Checkpoint]:
        fronts = {}
        for epoch in self._found.chains:
            row = self._rows.get(epoch)
            if row is None or not row.trim:
                continue
            try:
                fronts[epoch] = self._log.runner.run(read_checkpoint(epoch, row.trim))
            except LogstoreError:
                continue  # named already, when the chain was entered there
        return fronts

    def _partition_rows(self) -> dict[TopicPartition, PartitionRow]:
        rows = {}
        for pk in partition_pks():
            for sk, row in query_all(self._log, pk):
                try:
                    rows[topic_partition_of(sk)] = PartitionRow.of(row)
                except Corrupt as error:
                    self._problem(ProblemKind.BAD_ROW, f"row {pk}/{sk}", str(error))
        return rows

    def _topics(self) -> dict[str, TopicRow]:
        """Those that were deleted too."""
        topics = {}
        for name, row in query_all(self._log, TOPIC):
            try:
                topics[name] = TopicRow.of(row)
            except Corrupt as error:
                self._problem(ProblemKind.BAD_ROW, f"row topic/{name}", str(error))
        return topics

    def _problem(self, what: ProblemKind, where: str, detail: str, *epochs: int) -> None:
        self._found.problems.append(Problem(what, where, detail, epochs))

    def _note(self, problem: Problem | None) -> None:
        if problem is not None:
            self._found.problems.append(problem)


def _by_chain(
    infos: Iterable[ObjectInfo], problems: list[Problem]
) -> Iterator[tuple[int, Iterator[tuple[int, ObjectInfo]]]]:
    """Segments as they are listed, chain by chain, and what lies there under no segment's key."""
    for epoch, some in groupby(_segments(infos, problems), key=lambda item: item[0]):
        yield epoch, ((seq, info) for _, seq, info in some)


def _segments(
    infos: Iterable[ObjectInfo], problems: list[Problem]
) -> Iterator[tuple[int, int, ObjectInfo]]:
    for info in infos:
        place = parsed_key(info.key)
        if place is None or segment_key(*place) != info.key:
            problems.append(
                Problem(ProblemKind.STRANGE_KEY, info.key, "no segment has this key", ())
            )
        else:
            yield *place, info


def by_cause(problems: Sequence[Problem]) -> dict[ProblemKind, list[Problem]]:
    sorted_ones: dict[ProblemKind, list[Problem]] = defaultdict(list)
    for problem in problems:
        sorted_ones[problem.what].append(problem)
    return sorted_ones
