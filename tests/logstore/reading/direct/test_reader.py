"""Reading without a broker: it finds what was acknowledged, by any broker and at any time."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.errors import (
    Corrupt,
    Denied,
    LogstoreError,
    OutcomeUnknown,
    Retryable,
    Throttled,
)
from logstore.formats.chain_row import ChainRow, ChainStatus, chain_sk
from logstore.formats.keys import segment_key
from logstore.formats.offset_range import OffsetRange
from logstore.formats.partition_row import partition_pks
from logstore.formats.segment_ranges import SegmentRange, SplitPoint
from logstore.formats.topic_partition import TopicPartition
from logstore.objects.memory import MemoryObjects
from logstore.ports.registry import Row
from logstore.protocol.deletion.trimming import Trimmer
from logstore.protocol.leading.start import BrokerInfo, start
from logstore.protocol.partitions.lookup import BelowTrimPoint
from logstore.protocol.steps import Create, Gather, Steps
from logstore.reading.direct.reader import LogReader, PartitionView
from logstore.reading.direct.segment_fetch import read_batches
from logstore.reading.direct.task_segments import GET_ATTEMPTS_MAX
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.registry.memory import MemoryRows
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock, run
from tests.logstore.written import CountedReads, WrittenLog, committed, read_segment_ranges

NEWER = 10**9
PARTITIONS = 3

# One life of a broker: batches as (partition, timestamp steps), and whether it ends well.
BATCHES = st.lists(
    st.tuples(
        st.integers(0, PARTITIONS - 1),
        st.lists(st.integers(-5, 5), min_size=1, max_size=4),
    ),
    max_size=12,
)
LIVES = st.lists(st.tuples(BATCHES, st.booleans()), min_size=1, max_size=4)


async def live(
    written: WrittenLog, batches: Sequence[tuple[int, Sequence[int]]], *, clean: bool
) -> None:
    async with written.life(clean=clean) as log:
        topic = log.topics.get("orders") or await log.create_topic("orders", PARTITIONS, {})
        for partition, steps in batches:
            timestamps = [EPOCH_MS + 1000 * written.values + step for step in steps]
            await written.write(log, topic.leaders[partition], timestamps)


def read_all(
    written: WrittenLog, reader: LogReader
) -> dict[TopicPartition, list[tuple[int, int, bytes]]]:
    views = reader.partitions(reader.topics())
    return {
        key: read_segment_ranges(
            written, reader.segment_ranges(key, view.row, view.log_start, view.end)
        )
        for key, view in views.items()
    }


@pytest.mark.slow
@given(LIVES)
@settings(max_examples=40)
def test_all_that_was_acknowledged_is_read_in_order_across_lives(
    lives: list[tuple[list[tuple[int, list[int]]], bool]],
) -> None:
    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=3)
        for batches, clean in lives:
            await live(written, batches, clean=clean)

        found = read_all(written, await written.reader())

        assert {key: rows for key, rows in found.items() if rows} == written.records
        assert len(found) == PARTITIONS

    run(scenario())


@pytest.mark.slow
@given(LIVES, st.data())
@settings(max_examples=40)
def test_any_range_is_found_where_it_lies_and_nothing_else(
    lives: list[tuple[list[tuple[int, list[int]]], bool]], data: st.DataObject
) -> None:
    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=3)
        for batches, clean in lives:
            await live(written, batches, clean=clean)
        reader = await written.reader()

        for key, view in reader.partitions(reader.topics()).items():
            records = written.records.get(key, [])
            assert view.end == len(records)
            start = data.draw(st.integers(0, view.end))
            end = data.draw(st.integers(start, view.end))
            segment_ranges = reader.segment_ranges(key, view.row, start, end)

            assert read_segment_ranges(written, segment_ranges) == records[start:end]
            assert (
                sum(segments.offsets.end - segments.offsets.start for segments in segment_ranges)
                == end - start
            )
            for segments in segment_ranges:
                spans = reader.spans(segments.chain, segments.first_seq, segments.last_seq)
                seqs = range(segments.first_seq, segments.last_seq + 1)
                objects = [written.objects.get(segment_key(segments.chain, seq)) for seq in seqs]
                assert [span.size_bytes for span in spans] == [len(data) for data in objects]
                check_cuts(written, reader, segments)

    run(scenario())


def check_cuts(written: WrittenLog, reader: LogReader, segments: SegmentRange) -> None:
    """Before each seq, the segment range is cut between what lies below and what lies from there
    on.
    """
    offsets = {
        seq: [
            found.last_offset + 1
            for found in read_batches(
                written.objects, segments.chain, segments.first_seq, seq, [segments]
            )
        ]
        for seq in range(segments.first_seq, segments.last_seq)
    }
    cuts = [SplitPoint(segments, seq + 1) for seq in offsets]

    assert reader.offsets_at(cuts) == [max(below) for below in offsets.values()]


@pytest.mark.slow
@given(LIVES, st.data())
@settings(max_examples=40)
def test_a_time_leads_to_the_first_record_that_is_not_older(
    lives: list[tuple[list[tuple[int, list[int]]], bool]], data: st.DataObject
) -> None:
    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=3)
        for batches, clean in lives:
            await live(written, batches, clean=clean)
        reader = await written.reader()
        timestamps = [time for records in written.records.values() for _, time, _ in records]
        around = st.sampled_from(timestamps or [EPOCH_MS])

        for key, view in reader.partitions(reader.topics()).items():
            wanted = data.draw(around) + data.draw(st.integers(-1, 1))
            records = written.records.get(key, [])
            expected = next((offset for offset, time, _ in records if time >= wanted), None)

            assert reader.offset_for_time(key, view, wanted) == expected

    run(scenario())


async def test_following_sees_each_commit_without_looking_for_partitions_again() -> None:
    written = WrittenLog(checkpoint_segments=20)
    async with written.life() as log:
        topic = await log.create_topic("orders", PARTITIONS, {})
        key = TopicPartition(topic.topic_id, 0)
        reader = await written.reader()
        views: Mapping[TopicPartition, PartitionView] = reader.partitions(reader.topics())
        queries = written.reads.query_count
        for number in range(200):
            await written.write(log, topic.leaders[0], [EPOCH_MS + number])
            followed = reader.follow(views)

            assert followed is not None
            views = followed
            assert views[key].end == number + 1
        assert reader.follow(views) is views
        assert written.reads.query_count == queries
        segment_ranges = reader.segment_ranges(key, views[key].row, 0, 200)
        assert read_segment_ranges(written, segment_ranges) == written.records[key]


async def test_following_stops_at_a_seal_and_the_registry_says_where_it_goes_on() -> None:
    written = WrittenLog()
    await live(written, [(0, [0])], clean=True)
    reader = await written.reader()
    views = reader.partitions(reader.topics())
    await live(written, [(0, [1]), (1, [1])], clean=True)

    assert reader.follow(views) is None
    assert {k: v for k, v in read_all(written, reader).items() if v} == written.records


async def test_an_end_never_goes_back_while_brokers_come_and_go() -> None:
    written = WrittenLog(checkpoint_segments=2)
    await live(written, [], clean=True)
    reader = await written.reader()
    ends: dict[TopicPartition, int] = {}
    for number in range(8):
        await live(written, [(number % PARTITIONS, [0, 1])], clean=number % 2 == 0)
        for key, view in reader.partitions(reader.topics()).items():
            assert view.end >= ends.get(key, 0)
            ends[key] = view.end

    assert sum(ends.values()) == 16


async def test_lives_that_wrote_nothing_leave_no_piece() -> None:
    written = WrittenLog()
    await live(written, [(0, [0])], clean=True)
    for _ in range(3):
        await live(written, [], clean=False)
    await live(written, [(0, [0])], clean=True)
    reader = await written.reader()
    views = reader.partitions(reader.topics())
    by_partition = {key.partition: (key, view) for key, view in views.items()}
    key, view = by_partition[0]
    empty_key, empty = by_partition[1]

    assert [segments.chain for segments in reader.segment_ranges(key, view.row, 0, 2)] == [1, 5]
    assert (empty.log_start, empty.end) == (0, 0)
    assert reader.segment_ranges(empty_key, empty.row, 0, 0) == []


async def test_a_topic_created_again_shows_nothing_of_its_former_life() -> None:
    written = WrittenLog()
    async with written.life() as log:
        first = await log.create_topic("orders", 1, {})
        await written.write(log, first.leaders[0], [EPOCH_MS] * 3)
        await log.delete_topic("orders")
        reader = await written.reader()
        assert reader.topics() == {}
        second = await log.create_topic("orders", 1, {})
        await written.write(log, second.leaders[0], [EPOCH_MS])

    found = read_all(written, reader)
    key = TopicPartition(second.topic_id, 0)
    assert found == {key: written.records[key]}
    assert [offset for offset, _, _ in found[key]] == [0]


class RowsReadBefore(CountedReads):
    """The first answer to each query is that of an earlier time: what follows it came late."""

    def __init__(self, rows: MemoryRows) -> None:
        super().__init__(rows)
        self._before = {pk: super(RowsReadBefore, self).query(pk) for pk in partition_pks()}

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        found = super().query(pk, prefix)
        return self._before.pop(pk, found)


async def test_a_topic_deleted_while_its_chain_is_read_does_not_fall_back_to_its_start() -> None:
    """The owner of the chain forgets its epoch range then, which an epoch range never written looks
    like.
    """

    written = WrittenLog(checkpoint_segments=1)
    async with written.life() as log:
        topics = [await log.create_topic(name, 1, {}) for name in ("kept", "gone")]
        kept, gone = (topic.leaders[0] for topic in topics)
        for leader in (kept, gone):
            await written.write(log, leader, [EPOCH_MS] * 3)
        early = await written.reader()
        live_topics = early.topics()
        views = early.partitions(live_topics)
        assert {view.end for view in views.values()} == {3}
        written.reads = RowsReadBefore(written.rows)
        late = await written.reader()

        await log.delete_topic("gone")
        assert await log.forget_ended() == 1
        await written.write(log, kept, [EPOCH_MS])

        found = {TopicPartition(kept.topic_id, 0): 4}
        assert {key: view.end for key, view in late.partitions(live_topics).items()} == found
        assert early.follow(views) is None
        assert {key: view.end for key, view in early.partitions(live_topics).items()} == found


async def test_a_chain_whose_takeover_died_before_its_last_checkpoint_is_still_read() -> None:
    written = WrittenLog(checkpoint_segments=100)
    await live(written, [(0, [0, 1]), (1, [2]), (0, [3])], clean=False)
    reader = await written.reader()
    me = BrokerInfo(1, "localhost", 9092, "", "the lock")
    await written.runner.run(until_a_checkpoint(start(reader.cluster_id, me)))
    row = ChainRow.of(await written.rows.get("chain", chain_sk(1)) or {})

    assert (row.status, row.checkpoint) == (ChainStatus.FENCED, 0)
    found = read_all(written, reader)
    assert {key: rows for key, rows in found.items() if rows} == written.records

    await live(written, [(0, [4])], clean=True)
    found = read_all(written, reader)
    assert {key: rows for key, rows in found.items() if rows} == written.records


class Died(Retryable):
    """The runner of these steps does nothing more."""


def until_a_checkpoint(steps: Steps[object]) -> Steps[None]:
    """The same steps, taken by a broker that dies when a checkpoint is to be put."""
    with suppress(Died):
        yield from _until_a_checkpoint(steps)


def _until_a_checkpoint(steps: Steps[object]) -> Steps[object]:
    try:
        request = next(steps)
        while True:
            if isinstance(request, Create) and request.key.startswith("checkpoints/"):
                raise Died
            if isinstance(request, Gather):
                request = Gather([_until_a_checkpoint(one) for one in request.steps])
            try:
                answer = yield request
            except LogstoreError as error:
                request = steps.throw(error)
                continue
            if isinstance(request, Gather) and any(isinstance(one, Died) for one in answer):
                raise Died
            request = steps.send(answer)
    except StopIteration as end:
        return end.value


def test_a_segment_that_is_gone_is_to_be_looked_for_again() -> None:
    objects = MemoryObjects(VirtualClock())
    segments = SegmentRange(OffsetRange(TopicPartition(bytes(16), 0), 0, 1), 0, 1, 1, 1)

    with pytest.raises(Retryable, match="segment is gone: chain=1 seq=1"):
        list(read_batches(objects, 1, 1, 1, [segments]))


@pytest.mark.parametrize(
    ("faults", "ends_in"),
    [
        ([Throttled("slow down"), OutcomeUnknown("reset")], None),
        ([Throttled("slow down")] * GET_ATTEMPTS_MAX, Throttled),
        ([Denied("no")], Denied),
    ],
    ids=["passes", "stays", "denied"],
)
async def test_a_fetch_that_fails_is_tried_again_unless_that_is_in_vain(
    faults: list[LogstoreError], ends_in: type[LogstoreError] | None
) -> None:
    written = WrittenLog()
    await live(written, [(0, [0])], clean=True)
    reader = await written.reader()
    key = next(iter(written.records))
    (segments,) = reader.segment_ranges(key, reader.partitions(reader.topics())[key].row, 0, 1)
    store, sleeps = FailingGets(written.objects, list(faults)), list[float]()
    found = read_batches(
        store, 1, segments.first_seq, segments.last_seq, [segments], sleep_s=sleeps.append
    )
    if ends_in is None:
        assert len(list(found)) == 1
        assert len(sleeps) == len(faults)
    else:
        with pytest.raises(ends_in):
            list(found)
        assert len(sleeps) == len(faults) - 1


class FailingGets(MemoryObjects):
    """The same objects, whose next gets fail."""

    def __init__(self, objects: MemoryObjects, faults: list[LogstoreError]) -> None:
        self._of = objects
        self._faults = faults

    def get(self, key: str) -> bytes:
        if self._faults:
            raise self._faults.pop(0)
        return self._of.get(key)


@pytest.mark.parametrize(("wanted_bytes", "is_copied"), [(100, True), (100_000, False)])
async def test_a_small_part_of_a_segment_does_not_keep_all_of_it(
    wanted_bytes: int, is_copied: bool
) -> None:
    written = WrittenLog()
    async with written.life() as log:
        topic = await log.create_topic("orders", 2, {})
        seqs = set()
        for partition, size_bytes in enumerate((wanted_bytes, 10_000)):
            batch = memoryview(encode_batch([Record(0, EPOCH_MS, None, bytes(size_bytes))]))
            leader = topic.leaders[partition]
            seqs.add(leader.append(batch, check_batch(batch, 0, len(batch))).seq)
        (seq,) = seqs
        await committed(log, seq)
    segments = SegmentRange(OffsetRange(TopicPartition(topic.topic_id, 0), 0, 1), 0, 1, seq, seq)

    (found,) = read_batches(written.objects, 1, seq, seq, [segments])

    kept_bytes = memoryview(found.data.obj).nbytes
    assert (kept_bytes == len(found.data)) == is_copied


@pytest.mark.parametrize("damage", ["cut short", "does not match its key"])
async def test_a_segment_that_is_not_what_was_put_is_refused(damage: str) -> None:
    written = WrittenLog()
    await live(written, [(0, [0])], clean=True)
    reader = await written.reader()
    key = next(iter(written.records))
    (segments,) = reader.segment_ranges(key, reader.partitions(reader.topics())[key].row, 0, 1)
    data = written.objects.get(segment_key(1, segments.last_seq))
    seq = segments.last_seq
    if damage == "cut short":
        data = data[:-1]
        written.objects.delete(segment_key(1, seq))
    else:
        seq += 100
    written.objects.create(segment_key(1, seq), [data])

    with pytest.raises(Corrupt, match=damage):
        list(read_batches(written.objects, 1, seq, seq, [segments]))


async def test_a_reader_that_slept_past_a_grace_has_to_read_the_row_again() -> None:
    """What it knows of the chain is trimmed with all checkpoints; the row lists the epoch range."""

    written = WrittenLog(checkpoint_segments=2)
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        for _ in range(7):
            await written.write(log, leader, [EPOCH_MS] * 3)
        reader = await written.reader()
        ((key, view),) = reader.partitions(reader.topics()).items()
        other = await written.reader()  # keeps the checkpoints that it reads
        (before,) = other.segment_ranges(key, view.row, 0, view.end)

        for _ in range(12):
            await written.write(log, leader, [EPOCH_MS] * 3)
        trimmer = Trimmer(reader.cluster_id, grace_ms=0)
        for _ in range(2):
            await written.runner.run(trimmer.steps(durable_ends={key: 50}))
        for _ in range(2):
            for offset in (0, 5, 10):
                with pytest.raises(BelowTrimPoint):
                    reader.segment_ranges(key, view.row, offset, offset + 1)
            reader._chains.cache.forget_below(log.epoch, NEWER)  # as if others had needed room
        with pytest.raises(BelowTrimPoint):
            reader.spans(1, 1, 4)
        with pytest.raises(BelowTrimPoint):
            reader.offsets_at([SplitPoint(before, before.first_seq + 1)])

        reader = await written.reader()  # rows are young for as long as no time has passed
        ((_, view),) = reader.partitions(reader.topics()).items()
        assert view.end == 57
        (segments,) = reader.segment_ranges(key, view.row, 50, view.end)
        assert (segments.offsets.start, segments.offsets.end) == (50, 57)
