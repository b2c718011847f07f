"""Tasks of a run and their results, as values and as JSON text. Pure.

A task travels as text, since executors may run another version of Python than the driver's, and
text can be logged, stored and read.

    {"kind": "move", "run": "…", "number": 3, "names": {"5f0c…": "orders"},
     "runs": [[chain, first seq, last seq, [[topic id, partition, leader epoch, first seq, last seq,
                                             start, end], …],
               [[[topic id, partition, leader epoch], …], {"seq": packed places, …}]], …]}
    {"kind": "merge", "run": "…", "number": 4, "topic_id": "5f0c…", "topic": "orders",
     "files": [[path, partition, rows, bytes, min offset, max offset, min ms, max ms], …]}
    and those of key compaction (`clean_plan`)
    → {"number": 3, "files": [["5f0c…", path, …], …], "rows": 1200,
       "bytes_in": {"5f0c…": 70000}, "undecodable": {"5f0c…/0": 1}, "cpu_s": 1.5,
       "requests": [creates, gets, lists, deletes], "error": "", "error_kind": "",
       "found": null or what a task of key compaction found}
"""

import json
from base64 import b85decode, b85encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field

from logstore.compaction.decisions.clean_plan import KINDS, CleanFound, CleanTask, clean_task_of
from logstore.errors import Corrupt
from logstore.formats.chain_state import EpochKey
from logstore.formats.offset_range import OffsetRange
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import DataFile
from logstore.prices import Requests
from logstore.reading.planning.batch_places import BatchPlaces
from logstore.reading.planning.task_plan import LayoutOf, OffsetsAt, plan_tasks
from logstore.reading.planning.tasks import Located, ReadTask, SeqRange

MiB = 1024 * 1024
TASK_BYTES = 256 * MiB
"""Of segments. A task holds what it fetched until it is written, and makes a file or more of each
partition: larger tasks make fewer files, and need more memory."""

TASK_BYTES_MIN = 64 * MiB
"""Below this another core is not worth another set of files."""


@dataclass(frozen=True, slots=True)
class MoveTask:
    """Ranges of segments to be written as data files. `names` are topics' by id."""

    run: str
    number: int
    names: Mapping[bytes, str]
    seq_ranges: Sequence[SeqRange]

    def text(self) -> str:
        runs = [
            [
                run.chain,
                run.first_seq,
                run.last_seq,
                [_segment_range_list(segments) for segments in run.segment_ranges],
                _places_list(run.places),
            ]
            for run in self.seq_ranges
        ]
        names = {topic_id.hex(): name for topic_id, name in self.names.items()}
        return _json(
            {"kind": "move", "run": self.run, "number": self.number, "names": names, "runs": runs}
        )

    @property
    def topic_ids(self) -> set[bytes]:
        return {
            segments.offsets.topic_id for run in self.seq_ranges for segments in run.segment_ranges
        }


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Neighbouring data files of one partition to be written as one."""

    run: str
    number: int
    topic_id: bytes
    topic: str
    files: Sequence[DataFile]

    def text(self) -> str:
        return _json(
            {
                "kind": "merge",
                "run": self.run,
                "number": self.number,
                "topic_id": self.topic_id.hex(),
                "topic": self.topic,
                "files": [file.values() for file in self.files],
            }
        )

    @property
    def topic_ids(self) -> set[bytes]:
        return {self.topic_id}


Task = MoveTask | MergeTask | CleanTask


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """Files that one task stored. With an `error` none of them counts."""

    number: int
    files: Sequence[tuple[bytes, DataFile]] = ()
    """With their topic ids."""
    rows: int = 0
    bytes_in: Mapping[bytes, int] = field(default_factory=dict)
    """By topic id: batches as they were stored, or the files that were merged."""
    undecodable: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Batches kept as they came, by topic id and partition."""
    requests: Requests = field(default_factory=Requests)
    cpu_s: float = 0.0
    """Of its threads, without those that wait for the store."""
    error: str = ""
    error_kind: str = ""
    found: CleanFound | None = None

    def text(self) -> str:
        return _json(
            {
                "number": self.number,
                "files": [[topic_id.hex(), *file.values()] for topic_id, file in self.files],
                "rows": self.rows,
                "bytes_in": {topic_id.hex(): size for topic_id, size in self.bytes_in.items()},
                "undecodable": {
                    f"{topic_id.hex()}/{partition}": number
                    for (topic_id, partition), number in self.undecodable.items()
                },
                "requests": astuple(self.requests),
                "cpu_s": self.cpu_s,
                "error": self.error,
                "error_kind": self.error_kind,
                "found": None if self.found is None else self.found.data(),
            }
        )


