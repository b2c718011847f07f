"""Where a log is to start: never above what is young or small enough to stay, never for nothing."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.history.forms.snapshot import DataFile
from logstore.protocol.rules.retention import (
    Ledger,
    Part,
    PartObjects,
    Policy,
    files_of,
    parts_of_files,
)

NOW_MS = 1_000_000
DEFAULTS = {"cleanup.policy": "delete", "retention.ms": "1000", "retention.bytes": "-1"}
BY_TIME = Policy(1000, -1)
BY_SIZE = Policy(-1, 1000)


def batches(*timestamps: int, byte_count: int = 10) -> list[Part]:
    """One record each, from offset 0 on."""
    return [Part(end, byte_count, time) for end, time in enumerate(timestamps, 1)]


SEGMENTS = PartObjects(str, per_group=3)


def start(parts: Sequence[Part], policy: Policy, now_ms: int = NOW_MS) -> int:
    ledger = Ledger(0)
    ledger.take(parts, policy, SEGMENTS)
    return ledger.decide(policy, now_ms, 0)


OLD, YOUNG, FUTURE = NOW_MS - 1011, NOW_MS - 1000, NOW_MS + 5000


@pytest.mark.parametrize(
    ("timestamps", "expected"),
    [
        ((), 0),
        ((OLD, OLD, YOUNG), 2),
        ((OLD, OLD), 2),
        ((YOUNG, OLD, OLD), 0),
        ((OLD, FUTURE, OLD, OLD), 1),
        ((-1, -1), 0),
        ((-1, OLD, -1, YOUNG), 0),
        ((OLD, -1, OLD, -1), 1),
    ],
)
def test_what_is_older_than_the_first_young_batch_goes(
    timestamps: Sequence[int], expected: int
) -> None:
    assert start(batches(*timestamps), BY_TIME) == expected


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((), 0), ((500, 500), 0), ((500, 500, 1), 0), ((1, 500, 500), 1), ((9, 9, 2000, 999), 2)],
)
def test_the_oldest_go_as_long_as_what_is_left_is_enough(
    sizes: Sequence[int], expected: int
) -> None:
    parts = [Part(end, size, NOW_MS) for end, size in enumerate(sizes, 1)]
    assert start(parts, BY_SIZE) == expected


def test_nothing_goes_where_everything_is_kept() -> None:
    assert Policy.of({}, {**DEFAULTS, "retention.ms": "-1"}) is None
    assert Policy.of({"cleanup.policy": "compact"}, DEFAULTS) is None
    assert Policy.of({"cleanup.policy": "compact,delete"}, DEFAULTS) == BY_TIME
    assert Policy.of({"retention.bytes": "5"}, DEFAULTS) == Policy(1000, 5)
    assert start(batches(0, 0, 0), BY_SIZE) == 0


def test_without_news_nothing_is_read() -> None:
    ledger = Ledger(0)
    assert ledger.wants_more(BY_TIME, NOW_MS, 3)
    ledger.take(batches(OLD, YOUNG)[:2], BY_TIME, SEGMENTS)
    assert ledger.decide(BY_TIME, NOW_MS, 0) == 1
    assert not ledger.wants_more(BY_TIME, NOW_MS, 3)
    assert ledger.wants_more(BY_TIME, NOW_MS + 1, 3)
    assert not ledger.wants_more(BY_TIME, NOW_MS + 1, 2), "all of it is known"
    assert ledger.wants_more(Policy(1000, 99), NOW_MS, 3), "its size is wanted from now on"


def test_a_log_start_raised_by_others_is_taken_over() -> None:
    ledger = Ledger(0)
    ledger.take(batches(*[NOW_MS] * 10), Policy(-1, 55), SEGMENTS)
    assert ledger.decide(Policy(-1, 55), NOW_MS, 3) == 4
    assert ledger.decide(Policy(-1, 55), NOW_MS, 20) == 20
    assert ledger.at == 20


def test_a_table_counts_by_its_files() -> None:
    files = [
        DataFile("a", 0, 5, 100, 0, 8, 1, OLD),
        DataFile("b", 0, 5, 100, 10, 14, 1, YOUNG),
        DataFile("c", 0, 5, 100, 15, 19, None, None),
    ]
    assert list(parts_of_files(files, 25)) == [
        Part(10, 100, OLD, 0),
        Part(15, 100, YOUNG, 1),
        Part(25, 100, -1, 2),
    ]
    assert files_of(files, "table/{}".format).key_of(2) == "table/c"


def undated(*seqs: int) -> list[Part]:
    """One record without a timestamp in each of these segments, from offset 0 on."""
    return [Part(end, 10, -1, seq) for end, seq in enumerate(seqs, 1)]


def test_records_without_a_timestamp_go_by_when_their_segment_was_written() -> None:
    ledger = Ledger(0)
    ledger.take(undated(5, 6, 6, 8), BY_TIME, SEGMENTS)
    assert ledger.decide(BY_TIME, NOW_MS, 0) == 0, "its age is not known"
    assert ledger.undated(BY_TIME, NOW_MS) == "6", "three segments in a row are asked as one"
    ledger.date("6", OLD)
    assert ledger.decide(BY_TIME, NOW_MS, 0) == 3
    assert ledger.undated(BY_TIME, NOW_MS) == "8"
    ledger.date("8", YOUNG)
    assert ledger.undated(BY_TIME, NOW_MS) is None
    assert not ledger.wants_more(BY_TIME, NOW_MS, 99), "it is young: nothing behind it may go"
    assert ledger.decide(BY_TIME, NOW_MS + 1, 3) == 4


def test_no_age_is_asked_behind_what_is_young() -> None:
    ledger = Ledger(0)
    ledger.take([*batches(YOUNG), Part(2, 10, -1, 7)], BY_TIME, SEGMENTS)
    assert ledger.undated(BY_TIME, NOW_MS) is None
    assert ledger.undated(BY_TIME, NOW_MS + 1) == "7"
    assert ledger.undated(BY_SIZE, NOW_MS) is None


def test_segments_of_two_chains_are_never_dated_as_one() -> None:
    ledger = Ledger(0)
    ledger.take(undated(5), BY_TIME, PartObjects("old/{}".format, per_group=3))
    ledger.take([Part(2, 10, -1, 6)], BY_TIME, PartObjects("new/{}".format, per_group=3))
    assert ledger.undated(BY_TIME, NOW_MS) == "old/5"
    ledger.date("old/5", OLD)
    assert ledger.undated(BY_TIME, NOW_MS) == "new/6"


TIMES = st.lists(st.integers(-1, 3000), max_size=60)


@given(TIMES, st.integers(-1, 4000), st.integers(-1, 700), st.integers(1, 20))
def test_what_goes_may_go_and_what_stays_must_but_for_a_step(
    timestamps: list[int], keep_ms: int, keep_bytes: int, per_read: int
) -> None:
    policy = Policy(keep_ms, keep_bytes)
    parts, ledger = batches(*timestamps), Ledger(0)
    now_ms = 3000
    while ledger.wants_more(policy, now_ms, len(parts)):
        ledger.take(parts[ledger.at : ledger.at + per_read], policy, SEGMENTS)
    found = ledger.decide(policy, now_ms, 0)
    gone, left = timestamps[:found], timestamps[found:]

    cutoff_ms = now_ms - keep_ms
    surplus = max(0, len(parts) - -(-keep_bytes // 10)) if keep_bytes >= 0 else 0
    assert all(keep_ms >= 0 and time < cutoff_ms for time in gone[surplus:])
    if keep_bytes >= 0:
        assert 10 * (len(left) - 1) <= keep_bytes + keep_bytes // 100
    if keep_ms >= 0 and left:
        assert left[0] >= cutoff_ms - keep_ms // 100 or left[0] < 0


@given(TIMES, TIMES)
def test_it_only_goes_up(first: list[int], then: list[int]) -> None:
    ledger, policy = Ledger(0), Policy(1000, 50)
    ledger.take(batches(*first), policy, SEGMENTS)
    before = ledger.decide(policy, 3000, 0)
    later = [part._replace(end=part.end + len(first)) for part in batches(*then)]
    ledger.take(later, policy, SEGMENTS)
    assert before <= ledger.decide(policy, 2000, before) <= ledger.at
