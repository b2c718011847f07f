"""Positions and their JSON: what Spark compares as text, and what the log says to them."""

import json
import random
from collections.abc import Mapping
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Invalid, Refused
from logstore.formats.offset_range import OffsetRange
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.planning.extents import Extent, Extents, TopicExtent, TopicRange
from spark_source.planning.choices import EARLIEST, LATEST, OffsetChoice
from spark_source.planning.offsets import (
    Position,
    TopicPosition,
    chosen,
    covers,
    farther,
    has_new_offsets,
    latest,
    position_of_json,
    position_to_json,
    ranges_between,
    settle,
)
from spark_source.planning.pace import limit_offsets

K = TypeVar("K")
V = TypeVar("V")

A, B = b"a" * 16, b"b" * 16
NAMES = st.text("abc._-", min_size=1, max_size=6)
OFFSETS = st.integers(0, 2**62)
POSITIONS = st.dictionaries(
    NAMES,
    st.builds(
        TopicPosition,
        st.binary(min_size=16, max_size=16),
        st.dictionaries(st.integers(0, 300), OFFSETS, max_size=6),
    ),
    max_size=4,
)


def extents(topic_id: bytes = A, **partitions: tuple[int, int]) -> Extents:
    found = {int(name[1:]): Extent(*extent) for name, extent in partitions.items()}
    return {"orders": TopicExtent(topic_id, found)}


def position(topic_id: bytes = A, **partitions: int) -> Position:
    found = {int(name[1:]): offset for name, offset in partitions.items()}
    return {"orders": TopicPosition(topic_id, found)}


# JSON


def test_the_form_of_offsets() -> None:
    text = json.dumps(position_to_json({**position(p10=7, p2=0), "a": TopicPosition(B, {0: 1})}))

    assert text == (
        '{"topics": {"a": {"id": "62626262626262626262626262626262", "next": {"0": 1}}, '
        '"orders": {"id": "61616161616161616161616161616161", "next": {"2": 0, "10": 7}}}, '
        '"version": 1}'
    )


@given(POSITIONS)
def test_offsets_come_back_as_they_were(position: Position) -> None:
    assert position_of_json(json.loads(json.dumps(position_to_json(position)))) == position


@given(POSITIONS, st.randoms())
def test_equal_positions_give_equal_text_however_they_were_made(
    position: Position, rng: random.Random
) -> None:
    def shuffled(items: Mapping[K, V]) -> dict[K, V]:
        return dict(rng.sample(list(items.items()), len(items)))

    other = {
        name: TopicPosition(topic.topic_id, shuffled(topic.next))
        for name, topic in shuffled(position).items()
    }

    assert json.dumps(position_to_json(other)) == json.dumps(position_to_json(position))


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"version": 2, "topics": {}},
        {"orders": {"0": 12}},
        {"version": 1},
        {"version": 1, "topics": {"orders": {"id": "zz", "next": {}}}},
        {"version": 1, "topics": {"orders": {"id": A.hex(), "next": [1]}}},
        {"version": 1, "topics": {"orders": {"id": A.hex(), "next": {"0": "x"}}}},
    ],
)
def test_offsets_that_this_version_did_not_write_are_refused(data: dict[str, object]) -> None:
    with pytest.raises(Refused, match="offsets"):
        position_of_json(data)


# Starting and ending


def test_words_and_offsets_are_looked_up_in_the_log() -> None:
    now = extents(p0=(5, 20), p1=(0, 8), p2=(3, 3), p3=(0, 9))
    choice = OffsetChoice(EARLIEST, {"orders": {0: 12, 1: LATEST, 2: EARLIEST}})

    assert chosen(now, choice, "startingOffsets") == position(p0=12, p1=8, p2=3, p3=0)
    assert chosen(now, OffsetChoice(LATEST), "endingOffsets") == latest(now)


def test_a_partition_that_is_not_there_is_refused() -> None:
    choice = OffsetChoice(EARLIEST, {"orders": {0: 1, 7: 1}})

    with pytest.raises(Invalid, match=r"startingOffsets names .* partitions=\[7\] existing=0 to 0"):
        chosen(extents(p0=(0, 9)), choice, "startingOffsets")


def test_an_offset_beyond_the_end_is_refused() -> None:
    choice = OffsetChoice(EARLIEST, {"orders": {0: 10}})

    with pytest.raises(Invalid, match="beyond the end: topic=orders partition=0 offset=10 end=9"):
        chosen(extents(p0=(0, 9)), choice, "startingOffsets")


@pytest.mark.parametrize(
    ("choice", "answer"),
    [
        (OffsetChoice(LATEST), True),
        (OffsetChoice(EARLIEST), False),
        (OffsetChoice(EARLIEST, {"orders": {0: 3}}), False),
        (OffsetChoice(EARLIEST, {"orders": {0: 3, 1: LATEST}}), True),
    ],
)
def test_whether_a_start_moves_with_the_log(choice: OffsetChoice, answer: bool) -> None:
    assert choice.moves is answer


