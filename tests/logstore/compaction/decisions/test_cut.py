"""What a run moves: from the table's end, never below log start, when it is due."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.compaction.decisions.cut import (
    AT_ONCE_BYTES,
    BUSY_BYTES,
    TableTopic,
    Waiting,
    is_due,
    limited,
    loads_of,
    oldest_until,
    rest_of,
    rounds_of,
    seqs_needed,
    waiting_of,
)
from logstore.errors import Refused
from logstore.formats.offset_range import OffsetRange
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import Snapshot

ID = bytes(range(16))
TOPIC = TableTopic.of("orders", ID, {})


@dataclass
class View:
    log_start: int
    end: int


def key(partition: int) -> TopicPartition:
    return TopicPartition(ID, partition)


def snapshot(**ends: int) -> Snapshot:
    return Snapshot(ID, 3, {int(name[1:]): end for name, end in ends.items()})


def segments(partition: int, chain: int, first: int, last: int, offsets: int) -> SegmentRange:
    return SegmentRange(
        OffsetRange(TopicPartition(ID, partition), 0, offsets), 0, chain, first, last
    )


def test_a_range_starts_where_the_table_ends() -> None:
    views = {key(0): View(0, 50), key(1): View(0, 30), key(2): View(5, 9)}

    found = waiting_of(TOPIC, snapshot(p0=20, p1=30), views)

    assert found == [Waiting(key(0), 20, 20, 50), Waiting(key(2), None, 5, 9)]
    assert [one.commit_start for one in found] == [20, 5]


def test_a_log_start_above_the_tables_end_moves_the_start_but_not_what_the_commit_names() -> None:
    (found,) = waiting_of(TOPIC, snapshot(p0=20), {key(0): View(35, 50)})

    assert (found.start, found.commit_start) == (35, 20)


@pytest.mark.parametrize("views", [{key(0): View(0, 19)}, {}, {key(1): View(0, 90)}])
def test_a_table_beyond_the_log_is_an_alarm(views: dict[TopicPartition, View]) -> None:
    with pytest.raises(Refused, match="logstore restore"):
        waiting_of(TOPIC, snapshot(p0=20), views)


@pytest.mark.parametrize(
    ("size_bytes", "age_ms", "expected"),
    [
        (AT_ONCE_BYTES, 0, True),
        (AT_ONCE_BYTES - 1, 59_999, False),
        (BUSY_BYTES, 60_001, True),
        (BUSY_BYTES - 1, 60_001, False),
        (BUSY_BYTES - 1, 600_001, True),
        (0, 600_001, True),
    ],
)
def test_due_by_size_or_by_age(size_bytes: int, age_ms: int, expected: bool) -> None:
    assert is_due(size_bytes, 60_000, lambda limit_ms: age_ms > limit_ms) is expected


def test_settings_come_from_the_topic() -> None:
    configs = {"logstore.table.enable": "false", "logstore.table.freshness.ms": "5"}

    assert TableTopic.of("a", ID, configs) == TableTopic(ID, "a", False, 5, "drop")
    assert TableTopic(ID, "orders", True, 60_000, "drop") == TOPIC
    assert TableTopic.of("__consumer_offsets", ID, {}).is_internal


def test_a_partition_weighs_its_share_of_the_segments_it_shares() -> None:
    segment_ranges = {key(0): [segments(0, 1, 4, 9, 300)], key(1): [segments(1, 1, 5, 9, 100)]}

    loads = loads_of(segment_ranges, {1: 4000})

    assert {place.partition: load for place, load in loads.items()} == {
        0: (3000, (1, 4)),
        1: (1000, (1, 5)),
    }
    assert seqs_needed(segment_ranges) == {1: [range(4, 10)]}


def test_seqs_of_pieces_far_apart_are_not_joined() -> None:
    segment_ranges = {
        key(0): [segments(0, 1, 4, 5, 1), segments(0, 2, 1, 1, 1)],
        key(1): [segments(1, 1, 8, 9, 1)],
    }

    assert seqs_needed(segment_ranges) == {1: [range(4, 6), range(8, 10)], 2: [range(1, 2)]}


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(-5, 60))
def test_ages_are_found_with_few_questions(steps: list[int], until_ms: int) -> None:
    times = sorted(steps)
    asked: list[int] = []

    def written_ms(seq: int) -> int:
        asked.append(seq)
        return times[seq]

    count = oldest_until(range(len(times)), written_ms, until_ms)

    assert count == sum(time <= until_ms for time in times)
    assert len(asked) <= 6


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=10), st.integers(1, 50))
def test_rounds_move_everything_in_the_end(sizes: list[int], rounds: int) -> None:
    left = {n: Waiting(key(n), None, 0, size) for n, size in enumerate(sizes)}
    for number in range(rounds):
        done = limited(list(left.values()), rounds - number)
        assert all(one.start < one.end for one in done)
        for one in done:
            wanted = left.pop(one.key.partition)
            now = Waiting(one.key, one.end, one.end, 2 * wanted.end)
            rest = rest_of(wanted, now)
            if rest is not None:
                assert rest.end == wanted.end
                left[one.key.partition] = rest
    assert not left


def test_little_is_moved_in_one_round() -> None:
    assert rounds_of(0) == rounds_of(1 << 30) == 1
    assert rounds_of(100 << 30) == 4