def plan_moves(
    run: str,
    segment_ranges: Iterable[SegmentRange],
    layout_of: LayoutOf,
    offsets_at: OffsetsAt,
    names: Mapping[bytes, str],
    numbers: Iterator[int],
    *,
    parallelism: int,
    task_bytes: int = TASK_BYTES,
) -> list[MoveTask]:
    """Tasks that read each segment once and every offset of `segment_ranges` once."""
    tasks: list[ReadTask] = plan_tasks(
        Located((), list(segment_ranges)),
        layout_of,
        offsets_at,
        parallelism=parallelism,
        task_bytes=task_bytes,
        task_bytes_min=min(TASK_BYTES_MIN, task_bytes),
    )
    moves = []
    for task in tasks:
        wanted = {
            segments.offsets.topic_id
            for each in task.seq_ranges
            for segments in each.segment_ranges
        }
        mine = {topic_id: names[topic_id] for topic_id in sorted(wanted)}
        moves.append(MoveTask(run, next(numbers), mine, task.seq_ranges))
    return moves


def task_of(text: str) -> Task:
    """Raises `Corrupt` for text that is no task."""
    try:
        data = json.loads(text)
        if data["kind"] in KINDS:
            return clean_task_of(data)
        if data["kind"] == "merge":
            return MergeTask(
                data["run"],
                data["number"],
                bytes.fromhex(data["topic_id"]),
                data["topic"],
                tuple(DataFile(*file) for file in data["files"]),
            )
        runs = [
            SeqRange(chain, first, last, tuple(map(_segment_range_of, ranges)), _places_of(*places))
            for chain, first, last, ranges, places in data["runs"]
        ]
        names = {bytes.fromhex(topic_id): name for topic_id, name in data["names"].items()}
        return MoveTask(data["run"], data["number"], names, tuple(runs))
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"not a task of compaction: {error!r}") from error


def result_of(text: str) -> TaskResult:
    """Raises `Corrupt` for text that is no result."""
    try:
        data = json.loads(text)
        return TaskResult(
            number=data["number"],
            files=tuple(
                (bytes.fromhex(topic_id), DataFile(*file)) for topic_id, *file in data["files"]
            ),
            rows=data["rows"],
            bytes_in={bytes.fromhex(one): size for one, size in data["bytes_in"].items()},
            undecodable={
                _partition_of(text): number for text, number in data["undecodable"].items()
            },
            requests=Requests(*data["requests"]),
            cpu_s=data["cpu_s"],
            error=data["error"],
            error_kind=data["error_kind"],
            found=None if data["found"] is None else CleanFound.of(data["found"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"not a result of compaction: {error!r}") from error


def _segment_range_list(segments: SegmentRange) -> list[object]:
    (topic_id, partition), start, end = segments.offsets
    seqs = (segments.first_seq, segments.last_seq)
    return [topic_id.hex(), partition, segments.leader_epoch, segments.chain, *seqs, start, end]


def _segment_range_of(item: Sequence[object]) -> SegmentRange:
    topic_id, *numbers = item
    partition, leader_epoch, chain, first, last, start, end = (int(str(n)) for n in numbers)
    key = TopicPartition(bytes.fromhex(str(topic_id)), partition)
    return SegmentRange(OffsetRange(key, start, end), leader_epoch, chain, first, last)


def _places_list(places: BatchPlaces) -> list[object]:
    keys = [[key.topic_id.hex(), key.partition, key.leader_epoch] for key in places.keys]
    by_seq = {seq: b85encode(packed).decode() for seq, packed in places.by_seq.items()}
    return [keys, by_seq, places.sizes]


def _places_of(
    keys: Sequence[tuple[str, int, int]], by_seq: Mapping[str, str], sizes: Mapping[str, int]
) -> BatchPlaces:
    return BatchPlaces(
        tuple(EpochKey(bytes.fromhex(topic_id), *numbers) for topic_id, *numbers in keys),
        {int(seq): b85decode(packed) for seq, packed in by_seq.items()},
        {int(seq): int(size_bytes) for seq, size_bytes in sizes.items()},
    )


def _json(data: object) -> str:
    return json.dumps(data, separators=(",", ":"))


def _partition_of(text: str) -> TopicPartition:
    topic_id, _, partition = text.partition("/")
    return TopicPartition(bytes.fromhex(topic_id), int(partition))
