"""What may be deleted: never on the word of one witness, and never what another still holds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.partition_row import PartitionRow
from logstore.formats.table_row import TableRow
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.protocol.rules.disposal import (
    DROP_GRACE_MS,
    Fate,
    InTable,
    LogObject,
    Span,
    confirmed_start,
    fate_of,
    first_entry_kept,
    may_drop_rows,
    may_drop_table,
    may_sweep_file,
    restored_log_start,
)

OFFSETS = st.integers(0, 20)
SPANS = st.lists(st.tuples(OFFSETS, OFFSETS).map(lambda pair: Span(*sorted(pair))), max_size=4)


@pytest.mark.parametrize(
    ("status", "recorded", "fate"),
    [
        (None, False, Fate.UNKNOWN),
        (None, True, Fate.DELETED),
        (TopicStatus.LIVE, False, Fate.LIVE),
        (TopicStatus.LIVE, True, Fate.LIVE),
        (TopicStatus.DELETING, False, Fate.UNRECORDED),
        (TopicStatus.DELETED, False, Fate.UNRECORDED),
        (TopicStatus.DELETED, True, Fate.DELETED),
    ],
)
def test_a_topic_is_deleted_if_its_record_says_so_and_no_row_that_it_lives(
    status: TopicStatus | None, recorded: bool, fate: Fate
) -> None:
    row = None if status is None else TopicRow(b"t" * 16, status, 1, {})
    assert fate_of(row, deletion_recorded=recorded) is fate


@pytest.mark.parametrize(
    ("status", "recorded", "fate"),
    [
        (TopicStatus.LIVE, True, Fate.DELETED),
        (TopicStatus.LIVE, False, Fate.LIVE),
        (TopicStatus.DELETING, False, Fate.UNRECORDED),
    ],
)
def test_a_live_row_without_partitions_yields_to_the_record_of_a_deletion(
    status: TopicStatus, recorded: bool, fate: Fate
) -> None:
    row = TopicRow(b"t" * 16, status, 1, {})
    assert fate_of(row, deletion_recorded=recorded, has_partitions=False) is fate


@pytest.mark.parametrize("fate", list(Fate))
@pytest.mark.parametrize("was_led", [False, True])
def test_rows_go_if_the_deletion_is_recorded_or_the_topic_was_never_led(
    fate: Fate, was_led: bool
) -> None:
    assert may_drop_rows(fate, was_led=was_led).may == (fate is Fate.DELETED or not was_led)


@pytest.mark.parametrize("fate", list(Fate))
@pytest.mark.parametrize("copy", ["drop", "keep"])
@pytest.mark.parametrize("recorded", ["drop", "keep", None])
@pytest.mark.parametrize("gone_ms", [0, 1, 2])
def test_a_table_goes_if_row_and_record_agree_and_an_hour_has_passed(
    fate: Fate, copy: str, recorded: str | None, gone_ms: int
) -> None:
    row = TableRow(on_delete=copy, gone_ms=gone_ms)
    agreed = (fate, copy, recorded, gone_ms) == (Fate.DELETED, "drop", "drop", 1)
    assert may_drop_table(fate, row, recorded, 1 + DROP_GRACE_MS).may == agreed


@given(OFFSETS, OFFSETS, SPANS, OFFSETS)
def test_no_log_start_is_above_what_is_held_where_there_is_a_table(
    known: int, end: int, segments: list[Span], first: int
) -> None:
    table = InTable(first, first + 3)
    start = restored_log_start(known, end, segments, table)
    held = [first, *(span.start for span in segments if span.start < span.end)]
    assert start == min(max(known, min(held)), end)


@given(OFFSETS, SPANS)
def test_without_a_table_a_log_starts_above_the_last_gap(end: int, segments: list[Span]) -> None:
    start = restored_log_start(0, end, segments, None)
    held = {offset for span in segments for offset in range(*span)}
    assert all(offset in held for offset in range(start, end))
    assert start == 0 or start == end or start - 1 not in held


@pytest.mark.parametrize(
    ("reason", "confirmed"),
    [
        ("", 0),
        ("retention: 5", 5),
        ("records deleted: 9", 7),
        ("retention: -1", 0),
        ("retention", 0),
        ("restored: 7", 7),
        ("a whim: 7", 0),
    ],
)
def test_a_log_start_counts_as_far_as_its_reason_goes(reason: str, confirmed: int) -> None:
    row = replace(PartitionRow.new(1, 1), log_start=7, start_reason=reason)
    assert confirmed_start(row) == confirmed


@pytest.mark.parametrize(
    ("segments", "table", "start"),
    [
        ([Span(0, 9)], None, 0),
        ([Span(4, 9)], None, 4),
        ([Span(9, 9)], None, 9),
        ([Span(0, 3), Span(5, 9)], None, 5),
        ([Span(6, 9), Span(3, 6), Span(0, 3)], None, 0),
        ([Span(9, 9)], InTable(0, 9), 0),
        ([Span(4, 9)], InTable(2, 6), 2),
        ([Span(4, 9)], InTable(None, 6), 4),
        ([Span(5, 9)], InTable(0, 3), 0),  # the table lost commits: nothing of it is given up
        ([Span(9, 9)], InTable(None, 9), 9),
    ],
)
def test_log_start_is_not_above_what_any_tier_holds(
    segments: list[Span], table: InTable | None, start: int
) -> None:
    assert restored_log_start(0, 9, segments, table) == start
    assert restored_log_start(8, 9, segments, table) == max(8, start)
    assert restored_log_start(99, 9, segments, table) == 9


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("stored_ms", [99, 100, 101])
def test_a_file_is_swept_if_no_promised_version_names_it_and_it_is_old(
    is_named: bool, stored_ms: int
) -> None:
    ruling = may_sweep_file(is_named=is_named, stored_ms=stored_ms, kept_since_ms=100)
    assert ruling.may == (not is_named and stored_ms < 100)


@given(st.lists(st.builds(LogObject, OFFSETS, OFFSETS, st.booleans())), OFFSETS)
def test_entries_go_below_an_old_checkpoint_and_below_everything_young(
    objects: list[LogObject], since_ms: int
) -> None:
    kept = first_entry_kept(objects, since_ms)
    assert all(one.version >= kept for one in objects if one.stored_ms >= since_ms)
    bases = {one.version for one in objects if one.is_checkpoint and one.stored_ms < since_ms}
    assert kept == 0 or kept in bases or kept < max(bases)
