"""Staged batches of sinks, looked over for `logstore fsck`: can each be adopted? Pure.

    keys of staging/ ─► per manifest  read whole; each object that it names: its front, or all
                     ─► where an object is missing or false: states of the partitions

A batch that every partition with rows has already needs no object: they are deleted at leisure, so
one that is gone or damaged is no problem then. Nor is one of a void manifest, or of one so old that
leaders refuse it. What no manifest names is counted: a task that stages now, or a lost attempt.

A sink begins a batch when all partitions have the one before. So of each sink its last manifest is
read, and those that have objects left; a query leaves a manifest for each batch of four weeks, and
the others are read where every byte is to be checked.

States are read after the objects, up to the end of each chain: a batch that is adopted during the
check, and then swept, is found adopted. No record that is in the log depends on any of this.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from logstore.errors import Corrupt, LogstoreError, NotFound, Refused
from logstore.formats.chain_row import ChainRow
from logstore.formats.chain_state import ChainState
from logstore.formats.manifest import Manifest
from logstore.formats.segment import body_of
from logstore.formats.staged_object import StagedIndex, StagedRange, StagedRef, batches_of
from logstore.formats.staging_keys import SinkBatch, place_of
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.chain.seal import read_chain_row
from logstore.protocol.chain.walk import read_chain_at, read_on
from logstore.protocol.rules.checks import Problem, ProblemKind
from logstore.protocol.sinks.sink_states import deleted_topics, sink_states
from logstore.protocol.sinks.staged_counts import StagedCounts
from logstore.protocol.sinks.staged_reads import read_manifest, read_staged_bytes, read_staged_index
from logstore.protocol.sinks.staging_disposal import States, group_keys, is_complete, is_over
from logstore.protocol.steps import Gather, Steps, sliced

READS_AT_ONCE = 32


@dataclass(slots=True)
class StagingFound:
    """Result of one look."""

    manifests: int = 0
    objects: int = 0
    """Those that manifests name."""
    unnamed: int = 0
    """Objects of tasks that stage now, or of attempts that lost: to be deleted."""
    problems: list[Problem] = field(default_factory=list)


@dataclass(slots=True)
class _Doubt:
    """A batch that cannot be adopted as it lies there."""

    manifest: Manifest
    problems: list[Problem]


def check_staging(
    cluster_id: bytes, sizes: Mapping[str, int], now_ms: int, *, bodies: bool
) -> Steps[StagingFound]:
    """One look. `sizes` in bytes of all stored below `staging/`; `bodies`: check every byte.

    Raises as stores and registry do, never for the bytes of a staged object or manifest.
    """
    found = StagingFound()
    for key in sizes:
        if place_of(key) is None:
            found.problems.append(_problem(ProblemKind.STRANGE_KEY, key, "no sink has this key"))
    doubts: dict[SinkBatch, _Doubt] = {}
    batches = group_keys(sizes)
    newest = {batch.sink: batch for batch, stored in batches.items() if stored.has_manifest}
    for batch, stored in batches.items():
        if not stored.has_manifest:
            found.unnamed += len(stored.objects)
            continue
        if not (bodies or stored.objects or batch == newest[batch.sink]):
            found.manifests += 1
            continue
        manifest = yield from _manifest(cluster_id, batch, found, bodies)
        if manifest is None:
            continue
        named = {ref.name for ref in manifest.head.objects}
        found.unnamed += sum(name not in named for name in stored.objects)
        if is_over(batch, manifest.header.created_ms, now_ms):
            continue
        problems = yield from _check_objects(cluster_id, batch, manifest, sizes, found, bodies)
        if problems:
            doubts[batch] = _Doubt(manifest, problems)
    yield from _settle(cluster_id, doubts, found)
    return found


def _manifest(
    cluster_id: bytes, batch: SinkBatch, found: StagingFound, bodies: bool
) -> Steps[Manifest | None]:
    """One that cannot be read is a problem, adopted or not: its objects are never deleted."""
    key = batch.manifest_key
    try:
        manifest, data = yield from read_manifest(batch, cluster_id)
        if bodies:
            _check_batches(manifest.inline, data, manifest.header.body_at, key)
    except NotFound:
        return None  # deleted since it was listed
    except (Corrupt, Refused) as error:
        found.problems.append(_problem(ProblemKind.STAGING, key, str(error)))
        return None
    found.manifests += 1
    return manifest


def _check_objects(
    cluster_id: bytes,
    batch: SinkBatch,
    manifest: Manifest,
    sizes: Mapping[str, int],
    found: StagingFound,
    bodies: bool,
) -> Steps[list[Problem]]:
    """`found` counts the good ones."""
    refs: Sequence[StagedRef] = manifest.head.objects
    problems: list[Problem] = []
    counts = StagedCounts(manifest)
    for at in range(0, len(refs), READS_AT_ONCE):
        some = refs[at : at + READS_AT_ONCE]
        indexes: list[StagedIndex] = []
        outcomes: Sequence[StagedIndex | LogstoreError] = yield Gather(
            [_check_object(cluster_id, batch, ref, sizes, bodies) for ref in some]
        )
        for ref, outcome in zip(some, outcomes, strict=True):
            if isinstance(outcome, Corrupt | Refused):
                where = ref.name.key(batch)
                problems.append(_problem(ProblemKind.STAGING, where, str(outcome)))
            elif isinstance(outcome, LogstoreError):
                raise outcome
            else:
                found.objects += 1
                indexes.append(outcome)
        if not problems:
            problems += yield from _count(counts, indexes)
    if not problems:
        problems += yield from _count(counts, None)
    return problems


def _count(counts: StagedCounts, indexes: Sequence[StagedIndex] | None) -> Steps[list[Problem]]:
    """`None`: all objects are counted."""
    try:
        for index in indexes or ():
            yield from sliced(counts.add(index))
        if indexes is None:
            yield from sliced(counts.finish())
    except Corrupt as error:
        return [_problem(ProblemKind.STAGING, counts.manifest_key, str(error))]
    return []


def _check_object(
    cluster_id: bytes,
    batch: SinkBatch,
    ref: StagedRef,
    sizes: Mapping[str, int],
    bodies: bool,
) -> Steps[StagedIndex]:
    index = yield from read_staged_index(batch, ref, cluster_id)
    key, body_at = ref.name.key(batch), index.header.body_at
    if (size := sizes.get(key, ref.size_bytes)) != ref.size_bytes:
        raise Corrupt(f"staged object of another size: key={key} bytes={size} need={ref}")
    if bodies:
        data = yield from read_staged_bytes(key, 0, ref.size_bytes + 1)
        try:
            body_of(data, index.header)
        except Corrupt as error:
            raise Corrupt(f"{error} key={key}") from error
        _check_batches(index.ranges, data, body_at, key)
    return index


def _check_batches(ranges: Iterable[StagedRange], data: bytes, body_at: int, key: str) -> None:
    view = memoryview(data)
    for one in ranges:
        for _ in batches_of(one, view[body_at + one.start : body_at + one.end], key):
            pass


# Which doubts matter


def _settle(
    cluster_id: bytes, doubts: Mapping[SinkBatch, _Doubt], found: StagingFound
) -> Steps[None]:
    wanted = {one for doubt in doubts.values() for one in doubt.manifest.head.rows}
    states, gone = yield from _read_known(cluster_id, wanted)
    for batch, doubt in doubts.items():
        lacking = [
            one
            for one in doubt.manifest.head.rows
            if one.topic_id not in gone
            and not is_complete(
                (known[batch.sink] for known in states[one] if batch.sink in known), batch.batch
            )
        ]
        if lacking:
            total = f"(partitions without the batch: {len(lacking)})"
            found.problems += [
                one._replace(detail=f"{one.detail} {total}") for one in doubt.problems
            ]


def _read_known(
    cluster_id: bytes, wanted: set[TopicPartition]
) -> Steps[tuple[States, Collection[bytes]]]:
    """The sinks of these partitions, and those of their topics that are deleted.

    Rows and chains that cannot be read say nothing. They are problems of their own, named where
    rows and chains are checked.
    """
    try:
        states = yield from sink_states(wanted, partial(_at_its_end, cluster_id))
        return states, (yield from deleted_topics({one.topic_id for one in wanted}))
    except Corrupt:
        return dict.fromkeys(wanted, ()), ()


def _at_its_end(cluster_id: bytes, epoch: int) -> Steps[ChainState | None]:
    try:
        row: ChainRow = yield from read_chain_row(epoch)
        chain = yield from read_chain_at(cluster_id, epoch, row.checkpoint)
        yield from read_on(chain)
    except (Corrupt, Refused, NotFound):
        return None
    return chain


def _problem(what: ProblemKind, where: str, detail: str) -> Problem:
    return Problem(what, where, detail, ())
