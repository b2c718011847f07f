"""`logstore restore`: seals every chain, then writes the rows that go with them. Repeatable.

    watch        heartbeats and the ends of open chains for longer than a lease: is a broker alive?
    seal         every chain without a seal, by a real put, so that no old broker can go on
    checkpoint   at every seal
    tables       up to where they hold each partition
    records      of topics whose stored records do not say what their row will say
    rows         chains, partitions, tables, topics, ACLs; the cluster row last: no broker starts
                 before

If it dies at any point it can be run again; rows already written equal those it would write.

If any row changes, all rows of chains get the time of the restore as `trim_ms`: a broker that was
stopped may have sent a request that lands later, and the trim point in it was allowed by log starts
and tables of the registry that is lost. `publish_trim` compares `trim_ms`, so it is refused.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from logstore.epoch.table_queries import TableQueries
from logstore.errors import ConditionFailed, Corrupt, LogstoreError, NotFound, Refused
from logstore.formats.acl_row import ACL, AclRow
from logstore.formats.broker_row import BROKER, BrokerRow
from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.formats.chain_state import ChainState
from logstore.formats.checkpoint import encode_checkpoint
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.keys import checkpoint_key
from logstore.formats.levels import OLDEST_LEVEL, check_known
from logstore.formats.partition_row import (
    NO_BROKER,
    PartitionRow,
    partition_pk,
    partition_pks,
    partition_sk,
    topic_partition_of,
)
from logstore.formats.segment import SegmentKind
from logstore.formats.table_row import TABLE, TableRow
from logstore.formats.topic_record import TopicRecord, deletion_in
from logstore.formats.topic_row import TOPIC, TopicRow
from logstore.history.forms.names import log_prefix
from logstore.history.forms.snapshot import Snapshot
from logstore.ports.registry import Comparison, Row, RowAbsent
from logstore.protocol.access.acls import newest_acls
from logstore.protocol.chain.identity import read_identity
from logstore.protocol.chain.put import create_settled
from logstore.protocol.chain.seal import seal_at_end
from logstore.protocol.chain.walk import read_front
from logstore.protocol.leading.upgrade import read_marked_level
from logstore.protocol.rows.metadata import read_table_rows
from logstore.protocol.steps import (
    DeleteRow,
    GetRow,
    GraceStartMs,
    PutRow,
    QueryRows,
    Steps,
    UpdateRow,
    Wait,
)
from logstore.protocol.topics.life import put_record
from logstore.restore.decisions.evidence import (
    Evidence,
    Listed,
    ReadChain,
    chains_with_holes,
    evidence_of,
    list_chains,
    list_records,
    list_tables,
    missing_files,
    openings_missing,
    read_chain,
    read_records,
    tables_missing,
)
from logstore.restore.decisions.missing import (
    MissingChains,
    MissingObjects,
    prefixes_of,
    prefixes_of_chain,
)
from logstore.restore.decisions.plan import (
    LeftOut,
    RegistryRows,
    check_end,
    check_known_chains,
    plan_rows,
)
from logstore.restore.decisions.topics import RESTORED, Records
from logstore.restore.listing import RetryingKeys
from logstore.restore.taking_back import TrashQueries
from logstore.runners.step_runner import StepRunner
from logstore.version import VERSION

WATCH_S = 6.0
"""Twice the term of a broker's lease."""
ATTEMPTS_MAX = 60

STOP_FIRST = "stop every broker, then run this again"
Advance = Callable[[int], None]


@dataclass(slots=True)
class Restored:
    """Changes made, or to be made. Rows are named `pk/sk`; unchanged ones are not in `rows`."""

    chains: int = 0
    sealed: dict[int, int] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    """But for the time of the restore in rows of chains."""
    removed: list[str] = field(default_factory=list)
    """Rows of partitions whose topic is deleted."""
    records: list[str] = field(default_factory=list)
    """Keys of topics' records."""
    lost_topics: dict[str, int] = field(default_factory=dict)
    """Topics whose names were lost, as they are called now, and how many partitions they have."""
    left_out: list[LeftOut] = field(default_factory=list)
    """Leaderships that contradict others, which count."""
    taken_back: list[str] = field(default_factory=list)
    """Keys of objects that were missing, and that the store had kept."""


@dataclass(frozen=True, slots=True)
class _Ends:
    """Values that change while a broker is running."""

    heartbeats: Mapping[str, tuple[int, int]]
    chains: Mapping[int, int]


