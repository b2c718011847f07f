"""The rows that go with what chains tell: leaders, starts and ends; what contradicts is refused."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.errors import Corrupt, Refused
from logstore.formats.chain_row import ChainRow, ChainStatus
from logstore.formats.chain_state import EpochKey
from logstore.formats.partition_row import EpochEntry, PartitionRow, StartReason
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_record import TopicRecord
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.protocol.rules.checks import WrittenRange
from logstore.restore.decisions.evidence import Evidence
from logstore.restore.decisions.plan import RegistryRows, plan_rows

CLUSTER_ID = bytes(range(16))
TOPIC_ID = b"t" * 16
KEY = TopicPartition(TOPIC_ID, 0)


def test_a_deleted_topic_of_an_old_copy_is_not_brought_back() -> None:
    chains = [evidence(1, {0: WrittenRange(0, 5, False)})]
    old = RegistryRows(topics={"orders": TopicRow(TOPIC_ID, TopicStatus.DELETED, 1, {})})

    planned = plan_rows(CLUSTER_ID, chains, old, {})

    assert planned.partitions == {}
    assert planned.topics == old.topics


def test_a_lost_topic_without_records_is_not_brought_back() -> None:
    planned = plan_rows(
        CLUSTER_ID, [evidence(1, {0: WrittenRange(0, 0, False)})], RegistryRows(), {}
    )

    assert (planned.topics, planned.partitions) == ({}, {})


def test_a_lost_topic_gets_the_name_that_is_given_also_when_it_is_empty() -> None:
    chains = [evidence(1, {0: WrittenRange(0, 0, False)})]

    planned = plan_rows(CLUSTER_ID, chains, RegistryRows(), {}, {TOPIC_ID: "orders"})

    assert {name: topic.topic_id for name, topic in planned.topics.items()} == {"orders": TOPIC_ID}
    other = RegistryRows(topics={"orders": TopicRow(b"o" * 16, TopicStatus.LIVE, 1, {})})
    with pytest.raises(Refused, match="of this name exists"):
        plan_rows(CLUSTER_ID, chains, other, {}, {TOPIC_ID: "orders"})


def test_an_empty_leadership_of_an_old_copy_stays_above_what_was_taken() -> None:
    row = PartitionRow(
        broker=1,
        chain=2,
        leader_epoch=1,
        log_start=2,
        start_reason=StartReason.RETENTION.to(2),
        epoch_ranges=(EpochEntry(0, 1, 0), EpochEntry(1, 2, 5)),
        replicas=(1, 4),
    )
    old = RegistryRows(
        partitions={KEY: row}, topics={"orders": TopicRow(TOPIC_ID, TopicStatus.LIVE, 1, {})}
    )
    chains = [evidence(1, {0: WrittenRange(0, 5, False)}), evidence(2, {})]

    assert plan_rows(CLUSTER_ID, chains, old, {}).partitions == {KEY: row}


def test_a_leadership_that_an_old_copy_gave_away_again_is_that_of_the_chain_that_took_it() -> None:
    """A broker was started on the copy before restore: it changed a row, and took nothing."""
    row = PartitionRow(
        broker=1,
        chain=3,
        leader_epoch=1,
        log_start=0,
        epoch_ranges=(EpochEntry(0, 1, 0), EpochEntry(1, 3, 5)),
        replicas=(1,),
    )
    old = RegistryRows(
        partitions={KEY: row}, topics={"orders": TopicRow(TOPIC_ID, TopicStatus.LIVE, 1, {})}
    )
    took = evidence(2, {1: WrittenRange(5, 9, False)})
    chains = [evidence(1, {0: WrittenRange(0, 5, False)}), took, evidence(3, {})]

    planned = plan_rows(CLUSTER_ID, chains, old, {}).partitions[KEY]

    assert planned.epoch_ranges == (EpochEntry(0, 1, 0), EpochEntry(1, 2, 5))
    assert (planned.chain, planned.leader_epoch) == (2, 1)


def test_a_torn_chain_is_whole_where_it_forgot_what_was_deleted() -> None:
    """An epoch range that it forgot after the trim point, and one whose records it says were
    deleted.
    """
    trimmed = evidence(1, {1: WrittenRange(5, 12, False)}, {0: 5, 1: 9})
    noted = replace(trimmed, torn="segments are missing", deleted_below={KEY: 9})
    records = {TOPIC_ID: [TopicRecord("orders", TopicRow(TOPIC_ID, TopicStatus.LIVE, 1, {}))]}

    planned = plan_rows(CLUSTER_ID, [noted], RegistryRows(), {}, None, records)

    assert planned.partitions[KEY].log_start == 9
    with pytest.raises(Corrupt, match="segments are missing"):
        plan_rows(
            CLUSTER_ID, [replace(noted, deleted_below={KEY: 8})], RegistryRows(), {}, None, records
        )


def test_two_leaders_of_one_leadership_are_an_alarm() -> None:
    with pytest.raises(Corrupt, match="two chains hold one leadership"):
        plan_rows(
            CLUSTER_ID,
            [
                evidence(1, {0: WrittenRange(0, 5, False)}),
                evidence(2, {0: WrittenRange(5, 6, False)}),
            ],
            RegistryRows(),
            {},
        )


def test_objects_older_than_the_registry_are_refused() -> None:
    old = RegistryRows(chains={2: ChainRow(broker=1, status=ChainStatus.OPEN)})
    with pytest.raises(Refused, match="older than the registry"):
        plan_rows(CLUSTER_ID, [evidence(1, {})], old, {})
    old = RegistryRows(
        chains={1: ChainRow(broker=1, status=ChainStatus.SEALED, seal=99, checkpoint=99)}
    )
    with pytest.raises(Refused, match="knows it up to 99"):
        plan_rows(CLUSTER_ID, [evidence(1, {})], old, {})


@pytest.mark.parametrize(("gone", "trim"), [(None, 0), ({0: 2}, 3)])
def test_a_trim_point_is_taken_back_where_its_segments_are_still_there(
    gone: dict[int, int] | None, trim: int
) -> None:
    """The row of the partition, which said that they may go, is lost: they count again."""
    inherited = {"cleanup.policy": "compact"}
    row = ChainRow(
        broker=1,
        status=ChainStatus.OPEN,
        trim=6,
        checkpoint=6,
        trim_ms=1,
        topic_defaults=inherited,
    )
    topics = {"orders": TopicRow(TOPIC_ID, TopicStatus.LIVE, 1, {})}
    old = RegistryRows(chains={1: row}, topics=topics)
    chains = [evidence(1, {0: WrittenRange(0, 5, False)}, gone)]

    planned = plan_rows(CLUSTER_ID, chains, old, {})

    assert planned.partitions[KEY].log_start == (2 if gone else 0)
    found = planned.chains[1]
    assert (found.trim, found.trim_ms, found.deleted) == (trim, 0, trim)
    assert found.topic_defaults == inherited


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(0, 10))
@settings(max_examples=100)
def test_a_row_lists_what_can_be_read_and_ends_with_the_newest(
    lengths: list[int], gone: int
) -> None:
    starts = [sum(lengths[:number]) for number in range(len(lengths))]
    chains = [
        evidence(
            number + 1,
            {number: WrittenRange(start, start + lengths[number], False)},
            gone={number: min(max(gone, start), start + lengths[number])},
        )
        for number, start in enumerate(starts)
    ]
    end = sum(lengths)

    planned = plan_rows(CLUSTER_ID, chains, RegistryRows(), {})

    gone = min(gone, end)
    if end <= gone:
        assert planned.partitions == {}
        return
    row = planned.partitions[KEY]
    assert row.log_start == gone
    assert row.chain == len(lengths)
    ends = [row.end_of(number) for number in range(len(row.epoch_ranges))]
    readable = [
        offset
        for ref, epoch_range_end in zip(row.epoch_ranges, ends, strict=True)
        for offset in range(ref.start, end if epoch_range_end is None else epoch_range_end)
    ]
    assert [offset for offset in readable if offset >= gone] == list(range(gone, end))


def evidence(
    epoch: int, epoch_ranges: dict[int, WrittenRange], gone: dict[int, int] | None = None
) -> Evidence:
    def keyed(values: dict[int, int]) -> dict[EpochKey, int]:
        return {EpochKey(TOPIC_ID, 0, number): value for number, value in values.items()}

    return Evidence(
        epoch=epoch,
        broker=1,
        end=9,
        is_sealed=True,
        checkpoint=9,
        trim=3 if gone else 0,
        epoch_ranges={EpochKey(TOPIC_ID, 0, n): extent for n, extent in epoch_ranges.items()},
        gone=keyed(gone or {}),
    )