# Going on


def test_going_on_from_where_one_was_changes_nothing() -> None:
    now = extents(p0=(5, 20), p1=(0, 8))

    assert settle(position(p0=5, p1=8), now, fail_on_data_loss=True) == position(p0=5, p1=8)


def test_a_new_partition_begins_at_its_start() -> None:
    now = extents(p0=(0, 9), p1=(2, 5))

    assert settle(position(p0=9), now, fail_on_data_loss=True) == position(p0=9, p1=2)


@pytest.mark.parametrize(
    ("now", "says", "goes_on_at"),
    [
        (extents(p0=(8, 20)), r"partition=0 offset=7 there=\[8, 20\)", position(p0=8)),
        (extents(B, p0=(0, 9)), f"created again: topic=orders id={A.hex()}", position(B, p0=0)),
        (extents(), "no longer assigned: topic=orders partition=0 offset=7", position()),
        ({}, "deleted, or is no longer subscribed: topic=orders", {}),
    ],
    ids=["trimmed", "created again", "no partition", "deleted"],
)
def test_lost_records_end_a_query_unless_it_says_otherwise(
    now: Extents, says: str, goes_on_at: Position
) -> None:
    was = position(p0=7)

    with pytest.raises(Refused, match=f"{says}.*set failOnDataLoss to false"):
        settle(was, now, fail_on_data_loss=True)
    assert settle(was, now, fail_on_data_loss=False) == goes_on_at


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_a_log_that_ends_below_a_position_ends_a_query_whatever_it_says(
    fail_on_data_loss: bool,
) -> None:
    """It is an older registry: the offsets up to the position would be read twice."""
    with pytest.raises(Refused, match=r"partition=0 offset=7 there=\[0, 6\).*logstore restore"):
        settle(position(p0=7), extents(p0=(0, 6)), fail_on_data_loss=fail_on_data_loss)


def test_news_are_new_records_partitions_and_lives() -> None:
    was = position(p0=7)

    assert not has_new_offsets(was, extents(p0=(0, 7)))
    assert has_new_offsets(was, extents(p0=(0, 8)))
    assert has_new_offsets(was, extents(p0=(0, 7), p1=(0, 0)))
    assert has_new_offsets(was, extents(B, p0=(0, 7)))
    assert has_new_offsets(was, {})
    assert has_new_offsets({}, extents(p0=(0, 7)))


def test_what_is_known_covers_what_was_promised_or_not() -> None:
    assert covers(extents(p0=(0, 7)), position(p0=7))
    assert not covers(extents(p0=(0, 6)), position(p0=7))
    assert not covers(extents(B, p0=(0, 7)), position(p0=7))
    assert not covers(extents(p0=(0, 7)), position(p1=0))
    assert not covers({}, position(p0=7))


def test_the_farther_of_two_positions_is_taken_by_partition() -> None:
    assert farther(position(p0=3, p1=9), position(p0=5, p1=2)) == position(p0=5, p1=9)


# Ranges and limits


def test_ranges_lie_between_positions_and_are_never_empty_or_backward() -> None:
    start = position(p0=3, p1=110, p2=4)
    end = position(p0=7, p1=105, p2=4, p3=2)

    assert ranges_between(start, end) == [
        TopicRange("orders", OffsetRange(TopicPartition(A, 0), 3, 7)),
        TopicRange("orders", OffsetRange(TopicPartition(A, 3), 0, 2)),
    ]


def test_another_life_of_a_topic_is_read_from_its_beginning() -> None:
    assert ranges_between(position(A, p0=50), position(B, p0=4)) == [
        TopicRange("orders", OffsetRange(TopicPartition(B, 0), 0, 4))
    ]


BACKLOGS = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 100_000)), min_size=1, max_size=8
)


@given(BACKLOGS, st.integers(1, 200_000))
def test_a_limit_is_kept_shared_by_backlog_and_starves_no_partition(
    partitions: list[tuple[int, int]], offsets_max: int
) -> None:
    start: Position = {
        "orders": TopicPosition(A, {number: at for number, (at, _) in enumerate(partitions)})
    }
    end: Position = {
        "orders": TopicPosition(A, {number: at + of for number, (at, of) in enumerate(partitions)})
    }
    limited = limit_offsets(start, end, offsets_max)
    backlog = sum(of for _, of in partitions)
    taken = {
        one.offsets.number: one.offsets.end - one.offsets.start
        for one in ranges_between(start, limited)
    }

    assert set(limited["orders"].next) == set(end["orders"].next)
    assert sum(taken.values()) <= max(offsets_max, 0) + len(partitions)
    if backlog <= offsets_max:
        assert limited == end
    for number, (_, of) in enumerate(partitions):
        assert taken.get(number, 0) <= of
        if of and backlog > offsets_max:
            assert taken[number] == max(1, of * offsets_max // backlog)
