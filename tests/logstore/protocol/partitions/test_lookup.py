"""Look-ups across checkpoints, chains and epoch ranges find what a walk over all records finds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.epoch.log import Log
from logstore.errors import Corrupt
from logstore.formats.chain_state import ChainState, EpochKey, EpochRange, SegmentSpan
from logstore.formats.checkpoint import Checkpoint, IndexPage, decode_checkpoint, encode_checkpoint
from logstore.formats.index_rows import ROW, row_at
from logstore.formats.keys import CHECKPOINTS, checkpoint_key
from logstore.formats.partition_row import EpochEntry
from logstore.formats.partition_state import PartitionState
from logstore.formats.topic_partition import TopicPartition
from logstore.objects.memory import MemoryObjects
from logstore.protocol.chain.walk import FRONT_GUESS_BYTES, read_chain_at
from logstore.protocol.partitions.epoch_ranges import (
    ChainCheckpoints,
    epoch_range_of,
    locate_offset,
)
from logstore.protocol.partitions.index_cache import READ_BYTES, IndexCache
from logstore.protocol.rows.metadata import read_partition_row
from logstore.protocol.steps import GetRange
from logstore.testing.process_loop import simulate
from logstore.testing.scripted import drive
from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.logstore.protocol.partitions.times import locate_max_timestamp, locate_time
from tests.logstore.written import WrittenLog

# Lives of a broker; each: batches of (record count, timestamp), and whether it ends well.
LIVES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(1, 3), st.integers(0, 40)), max_size=10), st.booleans()
    ),
    min_size=1,
    max_size=4,
)


async def write_lives(written: WrittenLog, lives: list[tuple[list[tuple[int, int]], bool]]) -> None:
    for batches, clean in lives:
        async with written.life(clean=clean) as log:
            topic = log.topics.get("orders") or await log.create_topic("orders", 1, {})
            for count, later_ms in batches:
                await written.write(log, topic.leaders[0], [EPOCH_MS + later_ms] * count)


@pytest.mark.slow
@given(LIVES, st.data())
@settings(max_examples=40)
def test_every_offset_and_time_is_found_in_what_was_summed_up(
    lives: list[tuple[list[tuple[int, int]], bool]], data: st.DataObject
) -> None:
    """The last life only takes over, so that everything lies in checkpoints."""

    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=3)
        await write_lives(written, [*lives, ([], True)])
        for key, records in written.records.items():
            await check(written, key, records)

    async def check(
        written: WrittenLog, key: TopicPartition, records: list[tuple[int, int, bytes]]
    ) -> None:
        row = await written.runner.run(read_partition_row(*key))
        assert row is not None
        where = (ChainCheckpoints(IndexCache()), *key, row.epoch_ranges)
        for offset, _, _ in records:
            found = await written.runner.run(locate_offset(*where, offset))
            assert found is not None
            batch = row_at(found.rows, found.number)
            assert batch.base_offset <= offset <= batch.last_offset
        assert await written.runner.run(locate_offset(*where, len(records))) is None
        timestamp = EPOCH_MS + data.draw(st.integers(-1, 41))
        late = [offset for offset, time, _ in records if time >= timestamp]
        found = await written.runner.run(locate_time(*where, timestamp))
        assert (found is None) == (not late)
        if found is not None:
            batch = row_at(found.rows, found.number)
            assert batch.base_offset <= late[0] <= batch.last_offset
        largest, at = await written.runner.run(locate_max_timestamp(*where))
        times = [time for _, time, _ in records]
        assert largest == max(times)
        assert times[at] == largest

    run(scenario())


@pytest.mark.slow
@given(LIVES, st.data())
@settings(max_examples=40)
def test_a_leader_finds_every_offset_and_time_wherever_they_lie_now(
    lives: list[tuple[list[tuple[int, int]], bool]], data: st.DataObject
) -> None:
    """In older epoch ranges, in checkpoints of its own chain, in memory."""

    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=3)
        await write_lives(written, lives[:-1])
        async with written.life() as log:
            topic = log.topics.get("orders") or await log.create_topic("orders", 1, {})
            for count, later_ms in lives[-1][0]:
                await written.write(log, topic.leaders[0], [EPOCH_MS + later_ms] * count)
            await check(written, log)

    async def check(written: WrittenLog, log: Log) -> None:
        leader = log.topics["orders"].leaders[0]
        records = written.records.get(TopicPartition(leader.topic_id, 0), [])
        end = leader.high_watermark
        assert end == len(records)
        timestamp = EPOCH_MS + data.draw(st.integers(-1, 41))
        late = [(offset, time) for offset, time, _ in records if time >= timestamp]
        found = await log.offset_for_time(leader, timestamp, end)
        assert (found and found[:2]) == (late[0] if late else None)
        largest = await log.offset_of_max_timestamp(leader, end)
        times = [time for _, time, _ in records]
        if records:
            assert largest is not None
            assert largest[1] == max(times)
            assert times[largest[0]] == max(times)
        else:
            assert largest is None

    simulate(scenario())


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 20))
def test_the_stretch_of_an_offset_is_the_last_that_starts_at_or_below_it(
    lengths: list[int], offset: int
) -> None:
    starts = [sum(lengths[:number]) for number in range(len(lengths))]
    epoch_ranges = [EpochEntry(number, number, start) for number, start in enumerate(starts)]
    expected = max(number for number, start in enumerate(starts) if start <= offset)

    assert epoch_range_of(epoch_ranges, offset).leader_epoch == expected


class Counted(MemoryObjects):
    """Counts reads of checkpoints."""

    reads = 0

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.reads += key.startswith(CHECKPOINTS)
        return super().get_range(key, start, length)


@pytest.mark.parametrize("bytes_max", [0, 1 << 20])
def test_what_was_read_once_is_read_from_memory_as_long_as_there_is_room(
    bytes_max: int,
) -> None:
    async def scenario() -> tuple[int, int]:
        written = WrittenLog(checkpoint_segments=3)
        written.objects.__class__ = Counted
        await write_lives(written, [([(1, 1)] * 10, True), ([], True)])
        ((key, records),) = written.records.items()
        row = await written.runner.run(read_partition_row(*key))
        assert row is not None
        where = (
            ChainCheckpoints(IndexCache(bytes_max)),
            *key,
            row.epoch_ranges,
        )
        counts = []
        for _ in range(2):
            assert isinstance(written.objects, Counted)
            before = written.objects.reads
            for offset, _, _ in records:
                await written.runner.run(locate_offset(*where, offset))
            counts.append(written.objects.reads - before)
        return counts[0], counts[1]

    first, second = run(scenario())
    assert first > 0
    assert (second == 0) == (bytes_max > 0)


def encoded_checkpoint(partitions: int, rows: int) -> bytes:
    """A checkpoint of as many epoch ranges, with as many batches each."""
    chain = ChainState(bytes(16), 9, next_seq=1, spans=[SegmentSpan(0, 1)])
    for partition in range(partitions):
        packed = bytearray()
        for offset in range(rows):
            packed += ROW.pack(0, 0, 1, 1, 0, 0, offset, offset, offset, offset, offset)
        epoch_range = EpochRange(0, rows, PartitionState(), rows=packed)
        chain.epoch_ranges[EpochKey(bytes(16), partition, 0)] = epoch_range
    return encode_checkpoint(chain)


def summed_up(partitions: int, rows: int) -> tuple[Checkpoint, bytes]:
    """Front and pages of such a checkpoint."""
    data = encoded_checkpoint(partitions, rows)
    front = decode_checkpoint(data)
    return front, data[front.pages_at :]


def test_pages_come_with_those_beside_them_in_reads_of_a_limited_size() -> None:
    front, pages = summed_up(partitions=60, rows=300)
    cache, reads = IndexCache(), 0
    for page in front.pages:
        steps = cache.page(front, page)
        try:
            request = next(steps)
        except StopIteration as at_once:
            found = at_once.value
        else:
            assert isinstance(request, GetRange)
            begin = request.start - front.pages_at
            assert request.length <= READ_BYTES + page.byte_count
            found, made = drive(cache.page(front, page), [pages[begin:][: request.length]])
            reads += len(made)
        assert found == pages[page.position :][: page.byte_count]

    assert len(pages) > 4 * READ_BYTES
    assert reads == -(-len(pages) // READ_BYTES)


def read_neighbours(cache: IndexCache, front: Checkpoint, page: IndexPage, pages: bytes) -> None:
    steps = cache.page(front, page)
    try:
        request = next(steps)
        assert isinstance(request, GetRange)
        steps.send(pages[request.start - front.pages_at :][: request.length])
    except StopIteration:
        pass


def test_the_bound_is_for_fronts_and_pages_together() -> None:
    front, pages = summed_up(partitions=60, rows=300)
    bound = front.front_bytes + len(pages) // 2
    cache = IndexCache(bound)
    drive(cache.front(9, 1), [encoded_checkpoint(60, 300)[:FRONT_GUESS_BYTES]])
    assert front.front_bytes <= cache.byte_count <= FRONT_GUESS_BYTES
    for page in front.pages:
        read_neighbours(cache, front, page, pages)
        assert cache.byte_count <= bound
    assert cache.byte_count > bound - READ_BYTES


def test_a_small_checkpoint_is_read_by_one_request_front_states_and_pages() -> None:
    data = encoded_checkpoint(partitions=3, rows=2)
    cache = IndexCache()

    chain, requests = drive(read_chain_at(bytes(16), 9, 1, cache.keep_start), [data])

    assert requests == [GetRange(checkpoint_key(9, 1), 0, FRONT_GUESS_BYTES)]
    assert len(chain.epoch_ranges) == 3
    front, _ = drive(cache.front(9, 1), [])
    for page in front.pages:
        found, _ = drive(cache.page(front, page), [])
        assert found == data[front.pages_at + page.position :][: page.byte_count]


def test_a_damaged_page_that_came_with_its_front_is_read_again() -> None:
    data = bytearray(encoded_checkpoint(partitions=3, rows=2))
    front, whole = decode_checkpoint(bytes(data)), bytes(data)
    page = front.pages[1]
    data[front.pages_at + page.position] ^= 1
    cache = IndexCache()
    drive(cache.front(9, 1), [bytes(data)])

    found, requests = drive(cache.page(front, page), [whole[front.pages_at :]])
    assert len(requests) == 1
    assert found == whole[front.pages_at + page.position :][: page.byte_count]


def test_what_lies_below_the_first_checkpoint_of_a_chain_is_dropped() -> None:
    front, pages = summed_up(partitions=3, rows=2)
    cache = IndexCache()
    for page in front.pages:
        read_neighbours(cache, front, page, pages)
    kept = cache.byte_count

    cache.forget_below(front.epoch + 1, front.seq + 1)
    cache.forget_below(front.epoch, front.seq)
    assert cache.byte_count == kept == len(pages)
    cache.forget_below(front.epoch, front.seq + 1)
    assert cache.byte_count == 0


def test_a_damaged_page_harms_only_reads_that_want_it() -> None:
    front, pages = summed_up(partitions=3, rows=2)
    wanted, damaged, _ = front.pages
    bad = bytearray(pages)
    bad[damaged.position] ^= 1
    cache = IndexCache()

    found, _ = drive(cache.page(front, wanted), [bytes(bad)])
    assert found == pages[: wanted.byte_count]
    with pytest.raises(Corrupt, match=f"position={damaged.position}"):
        drive(cache.page(front, damaged), [bytes(bad)])
    assert drive(cache.page(front, damaged), [pages])[0] == found
    with pytest.raises(Corrupt, match="fails its checksum"):
        drive(IndexCache().page(front, wanted), [pages[:5]])


def test_the_pages_of_a_stretch_are_found_among_all() -> None:
    front, _ = summed_up(partitions=4, rows=5000)

    assert len(front.pages) == 8
    for partition in range(5):
        key = EpochKey(bytes(16), partition, 0)
        assert list(front.pages_of(key)) == [page for page in front.pages if page.key == key]
    for page in front.pages:
        near = front.pages_near(page, READ_BYTES)
        assert page in near
        assert len({one.position // READ_BYTES for one in near}) == 1
