"""Seconds for which records wait for a table: never more than they did, none once it has them."""

from hypothesis import given
from hypothesis import strategies as st

from broker.http.decisions.table_waits import TableWaits
from logstore.formats.topic_partition import TopicPartition

KEY = TopicPartition(b"t" * 16, 0)


def read(waits: TableWaits, table_end: int, end: int, now_s: float) -> float:
    waits.begin()
    waited_s = waits.add(KEY, table_end, end, now_s)
    waits.finish()
    return waited_s


def test_it_grows_while_the_table_stands_still_and_ends_when_it_has_all() -> None:
    waits = TableWaits()
    assert read(waits, 0, 10, 0.0) == 0
    assert read(waits, 0, 20, 60.0) == 60
    assert read(waits, 9, 20, 120.0) == 120
    assert read(waits, 10, 30, 180.0) == 0
    assert read(waits, 20, 30, 240.0) == 60
    assert read(waits, 30, 30, 300.0) == 0


def test_a_partition_that_was_led_elsewhere_in_between_begins_again() -> None:
    waits = TableWaits()
    read(waits, 0, 10, 0.0)
    waits.begin()
    waits.finish()
    assert read(waits, 0, 10, 60.0) == 0


def test_a_reading_that_was_not_finished_changes_nothing() -> None:
    waits = TableWaits()
    read(waits, 0, 10, 0.0)
    waits.begin()
    assert read(waits, 0, 10, 60.0) == 60


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=20))
def test_no_record_is_said_to_have_waited_longer_than_it_did(steps: list[tuple[int, int]]) -> None:
    """Each second some records come and the table takes some."""
    waits, came_s, table_end = TableWaits(), list[float](), 0
    for now_s, (more, moved) in enumerate(steps):
        came_s += [float(now_s)] * more
        table_end = min(len(came_s), table_end + moved)
        waited_s = read(waits, table_end, len(came_s), float(now_s))
        if table_end < len(came_s):
            assert 0 <= waited_s <= now_s - came_s[table_end]
        else:
            assert waited_s == 0
