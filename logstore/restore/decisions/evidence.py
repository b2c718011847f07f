"""Evidence of each chain in the store, for `logstore restore`. The one reader that trusts a LIST.

A list says which chains and checkpoints there are and where their segments begin; everything else
is read from openings, the last checkpoint and what follows it, as any takeover does.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from logstore.errors import Corrupt, LogstoreError, NotFound
from logstore.formats.chain_row import ChainRow
from logstore.formats.chain_state import ChainState, EpochKey
from logstore.formats.checkpoint import Checkpoint
from logstore.formats.keys import (
    CHAINS,
    CHECKPOINTS,
    checkpoint_key,
    segment_key,
)
from logstore.formats.levels import OLDEST_LEVEL, SINK_LEVEL
from logstore.formats.segment import HEADER_BYTES, Header, SegmentKind, decode_header
from logstore.formats.table_row import TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_record import (
    RECORD_BYTES_MAX,
    TOPICS,
    TopicRecord,
    decode_record,
    deletion_in,
    record_place,
)
from logstore.history.forms.names import PARTITION_FOLDER, TABLES, table_key, table_topic
from logstore.history.forms.snapshot import Snapshot
from logstore.protocol.chain.walk import (
    Gap,
    Sealed,
    get_retrying,
    read_chain_at,
    read_checkpoint,
    read_on,
)
from logstore.protocol.rules.checks import WrittenRange, extents_of
from logstore.protocol.steps import Gather, Steps
from logstore.restore.decisions.missing import PUT_BACK, MissingObjects, prefixes_of_chain

RUNS_MAX = 1000

KeysBelow = Callable[[str], AsyncIterator[str]]
"""All keys that start with a prefix, in order."""


@dataclass(slots=True)
class Listed:
    """Listed objects of one chain: runs of seqs without a gap, and its checkpoints' seqs."""

    runs: list[tuple[int, int]] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)

    def add(self, seq: int) -> None:
        """Seqs are listed upwards."""
        if self.runs and self.runs[-1][1] == seq:
            self.runs[-1] = (self.runs[-1][0], seq + 1)
        elif len(self.runs) < RUNS_MAX:
            self.runs.append((seq, seq + 1))

    def add_run(self, first: int, end: int) -> None:
        """Seqs [first, end) are there too, wherever they lie among the others."""
        touching = [run for run in self.runs if run[0] <= end and run[1] >= first]
        others = [run for run in self.runs if run not in touching]
        merged = (min([first, *(r[0] for r in touching)]), max([end, *(r[1] for r in touching)]))
        self.runs = sorted([*others, merged])

    def run_of(self, seq: int) -> tuple[int, int] | None:
        return next((run for run in self.runs if run[0] <= seq < run[1]), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One chain. `gone` has, by epoch range, the offset below which its segments are deleted.

    `deleted_below` has, by partition, the offset below which retention or a client had deleted all
    records when the chain forgot epoch ranges there.

    `torn` is empty where what is there below the trim point is what a deletion leaves behind. Else
    it says what is missing: a deletion that died or a segment that came back looks the same as a
    segment that was lost, and what else knows of those offsets has to tell them apart.
    """

    epoch: int
    broker: int
    end: int
    is_sealed: bool
    checkpoint: int
    trim: int
    epoch_ranges: Mapping[EpochKey, WrittenRange]
    gone: Mapping[EpochKey, int]
    deleted_below: Mapping[TopicPartition, int] = field(default_factory=dict)
    torn: str = ""
    format_level: int = OLDEST_LEVEL
    """The lowest that has every form which its state needs."""


async def list_chains(keys_below: KeysBelow) -> dict[int, Listed]:
    """By epoch. Keys that fit neither a segment nor a checkpoint are passed by."""
    chains: dict[int, Listed] = {}
    async for key in keys_below(CHAINS):
        place = _place(key)
        if place is not None and segment_key(*place) == key:
            chains.setdefault(place[0], Listed()).add(place[1])
    async for key in keys_below(CHECKPOINTS):
        place = _place(key)
        if place is not None and checkpoint_key(*place) == key and place[0] in chains:
            chains[place[0]].checkpoints.append(place[1])
    return chains


def chains_with_holes(listed: Mapping[int, Listed], known: Mapping[int, ChainRow]) -> list[int]:
    """Chains that lack segments below others, and no trim point that is known explains it.

    Segments came back below a trim point, or a put beyond a gap was never committed, or segments
    were lost: what the store still has of them is to be there before that is judged.
    """
    epochs = []
    for epoch, there in sorted(listed.items()):
        runs = [run for run in there.runs if run != (0, 1)]
        trim = known[epoch].trim if epoch in known else 0
        if not runs or trim >= runs[-1][0] or there.runs[0] == runs[-1]:
            continue
        if len(runs) > 1 or not any(seq >= runs[0][0] for seq in there.checkpoints):
            epochs.append(epoch)
    return epochs


async def list_records(keys_below: KeysBelow) -> dict[bytes, list[str]]:
    """Keys of topics' records, by topic id. Those that fit none are passed by."""
    keys: dict[bytes, list[str]] = {}
    async for key in keys_below(TOPICS):
        place = record_place(key)
        if place is not None:
            keys.setdefault(place[0], []).append(key)
    return keys


async def list_tables(keys_below: KeysBelow) -> set[bytes]:
    """Ids of the topics that have anything where their table would be."""
    topic_ids = set()
    async for key in keys_below(f"{TABLES}/"):
        topic_id = table_topic(key)
        if topic_id is not None:
            topic_ids.add(topic_id)
    return topic_ids


def tables_missing(
    chains: Sequence[Evidence],
    copies: Mapping[bytes, TableRow],
    readable: Collection[bytes],
    records: Mapping[bytes, Sequence[TopicRecord]],
) -> list[bytes]:
    """Topics that are not deleted, and have no table though there should be one.

    Segments of theirs were trimmed, or a table pointer says that offsets were moved.
    """
    wanted = {key.topic_id for chain in chains for key, gone in chain.gone.items() if gone}
    wanted |= {topic_id for topic_id, row in copies.items() if row.ends}
    return sorted(
        topic_id
        for topic_id in wanted - set(readable)
        if deletion_in(records.get(topic_id, ())) is None
    )


async def missing_files(keys_below: KeysBelow, snapshots: Mapping[bytes, Snapshot]) -> list[str]:
    """Keys of data files that tables name and that are not there."""
    missing: list[str] = []
    for topic_id, snapshot in snapshots.items():
        front = f"{table_key(topic_id)}/"
        named = {front + file.path for file in snapshot.all_files()}
        async for key in keys_below(front + PARTITION_FOLDER):
            named.discard(key)
        missing += sorted(named)
    return missing


def read_records(listed: Mapping[bytes, Sequence[str]]) -> Steps[dict[bytes, list[TopicRecord]]]:
    """Raises `Corrupt`, or `Refused` for a record of another format."""
    keys = [key for some in listed.values() for key in some]
    read: Sequence[TopicRecord | LogstoreError] = yield Gather([_read(key) for key in keys])
    records: dict[bytes, list[TopicRecord]] = {}
    for record in read:
        if isinstance(record, LogstoreError):
            raise record
        records.setdefault(record.topic.topic_id, []).append(record)
    return records


def _read(key: str) -> Steps[TopicRecord]:
    return decode_record(key, (yield from get_retrying(key, 0, RECORD_BYTES_MAX)))


def _place(key: str) -> tuple[int, int] | None:
    parts = key.split("/")[-2:]
    if len(parts) == 2 and all(part.isascii() and part.isdigit() for part in parts):
        return int(parts[0]), int(parts[1])
    return None


@dataclass(frozen=True, slots=True)
class ReadChain:
    """A chain as far as it goes now; `state.next_seq` is its seal's seq, or the first free one."""

    state: ChainState
    is_sealed: bool


def read_chain(cluster_id: bytes, epoch: int, listed: Listed) -> Steps[ReadChain]:
    """From its last checkpoint on. Raises `Corrupt` where a takeover would.

    What is read is listed from then on: a late put may land after the list was made.
    """
    opening = yield from _read_opening(cluster_id, epoch)
    state = yield from _enter(cluster_id, epoch, listed)
    state.broker = opening.broker
    first = state.next_seq
    stop: Gap | Sealed = yield from read_on(state)
    if state.next_seq > first:
        listed.add_run(first, state.next_seq)
    return ReadChain(state, isinstance(stop, Sealed))


def _read_opening(cluster_id: bytes, epoch: int) -> Steps[Header]:
    key = segment_key(epoch, 0)
    try:
        header = decode_header((yield from get_retrying(key, 0, HEADER_BYTES)))
    except NotFound as error:
        message = f"a chain without its opening: key={key}; {PUT_BACK}"
        raise MissingObjects(message, [key]) from error
    if (header.kind, header.cluster_id, header.epoch, header.seq) != (
        SegmentKind.OPENING,
        cluster_id,
        epoch,
        0,
    ):
        raise Corrupt(f"not the opening of its chain: key={key}; {PUT_BACK}")
    return header


def _enter(cluster_id: bytes, epoch: int, listed: Listed) -> Steps[ChainState]:
    """At its newest checkpoint that is whole; else at its beginning."""
    for seq in reversed(listed.checkpoints):
        try:
            return (yield from read_chain_at(cluster_id, epoch, seq))
        except Corrupt:
            continue  # an earlier one will do if the segments from there on exist
    return ChainState(cluster_id, epoch)


def evidence_of(listed: Listed, read: ReadChain) -> Steps[Evidence]:
    """The objects of the chain that exist. Raises `Corrupt` when one in its middle does not."""
    state = read.state
    trim, torn = _trim_point(state, listed)
    gone: dict[EpochKey, int] = {}
    if trim:
        front: Checkpoint = yield from read_checkpoint(state.epoch, trim)
        gone = {key: summary.end for key, summary in front.epoch_ranges.items()}
    return Evidence(
        epoch=state.epoch,
        broker=state.broker,
        end=state.next_seq,
        is_sealed=read.is_sealed,
        checkpoint=state.checkpoint,
        trim=trim,
        epoch_ranges=extents_of(state),
        gone=gone,
        deleted_below=dict(state.deleted_below),
        torn=torn,
        format_level=_level_of(state),
    )


def _level_of(state: ChainState) -> int:
    knows_sinks = any(one.state.sinks for one in state.epoch_ranges.values())
    return SINK_LEVEL if knows_sinks else OLDEST_LEVEL


def _trim_point(state: ChainState, listed: Listed) -> tuple[int, str]:
    """The lowest checkpoint from which on every segment and every checkpoint is there; 0: all are.

    And what is missing below it, where that is not what a finished deletion leaves: it deletes all
    segments below the trim point and only then the checkpoints there. So where no checkpoint is
    left below, all segments there were to go, and one that is there came back.
    """
    run = listed.run_of(state.next_seq - 1) or (state.next_seq, state.next_seq)
    there = set(listed.checkpoints)
    lost = [seq for seq in state.checkpoints if seq not in there]
    if run[0] == 0 and not lost:
        return 0, ""
    lowest = max([run[0], *(seq + 1 for seq in lost)])
    kept = [seq for seq in state.checkpoints if seq >= lowest]
    lower = [r for r in listed.runs if r[1] <= run[0] and r != (0, 1)]
    first_missing = lower[-1][1] if lower else 1
    segments = f"segments are missing: seqs=[{first_missing}, {run[0]})"
    checkpoints = f"checkpoints are missing: seqs={lost[:10]}"
    missing = segments if run[0] else checkpoints
    if not kept:
        raise torn_chain(state.epoch, missing)
    is_finished = run[0] > 0 and all(seq in lost for seq in state.checkpoints if seq < kept[0])
    is_clean = run[0] > 0 and not lower and not any(seq > run[0] for seq in lost)
    return kept[0], "" if is_finished or is_clean else missing


def torn_chain(epoch: int, missing: str) -> Corrupt:
    return MissingObjects(f"{missing} of chain {epoch}; {PUT_BACK}", prefixes_of_chain(epoch))


def openings_missing(epochs: Sequence[int]) -> list[int]:
    """Epochs below the last one of which nothing is there: openings have no gaps."""
    return sorted(set(range(1, max(epochs, default=0))) - set(epochs))
