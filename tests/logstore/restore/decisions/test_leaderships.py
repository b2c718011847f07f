"""Chains that contradict each other: what was acknowledged counts, and a person is asked at most
where two of them hold records.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt
from logstore.formats.chain_state import EpochKey
from logstore.formats.partition_row import EpochEntry, PartitionRow
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.history.forms.snapshot import Snapshot
from logstore.protocol.rules.checks import WrittenRange, take_problem
from logstore.restore.decisions.leaderships import Contradiction, Lead, settle
from logstore.restore.decisions.missing import MissingObjects
from logstore.restore.decisions.plan import RegistryRows, plan_rows
from tests.logstore.restore.decisions.test_plan import CLUSTER_ID, KEY, TOPIC_ID, evidence


def lead(leader_epoch: int, chain: int, start: int, end: int) -> Lead:
    return Lead(leader_epoch, chain, WrittenRange(start, end, False), start)


BEFORE, AFTER = lead(0, 1, 0, 5), lead(1, 2, 5, 9)
LIVE = {"orders": TopicRow(TOPIC_ID, TopicStatus.LIVE, 1, {})}


def test_a_leadership_given_away_again_that_holds_nothing_is_left_out() -> None:
    again = lead(1, 3, 5, 5)

    settled = settle("p", [again, BEFORE, AFTER], ())

    assert settled.kept == [BEFORE, AFTER]
    assert settled.left_out == [again]


def test_the_one_that_holds_records_counts_although_its_chain_is_younger() -> None:
    empty, again = lead(1, 2, 5, 5), lead(1, 3, 5, 8)

    settled = settle("p", [BEFORE, empty, again], ())

    assert settled.kept == [BEFORE, again]
    assert settled.left_out == [empty]


def test_of_two_that_hold_nothing_the_older_chain_counts() -> None:
    first, second = lead(1, 2, 5, 5), lead(1, 3, 5, 5)

    assert settle("p", [BEFORE, second, first], ()).kept == [BEFORE, first]


def test_a_later_leadership_that_holds_nothing_and_begins_too_low_is_left_out() -> None:
    """The old copy knew the partition up to offset 5, and gave its leadership away twice."""
    settled = settle("p", [BEFORE, AFTER, lead(1, 3, 5, 5), lead(2, 4, 5, 5)], ())

    assert settled.kept == [BEFORE, AFTER]
    assert [one.chain for one in settled.left_out] == [3, 4]


@pytest.mark.parametrize("again", [lead(1, 3, 5, 8), lead(2, 3, 5, 8)])
def test_where_both_hold_records_the_error_says_what_to_do(again: Lead) -> None:
    with pytest.raises(Contradiction, match="--leave-out 3") as error:
        settle("p", [BEFORE, AFTER, again], ())
    assert "[5, 9) in chain 2 and [5, 8) in chain 3" in str(error.value)

    kept = settle("p", [BEFORE, AFTER, again], [3])
    assert (kept.kept, kept.left_out) == ([BEFORE, AFTER], [again])
    other = settle("p", [BEFORE, AFTER, again], [2])
    assert (other.kept, other.left_out) == ([BEFORE, again], [AFTER])


def test_what_goes_on_from_a_chain_that_is_left_out_is_left_out_too() -> None:
    again, on = lead(1, 3, 5, 12), lead(2, 4, 12, 12)

    assert settle("p", [BEFORE, AFTER, again, on], [3]).kept == [BEFORE, AFTER]


def test_a_hole_is_believed_as_far_as_chains_say_that_records_were_deleted() -> None:
    later = lead(2, 4, 9, 12)

    settled = settle("p", [BEFORE, later], (), noted={2: 9, 3: 4})
    assert (settled.kept, settled.log_start) == ([BEFORE, later], 9)
    with pytest.raises(MissingObjects, match="epoch ranges do not meet"):
        settle("p", [BEFORE, later], (), noted={2: 8})


def test_a_chain_that_is_left_out_is_not_believed_about_holes() -> None:
    """It was at work on another history, whose log start was raised."""
    again, on = lead(0, 3, 0, 6), lead(2, 4, 9, 12)

    with pytest.raises(MissingObjects):
        settle("p", [BEFORE, again, on], [3], noted={3: 9})
    assert settle("p", [BEFORE, again, on], [3], noted={2: 9}).kept == [BEFORE, on]


def test_a_chain_is_left_out_only_where_it_contradicts_another() -> None:
    assert settle("p", [BEFORE, AFTER], [2]).kept == [BEFORE, AFTER]
    with pytest.raises(Contradiction):
        settle("p", [lead(0, 1, 0, 5), lead(0, 2, 0, 4)], [1, 2])


def test_a_hole_is_not_a_contradiction() -> None:
    with pytest.raises(MissingObjects, match="do not meet"):
        settle("p", [BEFORE, lead(1, 2, 7, 9)], ())
    with pytest.raises(MissingObjects, match="do not meet"):
        settle("p", [BEFORE, lead(1, 2, 7, 7)], [2])


def test_a_hole_that_the_table_holds_is_none() -> None:
    later = lead(1, 2, 7, 9)

    settled = settle("p", [BEFORE, later], (), table_end=7)

    assert settled.kept == [BEFORE, later]
    assert (settled.log_start, settled.listed_from) == (0, 7)
    with pytest.raises(MissingObjects, match="do not meet"):
        settle("p", [BEFORE, later], (), table_end=6)


def test_holes_called_deleted_raise_log_start_above_what_no_table_holds() -> None:
    leads = [BEFORE, lead(1, 2, 7, 9), lead(2, 3, 12, 15)]

    settled = settle("p", leads, (), table_end=7, holes_deleted=True)
    assert (settled.log_start, settled.listed_from) == (12, 12)
    settled = settle("p", leads, (), table_end=12, holes_deleted=True)
    assert (settled.log_start, settled.listed_from) == (0, 12)


@pytest.mark.parametrize("holes_deleted", [False, True])
def test_what_the_table_holds_of_a_hole_stays_readable(holes_deleted: bool) -> None:
    """Log start above the table's rows would have retention delete them."""
    snapshots = {TOPIC_ID: Snapshot(TOPIC_ID, 3, {0: 7})}
    two = [evidence(1, {0: WrittenRange(0, 5, False)}), evidence(2, {1: WrittenRange(7, 9, False)})]

    planned = plan_rows(
        CLUSTER_ID, two, RegistryRows(topics=LIVE), snapshots, holes_deleted=holes_deleted
    ).partitions[KEY]

    assert planned.log_start == 0
    assert planned.epoch_ranges[0] == EpochEntry(1, 2, 7)
    assert planned.edited_end == 7


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=6), st.data())
def test_all_records_of_one_history_count_whatever_an_old_copy_gave_away(
    lengths: list[tuple[int, int]], data: st.DataObject
) -> None:
    """True leaderships of any length, and takeovers on a copy of any moment that wrote nothing."""
    history, end = [lead(0, 1, 0, 3)], 3
    for number, (length, _) in enumerate(lengths, 1):
        history.append(lead(number, number + 1, end, end + length))
        end += length
    copied = data.draw(st.sampled_from(history))
    again = [
        lead(copied.leader_epoch + 1 + more, 100 + more, copied.extent.end, copied.extent.end)
        for more in range(data.draw(st.integers(0, 3)))
    ]

    kept = settle("p", [*again, *history], ()).kept

    assert [one for one in kept if one.has_records] == [one for one in history if one.has_records]
    assert len({one.leader_epoch for one in kept}) == len(kept)