async def restore(
    runner: StepRunner,
    cluster_id: bytes,
    tables: TableQueries,
    *,
    dry_run: bool,
    advance: Advance,
    names: Mapping[bytes, str] | None = None,
    trash: TrashQueries | None = None,
    chains_left_out: Collection[int] = (),
    holes_deleted: bool = False,
) -> Restored:
    """Rebuilds the registry. What turns out to be missing is taken back from `trash` first.

    Raises `Refused` when a broker is at work, `Corrupt` when a piece of a chain is missing or a
    table cannot be read. `names` are of topics whose rows are lost, by id. Where chains contradict
    each other, the leaderships in `chains_left_out` do not count; `holes_deleted` as `plan_rows`.
    """
    taken: list[str] = []
    while True:
        try:
            done = await _restore(
                runner,
                cluster_id,
                tables,
                trash,
                dry_run=dry_run,
                advance=advance,
                names=names,
                chains_left_out=chains_left_out,
                holes_deleted=holes_deleted,
            )
        except LogstoreError as error:
            prefixes = prefixes_of(error)
            if trash is None or not prefixes:
                raise
            back = await _take_back(trash, prefixes, error, dry_run=dry_run)
            if not back:
                raise
            taken += back
        else:
            done.taken_back[:0] = taken
            return done


async def _take_back(
    trash: TrashQueries, prefixes: Sequence[str], error: LogstoreError, *, dry_run: bool
) -> Sequence[str]:
    """Keys of objects that are there again; none: there is nothing to take back."""
    if not dry_run:
        return await trash.take_back(prefixes)
    count = await trash.count(prefixes)
    if count:
        raise Refused(
            f"{error}; deleted objects that the store still has there: count={count}; without "
            "--dry-run they are taken back"
        ) from error
    return ()


async def _restore(
    runner: StepRunner,
    cluster_id: bytes,
    tables: TableQueries,
    trash: TrashQueries | None,
    *,
    dry_run: bool,
    advance: Advance,
    names: Mapping[bytes, str] | None,
    chains_left_out: Collection[int],
    holes_deleted: bool,
) -> Restored:
    keys_below = RetryingKeys(runner).below
    listed = await list_chains(keys_below)
    _check_openings(listed)
    old = await runner.run(_read_rows(cluster_id))
    check_known_chains(listed, old)
    await runner.run(_check_no_broker_is_there(cluster_id, listed))
    done = Restored(chains=len(listed))
    torn = chains_with_holes(listed, old.chains)
    if trash is not None and torn:
        prefixes = [prefix for epoch in torn for prefix in prefixes_of_chain(epoch)]
        missing = MissingObjects(f"segments are missing of chains {torn[:10]}", prefixes)
        done.taken_back += await _take_back(trash, prefixes, missing, dry_run=dry_run)
        listed = await list_chains(keys_below) if done.taken_back else listed
    evidence = []
    for epoch in sorted(listed):
        steps = _settle(cluster_id, epoch, listed[epoch], old, done, dry_run=dry_run)
        evidence.append(await runner.run(steps))
        advance(1)
    records = await runner.run(read_records(await list_records(keys_below)))
    there = await list_tables(keys_below)
    snapshots = await _read_tables(tables, there, records)
    if trash is not None and not dry_run:
        lost = tables_missing(evidence, old.tables, snapshots, records)
        back = await trash.take_back([log_prefix(topic_id) for topic_id in lost])
        if back:
            snapshots = await _read_tables(tables, {*there, *lost}, records)
        files = await missing_files(keys_below, snapshots)
        done.taken_back += [*back, *await trash.take_back(files)]
    planned = plan_rows(
        cluster_id,
        evidence,
        old,
        snapshots,
        names,
        records,
        chains_left_out=chains_left_out,
        holes_deleted=holes_deleted,
        known_level=await runner.run(_read_known_level()),
    )
    planned.acls, done.left_out = await runner.run(newest_acls()), planned.left_out
    done.lost_topics = {
        name: topic.partitions
        for name, topic in planned.topics.items()
        if name.startswith(RESTORED) and name not in old.topics
    }
    await runner.run(_write_records(planned.records, done, dry_run=dry_run))
    await runner.run(_write_rows(planned, old, done, dry_run=dry_run))
    return done


