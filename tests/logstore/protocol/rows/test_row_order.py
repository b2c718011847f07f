"""Rows of one partition, as reads and late answers to writes bring them, in the catalog."""

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto

from hypothesis import given
from hypothesis import strategies as st

from logstore.epoch.catalog import Catalog
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.protocol.leading.leadership import shortened
from logstore.protocol.rows.row_order import newest_row
from logstore.protocol.rows.view import RegistryUpdate

KEY = TopicPartition(b"i" * 16, 0)
FIRST = PartitionRow.new(1, 7, (1, 2))


class Change(Enum):
    """What may happen to a row; a creation and a takeover write it as a whole."""

    TAKE = auto()
    PLACE = auto()
    RAISE = auto()
    EDIT = auto()
    SHORTEN = auto()


def history(changes: Sequence[Change]) -> list[PartitionRow]:
    """Every state of the row, oldest first."""
    rows = [FIRST]
    for number, change in enumerate(changes, 1):
        row = rows[-1]
        match change:
            case Change.TAKE:
                start = row.log_start + 1
                row = row.taken_by(broker=2, chain=7 + number, start=start, known_from=0)
            case Change.PLACE:
                row = replace(row, replicas=(1, 2 + number % 2), target=number % 2)
            case Change.RAISE:
                row = replace(row, log_start=row.log_start + 1)
            case Change.EDIT:
                row = replace(row, edited_end=row.edited_end + 1)
            case Change.SHORTEN:
                row = shortened(row)
        rows.append(row)
    return rows


def is_whole(rows: Sequence[PartitionRow], number: int) -> bool:
    return not number or rows[number].leader_epoch > rows[number - 1].leader_epoch


class Known:
    """A catalog with one partition of one topic."""

    def __init__(self) -> None:
        self._catalog = Catalog(9, 99)
        self._catalog.apply(
            RegistryUpdate(1, {"orders": TopicRow(KEY.topic_id, TopicStatus.LIVE, 1, {})}, {})
        )

    def read(self, row: PartitionRow) -> None:
        self._catalog.apply(RegistryUpdate(1, {}, {KEY: row}))

    def wrote(self, row: PartitionRow) -> None:
        self._catalog.apply(RegistryUpdate(0, {}, {KEY: row}, is_written=True))

    @property
    def row(self) -> PartitionRow:
        return self._catalog.topics["orders"].rows[0]


@given(st.lists(st.sampled_from(Change), max_size=8), st.data())
def test_a_late_answer_to_a_write_takes_nothing_back_that_was_read(
    changes: list[Change], data: st.DataObject
) -> None:
    rows, known, newest = history(changes), Known(), -1
    for number, row in enumerate(rows):
        if data.draw(st.booleans(), label=f"row {number} is read"):
            known.read(row)
            newest = number
        written = [n for n in range(number + 1) if is_whole(rows, n)]
        for late in data.draw(st.lists(st.sampled_from(written), max_size=2), label="answers"):
            known.wrote(rows[late])
            newest = max(newest, late)
        if newest >= 0:
            assert known.row == rows[newest]


@given(st.lists(st.sampled_from(Change), max_size=8), st.data())
def test_of_two_rows_of_one_history_neither_log_start_nor_leadership_nor_edits_go_back(
    changes: list[Change], data: st.DataObject
) -> None:
    rows = history(changes)
    one, other = data.draw(st.sampled_from(rows)), data.draw(st.sampled_from(rows))
    row = newest_row(one, other, is_written=data.draw(st.booleans()))
    for name in ("leader_epoch", "log_start", "edited_end"):
        assert getattr(row, name) == max(getattr(one, name), getattr(other, name))


def test_the_row_of_a_takeover_does_not_take_back_which_offsets_were_edited() -> None:
    """The change of leaders neither reads nor writes them, and may answer without."""
    known = Known()
    known.read(replace(FIRST, edited_end=8))
    taken = FIRST.taken_by(broker=2, chain=8, start=9)
    known.wrote(taken)
    assert known.row == replace(taken, edited_end=8)


def test_a_row_that_a_write_found_there_counts_as_far_as_it_is_newer() -> None:
    """Partitions that a growth finds made already are read by it, after what is known or before."""
    known = Known()
    known.read(replace(FIRST, target=2))
    known.wrote(replace(FIRST, log_start=3))
    assert known.row == replace(FIRST, log_start=3)
