"""Filters of a query never take away a record that it wants, and what they can exclude goes."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from spark_source.planning.filters import conditions_of, later, least_time_ms, narrow
from spark_source.planning.offsets import Position, TopicPosition

COMPARISONS = (EqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual)
ENDS = {"orders": {0: 6, 1: 4}, "returns": {0: 5}}


def position(offsets: dict[str, dict[int, int]]) -> Position:
    return {name: TopicPosition(name.encode(), one) for name, one in offsets.items()}


def records(begin: Position, end: Position) -> set[tuple[str, int, int]]:
    return {
        (name, number, offset)
        for name, topic in end.items()
        for number, until in topic.next.items()
        for offset in range(begin[name].next[number], until)
    }


def left(*filters: Filter, start: int = 0) -> set[tuple[str, int, int]]:
    begin = {name: dict.fromkeys(one, start) for name, one in ENDS.items()}
    return records(*narrow(position(begin), position(ENDS), conditions_of(filters)))


def is_wanted(one: Filter, record: tuple[str, int, int]) -> bool:
    value: Any = dict(zip(("topic", "partition", "offset"), record, strict=True))[one.attribute[0]]  # type: ignore[attr-defined]
    limit: Any = one.value  # type: ignore[attr-defined]
    match one:
        case EqualTo():
            return bool(value == limit)
        case In():
            return value in limit
        case LessThan():
            return bool(value < limit)
        case LessThanOrEqual():
            return bool(value <= limit)
        case GreaterThan():
            return bool(value > limit)
        case _:
            assert isinstance(one, GreaterThanOrEqual)
            return bool(value >= limit)


numbers = st.integers(-1, 7)
compared = st.one_of(
    st.builds(
        lambda kind, column, limit: kind((column,), limit),
        st.sampled_from(COMPARISONS),
        st.sampled_from(["partition", "offset"]),
        numbers,
    ),
    st.builds(
        lambda kind, limit: kind(("topic",), limit),
        st.sampled_from(COMPARISONS),
        st.sampled_from(["orders", "other", "returns"]),
    ),
    st.builds(
        lambda column, some: In((column,), tuple(some)),
        st.sampled_from(["partition", "offset"]),
        st.lists(numbers, max_size=3),
    ),
)


@given(st.lists(compared, max_size=4), st.integers(0, 3))
def test_every_record_that_all_filters_want_is_left(filters: list[Filter], start: int) -> None:
    everything = left(start=start)
    wanted = {one for one in everything if all(is_wanted(f, one) for f in filters)}

    assert wanted <= left(*filters, start=start) <= everything


@given(st.lists(compared.filter(lambda one: not isinstance(one, In)), max_size=4))
def test_comparisons_leave_nothing_else(filters: list[Filter]) -> None:
    assert left(*filters) == {one for one in left() if all(is_wanted(f, one) for f in filters)}


def test_a_list_of_offsets_leaves_what_lies_between() -> None:
    assert left(In(("offset",), (4, 2)), EqualTo(("topic",), "orders")) == {
        *(("orders", 0, offset) for offset in (2, 3, 4)),
        *(("orders", 1, offset) for offset in (2, 3)),
    }


@pytest.mark.parametrize(
    "other",
    [
        IsNotNull(("partition",)),
        Not(EqualTo(("partition",), 0)),
        StringStartsWith(("topic",), "o"),
        EqualTo(("value",), b"1"),
        EqualTo(("partition", "deeper"), 0),
        EqualTo(("partition",), True),
        EqualTo(("partition",), "0"),
        EqualNullSafe(("offset",), None),
        GreaterThan(("timestamp",), datetime(2026, 1, 1)),  # noqa: DTZ001
    ],
)
def test_what_is_not_understood_narrows_nothing(other: Filter) -> None:
    assert conditions_of([other]) == ()
    assert left(other) == left()


def test_times_count_in_milliseconds_rounded_down_and_the_latest_rules() -> None:
    zone = timezone(timedelta(hours=2))
    at = datetime(1970, 1, 1, 2, 0, 1, 234_567, tzinfo=zone)

    assert least_time_ms(conditions_of([GreaterThanOrEqual(("timestamp",), at)])) == 1_234
    before = datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC)
    assert least_time_ms(conditions_of([GreaterThan(("timestamp",), before)])) == -1
    several = [GreaterThan(("timestamp",), at), In(("timestamp_ms",), (9_000, 2_000))]
    assert least_time_ms(conditions_of(several)) == 2_000
    ends = [LessThan(("timestamp",), at), LessThanOrEqual(("timestamp_ms",), 5)]
    assert least_time_ms(conditions_of(ends)) is None


def test_a_partition_without_a_record_that_new_has_nothing_to_read() -> None:
    begin, end = position({"orders": {0: 2, 1: 2, 2: 2}}), position({"orders": {0: 6, 1: 4, 2: 3}})

    first = later(begin, end, {("orders", 0): 4, ("orders", 1): None, ("orders", 2): 1})

    assert first["orders"].next == {0: 4, 1: 4, 2: 2}
