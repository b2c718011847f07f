"""Spans of batches made from a table: what a fetch takes of them, and which are kept."""

from hypothesis import given
from hypothesis import strategies as st

from logstore.reading.planning.table_batches import Stream, TableBatchCache, TableBatches
from logstore.records.batch import HEADER_BYTES, read_header
from logstore.records.encode import encode_batch

STREAM = Stream(bytes(16), 0, "lz4")


def run_of(
    start: int, sizes: list[tuple[int, int, int]], end: int, version: int = 1
) -> TableBatches:
    """`sizes` are (offsets left out before a batch, its offsets, its bytes): a header and nothing,
    or less than that where no batch is taken."""
    batches, bases, ends, at = [], [], [], start
    for gap, count, size in sizes:
        bases.append(at + gap)
        at += gap + count
        ends.append(at)
        header = encode_batch([], base_offset=bases[-1], last_offset_delta=count - 1)
        batches.append((header + bytes(size))[:size])
    return TableBatches(start, max(end, at), version, batches, bases, ends, sum(map(len, batches)))


HEAD = HEADER_BYTES
SIZES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(HEAD, HEAD + 9)), max_size=8
)


@given(SIZES, st.integers(0, 3), st.integers(1, 5 * HEAD), st.integers(1, 60))
def test_who_reads_on_gets_every_batch_once_and_in_order(
    sizes: list[tuple[int, int, int]], gap: int, room: int, up_to: int
) -> None:
    span = run_of(10, sizes, 10 + gap)
    up_to += 10
    taken: list[bytes] = []
    offset = 10
    while offset < min(span.end, up_to):
        found = span.take(offset, up_to, room, is_first=True)
        assert found.byte_count == sum(map(len, found.batches))
        assert found.byte_count <= room or len(found.batches) == 1
        assert offset < found.end_offset <= max(span.end, up_to)
        taken += found.batches
        offset = found.end_offset
        if found.batches:
            last = read_header(found.batches[-1], 0, len(found.batches[-1]))
            before = span.ends[span.bases.index(last.base_offset)]
            assert last.next_offset == max(before, offset), "it says what is behind it"

    wanted = [one for one, base in zip(span.batches, span.bases, strict=True) if base < up_to]
    assert [one[:8] for one in taken] == [one[:8] for one in wanted]


def test_reading_begins_with_the_batch_that_holds_the_offset_or_the_next() -> None:
    span = run_of(0, [(0, 10, HEAD), (5, 10, HEAD)], 30)

    assert span.take(7, 99, HEAD, is_first=True)[1:] == (HEAD, 10)
    assert span.take(12, 99, 99, is_first=True)[1:] == (HEAD, 30)
    assert span.take(27, 99, 99, is_first=True)[1:] == (0, 30)


def test_without_room_only_the_first_batch_of_an_answer_comes() -> None:
    span = run_of(0, [(0, 10, HEAD)], 10)

    assert span.take(0, 99, 1, is_first=True)[1:] == (HEAD, 10)
    assert span.take(0, 99, 1, is_first=False)[1:] == (0, 0)


def test_an_answer_ends_before_a_batch_that_begins_below_what_it_holds() -> None:
    """The file before was rewritten, so a span of its older version is cut elsewhere."""
    newer = run_of(18, [(0, 1, HEAD)] * 13, 31, version=2)
    older = run_of(22, [(0, 10, HEAD), (0, 10, HEAD)], 42)
    position = newer.take(18, 99, 999, is_first=True).end_offset

    assert older.take(position, 99, 99, is_first=False) == ((), 0, 31)
    assert older.take(position, 99, 999, is_first=True)[1:] == (2 * HEAD, 42)
    assert older.take(32, 99, 99, is_first=False)[1:] == (HEAD, 42)


def test_the_least_recently_used_runs_go_first() -> None:
    cache = TableBatchCache(30)
    for start in (0, 10, 20):
        cache.keep(STREAM, run_of(start, [(0, 10, 10)], 0))
    assert cache.find(STREAM, 5, 1) is not None
    cache.keep(STREAM, run_of(30, [(0, 10, 10)], 0))

    assert cache.find(STREAM, 15, 1) is None
    assert all(cache.find(STREAM, offset, 1) for offset in (5, 25, 35))
    assert cache.byte_count == 30


def test_a_run_larger_than_the_cache_is_served_once() -> None:
    cache = TableBatchCache(30)
    cache.keep(STREAM, run_of(0, [(0, 10, 10)], 0))
    cache.keep(STREAM, run_of(10, [(0, 10, 100)], 0))

    assert cache.find(STREAM, 10, 1) is not None
    assert cache.find(STREAM, 0, 1) is None
    assert cache.byte_count == 100


def test_runs_of_an_older_table_are_not_found_and_go() -> None:
    cache = TableBatchCache(30)
    cache.keep(STREAM, run_of(0, [(0, 10, 10)], 0, version=4))

    assert cache.find(STREAM, 3, 4) is not None
    assert cache.find(STREAM, 3, 5) is None
    assert cache.byte_count == 0


def test_what_a_run_begun_inside_another_does_not_tell_the_other_does() -> None:
    cache = TableBatchCache(99)
    cache.keep(STREAM, run_of(0, [(0, 40, 10)], 0))
    cache.keep(STREAM, run_of(20, [(0, 5, 10)], 0))

    found = cache.find(STREAM, 30, 1)
    assert found is not None and found.start == 0


def test_streams_do_not_mix() -> None:
    cache = TableBatchCache(99)
    cache.keep(STREAM, run_of(0, [(0, 40, 10)], 0))

    assert cache.find(STREAM._replace(compression="none"), 3, 1) is None
    assert cache.find(STREAM._replace(partition=1), 3, 1) is None
