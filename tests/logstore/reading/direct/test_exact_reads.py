"""A topic that shares its segments with others: its own bytes are fetched, and few besides."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.epoch.leader import Leader
from logstore.epoch.log import Log
from logstore.errors import Corrupt
from logstore.formats.keys import segment_key
from logstore.formats.segment_ranges import SegmentRange
from logstore.objects.memory import MemoryObjects
from logstore.ports.clock import SystemClock
from logstore.ports.objects import Buffer
from logstore.reading.direct.reader import LogReader
from logstore.reading.direct.segment_fetch import FoundBatch, read_batches
from logstore.reading.direct.task_rows import read_rows
from logstore.reading.planning.task_plan import plan_tasks, wanted_bytes
from logstore.reading.planning.tasks import Located
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.logstore.reading.direct.test_reader import LIVES, live
from tests.logstore.written import WrittenLog, committed

BATCH_BYTES = 16_000
SHARE = 100
SEGMENTS = 5
SCATTERED = 20
FETCHED_PER_WANTED_MAX = 1.3


class Counted(MemoryObjects):
    """The objects of another store, and what was fetched of them."""

    def __init__(self, objects: MemoryObjects) -> None:
        super().__init__(SystemClock())
        self._those = objects
        self.requests: list[tuple[str, int]] = []

    def get(self, key: str) -> bytes:
        return self._count(key, self._those.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._count(key, self._those.get_range(key, start, length))

    def _count(self, key: str, data: bytes) -> bytes:
        self.requests.append((key, len(data)))
        return data


def stored_batch() -> bytes:
    return encode_batch([Record(0, EPOCH_MS, None, bytes(BATCH_BYTES))])


async def append(log: Log, leader: Leader, data: Buffer, count: int) -> None:
    view = memoryview(data)
    appended = [leader.append(view, check_batch(view, 0, len(view))) for _ in range(count)]
    await committed(log, appended[-1].seq)


async def fill(written: WrittenLog, *, orders_in: Sequence[int], clean: bool) -> None:
    """Five segments, or more, with a hundred batches each; one of orders in some of them."""
    data = stored_batch()
    async with written.life(clean=clean) as log:
        orders = (await log.create_topic("orders", 1, {})).leaders[0]
        others = (await log.create_topic("others", 1, {})).leaders[0]
        for number in range(SEGMENTS):
            is_wanted = number in orders_in
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(append(log, others, data, SHARE // 2))
                if is_wanted:
                    tasks.create_task(append(log, orders, data, 1))
                tasks.create_task(append(log, others, data, SHARE // 2 - is_wanted))


def ranges_of(reader: LogReader, name: str) -> tuple[bytes, list[SegmentRange]]:
    row = reader.topics()[name]
    views = reader.partitions({name: row})
    return row.topic_id, [
        segments
        for key, view in views.items()
        for segments in reader.segment_ranges(key, view.row, view.log_start, view.end)
    ]


@pytest.mark.parametrize("checkpoint_segments", [2, 1000], ids=["checkpoints", "followed"])
@pytest.mark.parametrize("clean", [True, False], ids=["sealed", "open"])
@pytest.mark.parametrize("orders_in", [range(SEGMENTS), (0, SEGMENTS - 1)], ids=["all", "two"])
async def test_of_a_topic_with_a_hundredth_of_its_segments_little_else_is_fetched(
    checkpoint_segments: int, clean: bool, orders_in: Sequence[int]
) -> None:
    written = WrittenLog(checkpoint_segments=checkpoint_segments)
    await fill(written, orders_in=orders_in, clean=clean)
    reader = await written.reader()
    topic_id, segment_ranges = ranges_of(reader, "orders")
    places = Located((), segment_ranges)
    batch_bytes = len(stored_batch())

    (task,) = plan_tasks(places, reader.layout_of, reader.offsets_at, parallelism=2)
    store = Counted(written.objects)
    rows = list(read_rows(store, task, {topic_id: "orders"}, ["value", "offset"]))

    count = len(orders_in)
    assert [at for one in rows for at in one.column("offset").to_pylist()] == [*range(count)]
    assert wanted_bytes(places, reader.layout_of) == count * batch_bytes
    fetched = sum(size for _, size in store.requests)
    assert fetched <= FETCHED_PER_WANTED_MAX * count * batch_bytes
    assert len(store.requests) == count


async def test_a_topic_that_has_its_segments_alone_is_read_by_one_request_each() -> None:
    written = WrittenLog(checkpoint_segments=2)
    await fill(written, orders_in=(0, 1), clean=True)
    reader = await written.reader()
    topic_id, segment_ranges = ranges_of(reader, "others")

    tasks = plan_tasks(
        Located((), segment_ranges), reader.layout_of, reader.offsets_at, parallelism=2
    )
    store = Counted(written.objects)
    for task in tasks:
        list(read_rows(store, task, {topic_id: "others"}, ["offset"]))

    keys = [key for key, _ in store.requests]
    assert len(keys) == len(set(keys))
    for key, size in store.requests:
        assert size == len(written.objects.get(key))


async def test_of_a_topic_scattered_over_a_segment_one_range_is_fetched() -> None:
    """Its batches came between those of another topic, further apart than a gap is worth."""

    written = WrittenLog(checkpoint_segments=2)
    data = memoryview(stored_batch())
    header = check_batch(data, 0, len(data))
    async with written.life(clean=False) as log:
        orders = (await log.create_topic("orders", 2, {})).leaders
        others = (await log.create_topic("others", 1, {})).leaders[0]
        appended = [
            leader.append(data, header)
            for number in range(SCATTERED)
            for leader in (orders[number % 2], *[others] * 10)
        ]
        await committed(log, appended[-1].seq)
    reader = await written.reader()
    topic_id, segment_ranges = ranges_of(reader, "orders")
    places = Located((), segment_ranges)

    (task,) = plan_tasks(places, reader.layout_of, reader.offsets_at, parallelism=1)
    store = Counted(written.objects)
    rows = list(read_rows(store, task, {topic_id: "orders"}, ["partition", "offset"]))

    assert sorted(at for one in rows for at in one.column("offset").to_pylist()) == sorted(
        [*range(SCATTERED // 2)] * 2
    )
    assert [size for _, size in store.requests] == [SCATTERED * len(data)]


def found_at(found: FoundBatch) -> tuple[int, int, int, bytes]:
    return found.seq, found.base_offset, found.last_offset, bytes(found.data)


@pytest.mark.slow
@given(LIVES, st.integers(1, 4), st.data())
@settings(max_examples=30)
def test_what_is_read_by_the_index_is_what_is_read_by_whole_segments(
    lives: list[tuple[list[tuple[int, list[int]]], bool]],
    checkpoint_segments: int,
    data: st.DataObject,
) -> None:
    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=checkpoint_segments)
        for batches, clean in lives:
            await live(written, batches, clean=clean)
        reader = await written.reader()

        by_chain: dict[int, list[SegmentRange]] = {}
        for key, view in reader.partitions(reader.topics()).items():
            start = data.draw(st.integers(0, view.end))
            end = data.draw(st.integers(start, view.end))
            for segments in reader.segment_ranges(key, view.row, start, end):
                by_chain.setdefault(segments.chain, []).append(segments)
        for chain, mine in by_chain.items():
            first, last = min(one.first_seq for one in mine), max(one.last_seq for one in mine)
            places = reader.layout_of(chain, mine).places
            whole = read_batches(written.objects, chain, first, last, mine)
            exact = read_batches(written.objects, chain, first, last, mine, places=places)

            assert [*map(found_at, exact)] == [*map(found_at, whole)]

    run(scenario())


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda data, at: data[: at + 7] + b"\x63" + data[at + 8 :], "does not match its index"),
        (lambda data, at: data[: at + 100], "segment cut short"),
    ],
    ids=["another offset", "cut short"],
)
async def test_bytes_that_are_not_what_the_index_says_are_damage(damage, match) -> None:  # type: ignore[no-untyped-def]
    written = WrittenLog()
    await fill(written, orders_in=[0], clean=True)
    reader = await written.reader()
    _, (segments,) = ranges_of(reader, "orders")
    chain, seq = segments.chain, segments.first_seq
    places = reader.layout_of(chain, [segments]).places
    key, (placed,) = segment_key(chain, seq), places.of(seq)
    data = written.objects.get(key)
    written.objects.delete(key)
    written.objects.create(key, (damage(data, placed.at),))

    with pytest.raises(Corrupt, match=match):
        list(read_batches(written.objects, chain, seq, seq, [segments], places=places))