def _check_openings(listed: Collection[int]) -> None:
    """Raises `MissingChains`."""
    missing = openings_missing(sorted(listed))
    if missing:
        raise MissingChains(
            f"nothing is there of chains {missing[:10]}; put their files back first",
            [prefix for epoch in missing for prefix in prefixes_of_chain(epoch)],
        )


def _read_known_level() -> Steps[int]:
    """The format level that the store says, whatever the registry knows. Raises `Refused`."""
    identity = yield from read_identity()
    level = OLDEST_LEVEL if identity is None else identity.format_level
    level = yield from read_marked_level(level)
    check_known(level, VERSION)
    return level


def _read_rows(cluster_id: bytes) -> Steps[RegistryRows]:
    """The registry as it is: empty, or an old copy."""
    rows = RegistryRows()
    cluster = yield GetRow(CLUSTER, CLUSTER)
    if cluster is not None:
        rows.cluster = ClusterRow.of(cluster)
        if rows.cluster.cluster_id != cluster_id:
            raise Refused(
                f"the registry belongs to another cluster: log={cluster_id.hex()} "
                f"registry={rows.cluster.cluster_id.hex()}; check the URL and the registry"
            )
    rows.chains = {int(sk): ChainRow.of(row) for sk, row in (yield QueryRows(CHAIN))}
    rows.topics = {name: TopicRow.of(row) for name, row in (yield QueryRows(TOPIC))}
    for pk in partition_pks():
        for sk, row in (yield QueryRows(pk)):
            rows.partitions[topic_partition_of(sk)] = PartitionRow.of(row)
    rows.tables = yield from read_table_rows()
    rows.acls = {sk: AclRow.of(row) for sk, row in (yield QueryRows(ACL))}
    return rows


async def _read_tables(
    tables: TableQueries, topic_ids: Collection[bytes], records: Records
) -> dict[bytes, Snapshot]:
    """Those of topics that are not deleted."""
    snapshots = {}
    for topic_id in sorted(topic_ids):
        if deletion_in(records.get(topic_id, ())) is not None:
            continue
        try:
            snapshot = await tables.snapshot(topic_id)
        except (Corrupt, Refused) as error:
            raise MissingObjects(
                f"a table cannot be read: {error}; put its files back from a copy, or move its "
                "folder away to go on without what it holds",
                [log_prefix(topic_id)],
            ) from error
        if snapshot is not None:
            snapshots[topic_id] = snapshot
    return snapshots


# Is a broker alive?


def _check_no_broker_is_there(cluster_id: bytes, listed: Mapping[int, Listed]) -> Steps[None]:
    before = yield from _ends(cluster_id, listed)
    yield Wait(WATCH_S)
    now = yield from _heartbeats()
    alive = sorted(sk for sk, heartbeat in now.items() if before.heartbeats.get(sk) != heartbeat)
    if alive:
        raise Refused(f"brokers are alive: brokers={','.join(alive)}; {STOP_FIRST}")
    for epoch, end in before.chains.items():
        try:
            front = yield from read_front(epoch, end)
        except NotFound:
            continue
        if front.index.header.kind is not SegmentKind.SEAL:
            raise Refused(f"a broker is writing: chain={epoch} seq={end}; {STOP_FIRST}")


def _ends(cluster_id: bytes, listed: Mapping[int, Listed]) -> Steps[_Ends]:
    """Heartbeats, and the first free seq of every chain without a seal."""
    heartbeats = yield from _heartbeats()
    chains = {}
    for epoch in sorted(listed):
        read = yield from read_chain(cluster_id, epoch, listed[epoch])
        if not read.is_sealed:
            chains[epoch] = read.state.next_seq
    return _Ends(heartbeats, chains)


def _heartbeats() -> Steps[dict[str, tuple[int, int]]]:
    heartbeats = {}
    for sk, row in (yield QueryRows(BROKER)):
        broker = BrokerRow.of(row)
        heartbeats[sk] = (broker.epoch, broker.heartbeat)
    return heartbeats


# Chains


def _settle(
    cluster_id: bytes,
    epoch: int,
    listed: Listed,
    old: RegistryRows,
    done: Restored,
    *,
    dry_run: bool,
) -> Steps[Evidence]:
    read = yield from read_chain(cluster_id, epoch, listed)
    yield from evidence_of(listed, read)  # missing objects are reported before any change
    state = read.state
    check_end(epoch, state.next_seq, old)
    if not read.is_sealed:
        if not dry_run:
            first = state.next_seq
            yield from seal_at_end(state, NO_BROKER)
            listed.add_run(first, state.next_seq + 1)  # segments put since, and the seal
        done.sealed[epoch] = state.next_seq
    if not dry_run:
        yield from _put_checkpoint(state)
        if state.next_seq not in listed.checkpoints:
            listed.checkpoints.append(state.next_seq)
    return (yield from evidence_of(listed, ReadChain(state, is_sealed=not dry_run)))


