"""The bytes of a partition: exact between groups, shared out inside one, and bounded in memory."""

from hypothesis import given
from hypothesis import strategies as st

from logstore.protocol.partitions.partition_size import GROUPS_MAX, STEPS, SizeLedger
from logstore.protocol.rules.retention import Part

BATCHES = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 1000)), max_size=300)


def filled(batches: list[tuple[int, int]], start: int = 0) -> SizeLedger:
    ledger = SizeLedger(start)
    for count, byte_count in batches:
        ledger.add(Part(ledger.at + count, byte_count, -1))
    return ledger


def test_records_below_a_start_do_not_count() -> None:
    ledger = filled([(10, 100), (10, 300), (10, 50)])

    assert ledger.bytes_from(0) == 450
    assert ledger.bytes_from(10) == 350
    assert ledger.bytes_from(15) == 200
    assert ledger.bytes_from(30) == 0
    assert ledger.at == 30


def test_what_is_passed_over_counts_nothing() -> None:
    ledger = filled([(10, 100)])
    ledger.skip_to(50)
    ledger.skip_to(20)
    ledger.add(Part(60, 7, -1))
    ledger.add(Part(55, 7, -1))

    assert (ledger.at, ledger.bytes_from(0)) == (60, 107)
    assert ledger.bytes_from(10) == 7


@given(BATCHES, st.integers(0, 3000))
def test_it_is_as_exact_as_its_groups(batches: list[tuple[int, int]], offset: int) -> None:
    total = sum(byte_count for _, byte_count in batches)
    exact = at = 0
    for count, byte_count in batches:
        at += count
        exact += byte_count if at > offset else 0
    group = total // STEPS + max((byte_count for _, byte_count in batches), default=0)

    assert filled(batches).bytes_from(0) == total
    assert abs(filled(batches).bytes_from(offset) - exact) <= group
    assert filled(batches).bytes_from(at) == 0


def test_a_long_log_takes_little_memory() -> None:
    ledger = filled([(1, 3)] * 20_000)

    assert abs(ledger.bytes_from(5_000) - 45_000) <= 60_000 // STEPS
    assert len(ledger._ends) <= GROUPS_MAX