def given_away_twice() -> RegistryRows:
    """The old row names the chain that was given a leadership that chain 2 holds."""
    refs = (EpochEntry(0, 1, 0), EpochEntry(1, 3, 5), EpochEntry(2, 3, 5))
    row = PartitionRow(
        broker=1, chain=3, leader_epoch=2, log_start=0, epoch_ranges=refs, replicas=(1,)
    )
    return RegistryRows(partitions={KEY: row}, topics=LIVE)


def chains() -> list:  # type: ignore[type-arg]
    return [
        evidence(1, {0: WrittenRange(0, 5, False)}),
        evidence(2, {1: WrittenRange(5, 9, False)}),
        evidence(3, {1: WrittenRange(5, 5, True), 2: WrittenRange(5, 5, False)}),
    ]


def test_the_next_leadership_is_above_those_that_are_left_out() -> None:
    """A takeover of chain 3 as leader epoch 2 would begin at offset 5, where that one ends."""
    planned = plan_rows(CLUSTER_ID, chains(), given_away_twice(), {})

    row = planned.partitions[KEY]
    assert row.epoch_ranges == (EpochEntry(0, 1, 0), EpochEntry(1, 2, 5), EpochEntry(3, 3, 9))
    assert (row.chain, row.leader_epoch) == (3, 3)
    assert [(one.leader_epoch, one.chain) for one in planned.left_out] == [(1, 3), (2, 3)]


def test_restoring_twice_is_restoring_once() -> None:
    planned = plan_rows(CLUSTER_ID, chains(), given_away_twice(), {})

    assert plan_rows(CLUSTER_ID, chains(), planned, {}).partitions == planned.partitions


def test_what_is_left_out_and_holds_nothing_is_no_evidence_of_an_old_registry() -> None:
    row = plan_rows(CLUSTER_ID, chains(), given_away_twice(), {}).partitions[KEY]
    for chain in chains():
        for key, extent in chain.epoch_ranges.items():
            assert take_problem(key, extent, chain.epoch, row) is None
    again = EpochKey(TOPIC_ID, 0, 1)
    assert take_problem(again, WrittenRange(5, 6, False), 3, row) is not None


def test_a_deleted_topic_may_contradict_itself() -> None:
    twice = [
        evidence(1, {0: WrittenRange(0, 5, False)}),
        evidence(2, {0: WrittenRange(0, 4, False)}),
    ]
    old = RegistryRows(topics={"orders": TopicRow(TOPIC_ID, TopicStatus.DELETED, 1, {})})

    assert plan_rows(CLUSTER_ID, twice, old, {}).partitions == {}
    with pytest.raises(Corrupt, match="--leave-out 2"):
        plan_rows(CLUSTER_ID, twice, RegistryRows(topics=LIVE), {})
    planned = plan_rows(CLUSTER_ID, twice, RegistryRows(topics=LIVE), {}, chains_left_out=[2])
    assert planned.partitions[KEY].epoch_ranges[0] == EpochEntry(0, 1, 0)
    assert planned.partitions[KEY].end_of(0) == 5
