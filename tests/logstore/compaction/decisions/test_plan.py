"""Tasks and results travel as text and come back as they were."""

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.compaction.decisions.clean_objects import Piece
from logstore.compaction.decisions.clean_plan import (
    CleanFound,
    CleanPlace,
    CleanTask,
    DecideTask,
    RewriteTask,
    ScanTask,
    UnitFound,
)
from logstore.compaction.decisions.clean_rules import units_of
from logstore.compaction.decisions.plan import (
    MergeTask,
    MoveTask,
    TaskResult,
    plan_moves,
    result_of,
    task_of,
)
from logstore.errors import Corrupt
from logstore.formats.chain_state import EpochKey
from logstore.formats.offset_range import OffsetRange
from logstore.formats.segment_ranges import SegmentRange, SplitPoint
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import DataFile
from logstore.prices import Requests
from logstore.reading.planning.batch_places import BatchPlaces, PlacedBatch
from logstore.reading.planning.tasks import SeqRange
from tests.logstore.reading.layouts import whole_segments

MiB = 1 << 20
ORDERS, CLICKS = bytes(range(16)), bytes(16)
NAMES = {ORDERS: "orders", CLICKS: "clicks"}
PLACED = PlacedBatch(EpochKey(ORDERS, 1, 5), 2**33, 1000, 20, 29)
EXACT = SeqRange(
    7,
    1,
    2,
    (SegmentRange(OffsetRange(TopicPartition(ORDERS, 1), 20, 30), 5, 7, 1, 2),),
    BatchPlaces.packed({1: [PLACED]}, [PLACED.key], {2: 9 * MiB}),
)
FILE = DataFile("partition=1/a.parquet", 1, 10, 500, 20, 29, None, 1_700_000_000_000)


def segment_ranges() -> list[SegmentRange]:
    return [
        SegmentRange(OffsetRange(TopicPartition(topic_id, partition), 0, 1000), 0, chain, 1, 100)
        for topic_id in NAMES
        for partition in range(3)
        for chain in (1, 2)
    ]


def planned(segment_bytes: int, parallelism: int = 4) -> list[MoveTask]:
    def offsets_at(cuts: Sequence[SplitPoint]) -> list[int]:
        return [10 * (cut.seq - 1) for cut in cuts]

    layout_of = whole_segments(lambda *_: segment_bytes)
    return plan_moves(
        "run", segment_ranges(), layout_of, offsets_at, NAMES, count(1), parallelism=parallelism
    )


def test_each_segment_is_in_one_task() -> None:
    tasks = planned(8 * MiB)

    seqs = [
        (run.chain, seq)
        for task in tasks
        for run in task.seq_ranges
        for seq in range(run.first_seq, run.last_seq + 1)
    ]
    assert sorted(seqs) == [(chain, seq) for chain in (1, 2) for seq in range(1, 101)]
    assert 6 <= len(tasks) <= 8  # of about 256 MiB
    assert len({task.number for task in tasks}) == len(tasks)
    for task in tasks:
        for run in task.seq_ranges:
            offsets = (10 * (run.first_seq - 1), 10 * run.last_seq)
            assert {
                (segments.offsets.start, segments.offsets.end) for segments in run.segment_ranges
            } == {offsets}


def test_little_is_one_task_however_many_cores_there_are() -> None:
    assert len(planned(64 * 1024)) == 1


@pytest.mark.parametrize(
    "task",
    [
        *planned(8 * MiB)[:2],
        MoveTask("run", 3, NAMES, (EXACT,)),
        MergeTask("run", 4, ORDERS, "orders", (FILE, FILE)),
    ],
    ids=["first", "second", "with places", "merge"],
)
def test_a_task_comes_back(task: MoveTask | MergeTask) -> None:
    assert task_of(task.text()) == task


@given(st.integers(0, 2**40), st.text(), st.floats(0, 1e6))
def test_a_result_comes_back(rows: int, error: str, cpu_s: float) -> None:
    result = TaskResult(
        number=3,
        files=((ORDERS, FILE),),
        rows=rows,
        bytes_in={ORDERS: 7},
        undecodable={TopicPartition(ORDERS, 2): 1},
        requests=Requests(1, 2, 3, 4),
        cpu_s=cpu_s,
        error=error,
        error_kind="Corrupt",
    )

    assert result_of(result.text()) == result


@pytest.mark.parametrize("text", ["", "{}", '{"kind": "move"}', "[1]", '{"kind":"merge","run":1}'])
def test_other_text_is_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        task_of(text)
    with pytest.raises(Corrupt):
        result_of(text)


PLACE: CleanPlace = {
    "run": "run",
    "number": 4,
    "topic_id": ORDERS,
    "topic": "orders",
    "partition": 1,
    "within_bytes": 3,
}
PIECES = [Piece("compaction/run/a", 0, 10), Piece("compaction/run/a", 10, 7, "AAAAAAAAAA==")]


@pytest.mark.parametrize(
    "task",
    [
        ScanTask(
            **PLACE,
            units=units_of([FILE]),
            bucket_count=3,
            horizon=9,
            rows_max=7,
            at_once_bytes=6,
            dead_ratio_min=0.2,
        ),
        DecideTask(**PLACE, pieces=PIECES, horizon=9),
        RewriteTask(
            **PLACE,
            units=units_of([FILE]),
            rows=10,
            dead=PIECES[:1],
            tombstones=PIECES[1:],
        ),
    ],
    ids=["scan", "decide", "rewrite"],
)
def test_a_task_of_key_compaction_comes_back_as_it_was(task: CleanTask) -> None:
    assert task_of(task.text()) == task


def test_what_a_task_found_comes_back_as_it_was() -> None:
    found = CleanFound(
        units={3: UnitFound(10, 1, 2, 3, PIECES[:1], PIECES[1:]), 4: UnitFound()},
        buckets={0: PIECES},
        raw_offset=5,
        newest_tombstone=7,
        last_tombstones=4,
        held={3: 5},
        dropped=3,
        dropped_tombstones=1,
    )
    result = TaskResult(number=4, found=found)

    assert result_of(result.text()) == result
