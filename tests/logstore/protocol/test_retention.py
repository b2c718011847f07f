"""Where a log is to start: never above what is young or small enough to stay, never for nothing."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.history.snapshot import DataFile
from logstore.protocol.retention import Ledger, Part, Policy, parts_of_files

NOW_MS = 1_000_000
DEFAULTS = {"cleanup.policy": "delete", "retention.ms": "1000", "retention.bytes": "-1"}
BY_TIME = Policy(1000, -1)
BY_SIZE = Policy(-1, 1000)


def batches(*timestamps: int, byte_count: int = 10) -> list[Part]:
    """One record each, from offset 0 on."""
    return [Part(end, byte_count, time) for end, time in enumerate(timestamps, 1)]


def start(parts: Sequence[Part], policy: Policy, now_ms: int = NOW_MS) -> int:
    ledger = Ledger(0)
    ledger.take(parts, policy)
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
        ((-1, OLD, -1, YOUNG), 2),
        ((OLD, -1, OLD, -1), 3),
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
    ledger.take(batches(OLD, YOUNG)[:2], BY_TIME)
    assert ledger.decide(BY_TIME, NOW_MS, 0) == 1
    assert not ledger.wants_more(BY_TIME, NOW_MS, 3)
    assert ledger.wants_more(BY_TIME, NOW_MS + 1, 3)
    assert not ledger.wants_more(BY_TIME, NOW_MS + 1, 2), "all of it is known"
    assert ledger.wants_more(Policy(1000, 99), NOW_MS, 3), "its size is wanted from now on"


def test_a_log_start_raised_by_others_is_taken_over() -> None:
    ledger = Ledger(0)
    ledger.take(batches(*[NOW_MS] * 10), Policy(-1, 55))
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
        Part(10, 100, OLD),
        Part(15, 100, YOUNG),
        Part(25, 100, -1),
    ]


TIMES = st.lists(st.integers(-1, 3000), max_size=60)


@given(TIMES, st.integers(-1, 4000), st.integers(-1, 700), st.integers(1, 20))
def test_what_goes_may_go_and_what_stays_must_but_for_a_step(
    timestamps: list[int], keep_ms: int, keep_bytes: int, per_read: int
) -> None:
    policy = Policy(keep_ms, keep_bytes)
    parts, ledger = batches(*timestamps), Ledger(0)
    now_ms = 3000
    while ledger.wants_more(policy, now_ms, len(parts)):
        ledger.take(parts[ledger.at : ledger.at + per_read], policy)
    found = ledger.decide(policy, now_ms, 0)
    gone, left = timestamps[:found], timestamps[found:]

    cutoff_ms = now_ms - keep_ms
    surplus = max(0, len(parts) - -(-keep_bytes // 10)) if keep_bytes >= 0 else 0
    assert all(keep_ms >= 0 and time < cutoff_ms for time in gone[surplus:])
    if keep_bytes >= 0:
        assert 10 * (len(left) - 1) <= keep_bytes + keep_bytes // 100
    if keep_ms >= 0 and left:
        assert left[0] >= cutoff_ms - keep_ms // 100 or left[0] < 0 or max(left) < 0


@given(TIMES, TIMES)
def test_it_only_goes_up(first: list[int], then: list[int]) -> None:
    ledger, policy = Ledger(0), Policy(1000, 50)
    ledger.take(batches(*first), policy)
    before = ledger.decide(policy, 3000, 0)
    ledger.take([part._replace(end=part.end + len(first)) for part in batches(*then)], policy)
    assert before <= ledger.decide(policy, 2000, before) <= ledger.at
