"""Taking a chain over (safety rule 4): rows are read while the chain is sealed, and may change."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from logstore.errors import Refused
from logstore.formats.chain_row import ChainStatus
from logstore.formats.checkpoint import encode_checkpoint
from logstore.formats.keys import checkpoint_key
from logstore.formats.partition_row import EpochEntry, PartitionRow, partition_pk, partition_sk
from logstore.formats.topic_record import TopicRecord, encode_record
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.objects import Buffer
from logstore.protocol.leading.takeover import PartlyTaken, RecoveredPartition, Successor, take_over
from logstore.protocol.rows.metadata import read_partition_row
from logstore.runners.step_runner import StepRunner
from logstore.testing.virtual_loop import VirtualClock, run
from tests.golden.samples import CLUSTER_ID, EPOCH, TOPIC_ID
from tests.logstore.protocol.built import BuiltChain, open_chain_row

SUCCESSOR, OTHER = Successor(2, 90), Successor(3, 91)
ROW = PartitionRow.new(7, EPOCH)


class SlowStore(MemoryStore):
    """Rows have been read when the first put arrives, and something is done just before it."""

    def __init__(self, objects: MemoryObjects, meddle: Callable[[], None]) -> None:
        super().__init__(objects)
        self._meddle = [meddle]

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        await VirtualClock().sleep_s(1.0)
        if self._meddle:
            self._meddle.pop()()
        await super().create(key, parts)


def opened() -> BuiltChain:
    chain = BuiltChain()
    chain.register(open_chain_row())
    chain.add_opening()
    return chain


def put_row(chain: BuiltChain, row: PartitionRow) -> None:
    chain.set_row(partition_pk(TOPIC_ID, 0), partition_sk(TOPIC_ID, 0), row.row())


def put_topic(chain: BuiltChain) -> None:
    chain.set_row(TOPIC, "orders", TopicRow(TOPIC_ID, TopicStatus.LIVE, 1, {}).row())


def row_of(chain: BuiltChain) -> PartitionRow | None:
    return run(chain.runner.run(read_partition_row(TOPIC_ID, 0)))


def taken(chain: BuiltChain, meddle: Callable[[], None] = lambda: None) -> list[RecoveredPartition]:
    usual = chain.runner
    store = SlowStore(chain.objects, meddle)
    runner = StepRunner(store, usual.registry, usual.clock, usual.rng, usual.draw_nonce)
    return run(runner.run(take_over(CLUSTER_ID, EPOCH, 9, lambda *_: SUCCESSOR)))


def test_what_came_while_it_was_sealed_is_inherited_and_summed_up() -> None:
    chain = opened()
    put_row(chain, ROW)
    put_topic(chain)
    chain.add_take()
    chain.add_batches(3)
    (one,) = taken(chain, lambda: chain.add_batches(4))

    assert one.row == row_of(chain) == ROW.taken_by(broker=2, chain=90, start=7)
    row = chain.chain_row()
    assert (row.status, row.seal, row.checkpoint) == (ChainStatus.SEALED, 4, 4)
    checkpoint = chain.objects.get(checkpoint_key(EPOCH, 4))
    assert checkpoint == encode_checkpoint(chain.replay())


def test_a_row_that_has_another_leader_by_the_time_of_the_seal_is_left_to_it() -> None:
    chain = opened()
    put_row(chain, ROW)
    moved = ROW.taken_by(broker=OTHER.broker, chain=OTHER.chain, start=0)

    assert not taken(chain, lambda: put_row(chain, moved))
    assert row_of(chain) == moved
    assert chain.chain_row().status is ChainStatus.SEALED


def test_an_heir_gets_the_log_start_that_was_raised_while_the_chain_was_sealed() -> None:
    chain = opened()
    put_row(chain, ROW)
    put_topic(chain)
    chain.add_take()
    chain.add_batches(3)
    (one,) = taken(chain, lambda: put_row(chain, replace(ROW, log_start=2)))

    assert one.row == row_of(chain)
    assert one.row.log_start == 2


def test_a_row_that_comes_to_name_the_chain_is_taken_by_the_next_takeover() -> None:
    chain = opened()

    assert not taken(chain, lambda: put_row(chain, ROW))
    assert chain.chain_row().status is ChainStatus.SEALED
    (one,) = taken(chain)
    assert one.row == row_of(chain) == ROW.taken_by(broker=2, chain=90, start=0)


def test_a_partition_made_after_the_rows_were_read_does_not_make_the_registry_old() -> None:
    chain = opened()

    def create() -> None:
        put_row(chain, ROW)
        put_topic(chain)
        chain.add_take()
        chain.add_batches(5)

    (one,) = taken(chain, create)
    assert one.row == row_of(chain) == ROW.taken_by(broker=2, chain=90, start=5)


def test_a_chain_that_led_what_the_registry_does_not_know_stops_it_before_any_row_changes() -> None:
    chain = opened()
    put_topic(chain)
    chain.add_take()

    with pytest.raises(Refused, match="which the registry does not know"):
        taken(chain)
    assert chain.chain_row().status is ChainStatus.FENCED


def put_record(chain: BuiltChain, status: TopicStatus, version: int) -> None:
    record = TopicRecord("orders", TopicRow(TOPIC_ID, status, 1, {}, 1, version))
    chain.objects.create(record.key, [encode_record(record)])


@pytest.mark.parametrize("with_row", [False, True])
def test_a_topic_that_was_led_and_has_no_row_is_not_taken_for_deleted(with_row: bool) -> None:
    """A registry put back from a copy that is older than the topic, or that lacks its row."""
    chain = opened()
    put_record(chain, TopicStatus.LIVE, 1)
    if with_row:
        put_row(chain, ROW)
    chain.add_take()
    chain.add_batches(3)

    with pytest.raises(Refused, match="which the registry does not know"):
        taken(chain)
    assert row_of(chain) == (ROW if with_row else None)
    assert chain.chain_row().status is ChainStatus.FENCED


@pytest.mark.parametrize("versions", [(1, 2), (1, 2, 3)], ids=["newest", "before a late change"])
def test_a_topic_whose_deletion_is_recorded_needs_no_row(versions: tuple[int, ...]) -> None:
    chain = opened()
    for version in versions:
        is_deletion = version == 2
        put_record(chain, TopicStatus.DELETED if is_deletion else TopicStatus.LIVE, version)
    chain.add_take()
    chain.add_batches(3)

    assert taken(chain) == []
    assert chain.chain_row().status is ChainStatus.SEALED


@pytest.mark.parametrize("with_partitions", [False, True])
def test_a_live_row_that_landed_after_the_deletion_is_known_by_its_lack_of_partitions(
    with_partitions: bool,
) -> None:
    """A late put of a creation, into a registry put back from a copy of the deletion's moment.

    With rows of its partitions it may be a registry that is older than the deletion.
    """
    chain = opened()
    put_record(chain, TopicStatus.LIVE, 1)
    put_record(chain, TopicStatus.DELETED, 2)
    put_topic(chain)
    chain.add_take()
    if not with_partitions:
        assert taken(chain) == []
        assert chain.chain_row().status is ChainStatus.SEALED
        return
    chain.set_row(partition_pk(TOPIC_ID, 1), partition_sk(TOPIC_ID, 1), ROW.row())
    with pytest.raises(Refused, match="which the registry does not know"):
        taken(chain)


@pytest.mark.parametrize("status", [TopicStatus.DELETING, TopicStatus.DELETED])
def test_a_topic_whose_row_says_that_it_is_deleted_needs_no_record(status: TopicStatus) -> None:
    chain = opened()
    chain.set_row(TOPIC, "orders", TopicRow(TOPIC_ID, status, 1, {}).row())
    chain.add_take()

    assert taken(chain) == []
    assert chain.chain_row().status is ChainStatus.SEALED


def test_a_partition_that_cannot_be_taken_keeps_none_from_the_others() -> None:
    """Its row names an earlier epoch range in a chain that the registry does not know."""
    chain = opened()
    put_topic(chain)
    chain.add_take()
    chain.add_batches(3)
    put_row(chain, ROW)
    lost = replace(
        ROW,
        leader_epoch=2,
        epoch_ranges=(EpochEntry(1, 77, 0), EpochEntry(2, EPOCH, 5)),
    )
    key = partition_pk(TOPIC_ID, 1), partition_sk(TOPIC_ID, 1)
    chain.set_row(*key, lost.row())
    with pytest.raises(PartlyTaken, match="failures=1 first: the registry has no row of chain 77"):
        taken(chain)

    assert row_of(chain) == ROW.taken_by(broker=2, chain=90, start=3)
    assert chain.chain_row().status is ChainStatus.FENCED

    chain.set_row(*key, replace(lost, epoch_ranges=(EpochEntry(2, EPOCH, 0),)).row())
    (one,) = taken(chain)
    assert one.partition == 1
    assert chain.chain_row().status is ChainStatus.SEALED


def test_a_row_of_a_deleted_topic_that_arrived_late_ends_no_takeover() -> None:
    """It names an epoch range that its chain has forgotten."""
    chain = opened()
    put_record(chain, TopicStatus.DELETED, 2)
    epoch_ranges = (EpochEntry(1, EPOCH, 0), EpochEntry(2, EPOCH, 1))
    put_row(chain, replace(ROW, leader_epoch=2, epoch_ranges=epoch_ranges))

    assert taken(chain) == []
    assert row_of(chain) is None
    assert chain.chain_row().status is ChainStatus.SEALED
