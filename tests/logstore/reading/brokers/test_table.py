"""How far one look into a table goes, and whose snapshot it uses."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import NotFound
from logstore.formats.offset_range import OffsetRange
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import OFFSET_MAX, DataFile, Snapshot
from logstore.objects.directory import DirectoryStore
from logstore.objects.memory import MemoryObjects
from logstore.reading.brokers.table import TableReader, TableRequest, window_end
from logstore.reading.planning.table_batches import Stream, TableBatches
from logstore.records.decode import decode_records
from logstore.records.record import Record
from logstore.testing.virtual_loop import VirtualClock
from tests.logstore.history.tables import TOPIC_ID, some_rows, written

TOPIC = bytes(16)
STREAM = Stream(TOPIC, 0, "none")


def file_of(low: int, high: int) -> DataFile:
    return DataFile(f"partition=0/{low}-{high}.parquet", 0, 1, 10, low, high, None, None)


def table(version: int, end: int, *files: DataFile) -> Snapshot:
    return Snapshot(TOPIC, version, {0: end}, {0: sorted(files, key=lambda f: f.min_offset)})


class Versions:
    """Tells of one version after the other."""

    def __init__(self, *snapshots: Snapshot | None) -> None:
        self._left = list(snapshots)
        self.look_count = 0

    def snapshot(
        self, topic_id: bytes, *, version: int | None = None, known: Snapshot | None = None
    ) -> Snapshot | None:
        self.look_count += 1
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]


def reader_of(versions: Versions) -> TableReader:
    return TableReader(versions, MemoryObjects(VirtualClock()), cursors_max=2)


SPANS = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 20)), max_size=12)


@given(SPANS, st.booleans(), st.integers(1, 120))
def test_windows_follow_each_other_to_the_tables_end_whatever_the_files(
    spans: list[tuple[int, int]], has_unbounded: bool, end: int
) -> None:
    files = [file_of(low, low + count) for low, count in spans]
    if has_unbounded:
        files.append(DataFile("partition=0/any.parquet", 0, -1, 10, 0, OFFSET_MAX))
    snapshot = table(1, end, *files)
    position, windows = 0, [0]
    while position < end:
        position = window_end(snapshot, 0, position, end)
        windows.append(position)

    assert all(one < two for one, two in pairwise(windows))
    assert position == end


def test_one_window_is_one_file_where_files_do_not_overlap() -> None:
    snapshot = table(1, 100, file_of(0, 39), file_of(40, 79), file_of(90, 99))

    assert [window_end(snapshot, 0, at, 100) for at in (0, 39, 40, 80, 95)] == [
        40,
        40,
        80,
        100,
        100,
    ]


@pytest.mark.parametrize("last", [1, 2, 40])
def test_a_span_does_not_pass_over_a_last_file_however_few_rows_it_has(
    last: int, tmp_path: Path
) -> None:
    store = DirectoryStore(tmp_path)
    files = [*written(store, some_rows(0, 40)), *written(store, some_rows(40, 40 + last))]
    reader = TableReader(Versions(table(1, 40 + last, *files)), store, cursors_max=2)
    stream = Stream(TOPIC_ID, 0, "none")

    found, position = list[int](), 0
    while position < 40 + last:
        span = reader.span(stream, position, 0, 1 << 20)
        found += [record.offset_delta + base for base, record in records_of_span(span)]
        assert span.end > position
        position = span.end
    assert found == list(range(40 + last))


def records_of_span(span: TableBatches) -> Iterator[tuple[int, Record]]:
    for base, batch in zip(span.bases, span.batches, strict=True):
        for record in decode_records(batch, max_bytes=1 << 20):
            yield base, record


def test_a_table_that_does_not_reach_an_offset_is_looked_at_again_each_time() -> None:
    versions = Versions(None, table(1, 10))
    reader = reader_of(versions)

    assert reader.span(STREAM, 5, 0, 1).end == 5
    assert reader.span(STREAM, 5, 0, 1).end == 10
    assert reader.span(STREAM, 9, 0, 1).end == 10
    assert versions.look_count == reader.refresh_count == 2
    assert reader.span(STREAM, 10, 0, 1).end == 10
    assert versions.look_count == 3


def test_a_version_below_the_lowest_to_use_is_not_used() -> None:
    versions = Versions(table(1, 10), table(4, 10))
    reader = reader_of(versions)

    assert reader.span(STREAM, 5, 0, 1).version == 1
    assert reader.span(STREAM, 5, 3, 1).version == 4


def test_a_missing_file_is_looked_for_in_newer_versions_a_few_times() -> None:
    versions = Versions(*(table(number, 10, file_of(0, 9)) for number in range(1, 9)))

    with pytest.raises(NotFound, match="names a file that is gone"):
        reader_of(versions).span(STREAM, 0, 0, 1)
    assert versions.look_count == 3


def test_a_file_that_the_newest_version_lacks_is_not_looked_for_again() -> None:
    versions = Versions(table(1, 10, file_of(0, 9)))

    with pytest.raises(NotFound, match=r"0-9\.parquet"):
        reader_of(versions).span(STREAM, 0, 0, 1)
    assert versions.look_count == 2


def test_times_are_not_looked_for_in_a_table_that_ends_below_the_segments() -> None:
    reader = reader_of(Versions(table(1, 10)))

    with pytest.raises(NotFound, match="does not reach"):
        reader.first_at_or_after(TableRequest(OffsetRange(TopicPartition(TOPIC, 0), 0, 11), 0), 5)
    assert (
        reader.first_at_or_after(TableRequest(OffsetRange(TopicPartition(TOPIC, 0), 0, 10), 0), 5)
        is None
    )
    assert reader.latest(TableRequest(OffsetRange(TopicPartition(TOPIC, 0), 0, 10), 0)) is None