def _put_checkpoint(state: ChainState) -> Steps[None]:
    if state.checkpoint != state.next_seq:
        key, data = checkpoint_key(state.epoch, state.next_seq), encode_checkpoint(state)
        yield from create_settled(key, data, attempts_max=ATTEMPTS_MAX)
        state.checkpoints.append(state.next_seq)


# Records and rows


def _write_records(records: Sequence[TopicRecord], done: Restored, *, dry_run: bool) -> Steps[None]:
    for record in records:
        done.records.append(record.key)
        if not dry_run and not (yield from put_record(record)):
            raise Refused(f"topic {record.name} is being changed; {STOP_FIRST}")


class _Change(NamedTuple):
    """A row to write. If one existed, `held` are the attributes that must not have changed."""

    place: tuple[str, str]
    row: Row
    before: Row | None
    held: str

    @property
    def differs(self) -> bool:
        return self.before is None or dict(self.row) != dict(self.before)


def _write_rows(
    planned: RegistryRows, old: RegistryRows, done: Restored, *, dry_run: bool
) -> Steps[None]:
    changes = _changes(planned, old)
    done.rows = {"/".join(change.place): change.row for change in changes if change.differs}
    gone = sorted(old.partitions.keys() - planned.partitions.keys())
    done.removed = ["/".join((partition_pk(*key), partition_sk(*key))) for key in gone]
    if dry_run or not (done.rows or done.removed):
        return
    for key in gone:
        yield from _remove((partition_pk(*key), partition_sk(*key)), old.partitions[key])
    now_ms: int = yield GraceStartMs()
    for change in changes:
        if change.place[0] == CHAIN:
            yield from _write(change._replace(row={**change.row, "trim_ms": now_ms}))
        elif change.differs:
            yield from _write(change)


def _changes(planned: RegistryRows, old: RegistryRows) -> list[_Change]:
    """The cluster row last."""
    assert planned.cluster is not None
    changes = []
    for epoch, chain in planned.chains.items():
        place, before = (CHAIN, chain_sk(epoch)), old.chains.get(epoch)
        changes.append(_Change(place, chain.row(), _row(before), "checkpoint"))
    for key, row in planned.partitions.items():
        place, known = (partition_pk(*key), partition_sk(*key)), old.partitions.get(key)
        changes.append(_Change(place, row.row(), _row(known), "leader_epoch"))
    for topic_id, table in planned.tables.items():
        place, copy = (TABLE, topic_id.hex()), old.tables.get(topic_id)
        changes.append(_Change(place, table.row(), _row(copy), "version"))
    for name, topic in planned.topics.items():
        then = old.topics.get(name)
        changes.append(_Change((TOPIC, name), topic.row(), _row(then), "topic_id"))
    for shard, acls in planned.acls.items():
        known_acls = old.acls.get(shard)
        changes.append(_Change((ACL, shard), acls.row(), _row(known_acls), "version"))
    place, was = (CLUSTER, CLUSTER), old.cluster
    return [*changes, _Change(place, planned.cluster.row(), _row(was), "next_epoch")]


def _row(
    value: AclRow | ChainRow | PartitionRow | TableRow | TopicRow | ClusterRow | None,
) -> Row | None:
    return None if value is None else value.row()


def _remove(place: tuple[str, str], before: PartitionRow) -> Steps[None]:
    try:
        yield DeleteRow(*place, [Comparison("leader_epoch", "=", before.leader_epoch)])
    except ConditionFailed as failed:
        if failed.current is not None:
            raise Refused(f"row {'/'.join(place)} is being changed; {STOP_FIRST}") from failed


def _write(change: _Change) -> Steps[None]:
    place, before = change.place, change.before
    try:
        if before is None:
            yield PutRow(*place, change.row, [RowAbsent()])
        else:
            yield UpdateRow(*place, change.row, [Comparison(change.held, "=", before[change.held])])
    except ConditionFailed as failed:
        raise Refused(f"row {'/'.join(place)} is being changed; {STOP_FIRST}") from failed
