"""How far a chain may be trimmed: what its checkpoints and the registry say, nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import ConditionFailed, Retryable, Throttled
from logstore.formats.chain_row import ChainRow, ChainStatus
from logstore.formats.chain_state import EpochKey
from logstore.formats.checkpoint import Checkpoint, EpochRangeSummary, decode_checkpoint
from logstore.formats.keys import checkpoint_key, segment_key
from logstore.formats.leadership_payload import encode_inline
from logstore.formats.partition_row import EpochEntry, PartitionRow, StartReason
from logstore.formats.partition_state import PartitionState, encode_state
from logstore.formats.segment import EntryKind
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.deletion.segments import delete_below_trim, publish_trim
from logstore.protocol.rules.trim import (
    Hold,
    HoldReason,
    Needs,
    TrimStep,
    above_its_row,
    hold_of,
    is_trim_point,
    next_of,
    segments_to_delete,
)
from logstore.protocol.steps import Delete, Gather, UpdateRow
from logstore.slices import finish
from logstore.testing.scripted import drive
from tests.golden.samples import EPOCH, TOPIC_ID
from tests.logstore.protocol.built import BuiltChain

KEY = EpochKey(TOPIC_ID, 0, 0)
PARTITION = TopicPartition(TOPIC_ID, 0)
GRACE_MS = 3_600_000


def partition_row(*, log_start: int = 0, leader_epoch: int = 0) -> PartitionRow:
    return PartitionRow(
        broker=1,
        chain=EPOCH,
        leader_epoch=leader_epoch,
        log_start=log_start,
        start_reason=StartReason.RETENTION.to(log_start),
        epoch_ranges=(EpochEntry(leader_epoch, EPOCH, 0),),
    )


def needs(row: PartitionRow | None, *, live: bool = True, taken: int | None = None) -> Needs:
    return Needs(
        {TOPIC_ID} if live else set(),
        {} if row is None else {PARTITION: row},
        {} if taken is None else {PARTITION: taken},
        deleted=set() if live else {TOPIC_ID},
    )


def test_a_topic_without_a_row_holds_its_segments_until_its_deletion_is_known() -> None:
    gone = needs(None, live=False)

    assert hold_of(ten_records(), gone) is None
    assert hold_of(ten_records(), replace(gone, deleted=set())) == Hold(KEY, HoldReason.NO_TOPIC)


def ten_records(*, released: bool = False) -> Checkpoint:
    chain = BuiltChain()
    chain.register(chain_row())
    chain.add_opening()
    chain.add_take()
    chain.add_batches(4, 6)
    if released:
        builder = chain.builder()
        builder.add_state_entry(
            EntryKind.RELEASE,
            topic_id=TOPIC_ID,
            partition=0,
            leader_epoch=0,
            offset=chain.offset,
            payload=encode_inline(encode_state(PartitionState())),
        )
        chain.add(chain.frozen(builder))
    seq = chain.add_checkpoint()
    return decode_checkpoint(chain.objects.get(checkpoint_key(EPOCH, seq)))


def chain_row(
    *,
    status: ChainStatus = ChainStatus.OPEN,
    trim: int = 0,
    checkpoint: int = 0,
    seal: int = -1,
    trim_ms: int = 0,
    deleted: int = 0,
) -> ChainRow:
    return ChainRow(
        broker=1,
        status=status,
        trim=trim,
        checkpoint=checkpoint,
        seal=seal,
        trim_ms=trim_ms,
        deleted=deleted,
    )


@pytest.mark.parametrize("log_start", [0, 4, 9])
def test_offsets_from_log_start_on_hold_a_chain_back(log_start: int) -> None:
    held = hold_of(ten_records(), needs(partition_row(log_start=log_start)))

    assert held == Hold(KEY, HoldReason.DATA)


@pytest.mark.parametrize("log_start", [10, 11])
def test_nothing_does_once_log_start_is_past_them(log_start: int) -> None:
    assert hold_of(ten_records(), needs(partition_row(log_start=log_start))) is None


def test_a_topic_without_a_live_row_holds_nothing_back() -> None:
    assert hold_of(ten_records(released=True), needs(partition_row(), live=False)) is None


def test_a_partition_that_lacks_its_row_is_kept() -> None:
    assert hold_of(ten_records(), needs(None)) == Hold(KEY, HoldReason.NO_ROW)


@pytest.mark.parametrize(
    ("taken", "why"), [(None, HoldReason.LEADERSHIP_END), (0, HoldReason.LEADERSHIP_END), (1, None)]
)
def test_a_release_stays_until_the_next_take_entry_is_committed(
    taken: int | None, why: HoldReason | None
) -> None:
    row = partition_row(log_start=10, leader_epoch=1)

    held = hold_of(ten_records(released=True), needs(row, taken=taken))

    assert (held and held.why) == why


def test_a_take_entry_above_its_row_is_an_old_registry() -> None:
    checkpoint = ten_records()

    assert finish(above_its_row(checkpoint, needs(partition_row()))) is None
    lower = PartitionRow(
        broker=1, chain=1, leader_epoch=-1, log_start=0, epoch_ranges=(EpochEntry(-1, 1, 0),)
    )
    assert finish(above_its_row(checkpoint, needs(lower))) == KEY
    dead = replace(needs(lower), live=frozenset())
    assert finish(above_its_row(checkpoint, dead)) is None, (
        "a first row that landed after the deletion"
    )


@given(st.integers(0, 20), st.integers(0, 20), st.integers(-1, 20), st.integers(0, 25))
def test_a_trim_point_only_goes_up_and_never_above_checkpoint_or_seal(
    trim: int, checkpoint: int, seal: int, wanted: int
) -> None:
    row = chain_row(trim=trim, checkpoint=checkpoint, seal=seal)

    if is_trim_point(row, wanted):
        assert trim < wanted <= checkpoint
        assert seal == -1 or wanted <= seal


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 2 * GRACE_MS))
def test_nothing_is_deleted_before_its_grace_has_passed(
    trim: int, deleted: int, later_ms: int
) -> None:
    row = chain_row(trim=trim, checkpoint=trim, trim_ms=5_000, deleted=deleted)

    found = next_of(row, 5_000 + later_ms, GRACE_MS)

    if deleted >= trim:
        assert found is TrimStep.RAISE
    else:
        assert found is (TrimStep.DELETE if later_ms >= GRACE_MS else TrimStep.WAIT)


def test_a_clock_that_was_put_back_deletes_nothing() -> None:
    assert next_of(chain_row(trim=9, trim_ms=GRACE_MS * 9), 0, GRACE_MS) is TrimStep.WAIT


@given(st.integers(0, 50), st.integers(0, 50))
def test_opening_and_what_is_above_the_trim_point_are_never_deleted(
    trim: int, deleted: int
) -> None:
    seqs = segments_to_delete(chain_row(trim=trim, deleted=deleted))

    assert all(max(0, deleted - 1) < seq < trim for seq in seqs)
    assert 0 not in seqs


def test_deletion_takes_checkpoints_below_and_keeps_the_one_at_the_trim_point() -> None:
    row = chain_row(trim=6, checkpoint=9, deleted=0)

    count, made = drive(delete_below_trim(EPOCH, row, (3, 6, 9)), [[None] * 5, [None], None])

    assert count == 6
    gone = [list(one) for request in made if isinstance(request, Gather) for one in request.steps]
    assert [request.key for one in gone for request in one if isinstance(request, Delete)] == [
        *(segment_key(EPOCH, seq) for seq in (1, 2, 3, 4, 5)),
        checkpoint_key(EPOCH, 3),
    ]
    assert isinstance(made[-1], UpdateRow)
    assert made[-1].sets == {"deleted": 6}


def test_what_is_deleted_is_not_asked_to_go_again() -> None:
    """A chain that lives for a month has had a million checkpoints."""
    row = chain_row(trim=3_000, checkpoint=9_000, deleted=1_000)
    rounds = [[None] * 1024, [None] * 6, None, [None] * 976, [None] * 4, None]

    count, made = drive(delete_below_trim(EPOCH, row, range(200, 9_001, 200)), rounds)

    assert count == 2_000 + 10
    gone = [list(one) for request in made if isinstance(request, Gather) for one in request.steps]
    deleted = [request.key for one in gone for request in one if isinstance(request, Delete)]
    assert [key for key in deleted if key.startswith("checkpoints/")] == [
        checkpoint_key(EPOCH, seq) for seq in range(1_000, 3_000, 200)
    ]
    assert [request.sets for request in made if isinstance(request, UpdateRow)] == [
        {"deleted": 2_024},
        {"deleted": 3_000},
    ]


def test_a_deletion_that_fails_is_not_noted() -> None:
    row = chain_row(trim=6, checkpoint=9, deleted=5)

    with pytest.raises(Retryable):
        drive(delete_below_trim(EPOCH, row, (6, 9)), [[Throttled("slow down")]])


def test_a_trim_point_that_another_has_moved_is_left_alone() -> None:
    failed = ConditionFailed("moved", None)

    published, made = drive(publish_trim(EPOCH, chain_row(checkpoint=9), 6, 7), [failed])

    assert not published
    assert isinstance(made[0], UpdateRow)
    assert made[0].sets == {"trim": 6, "trim_ms": 7}


def test_a_summary_of_an_empty_stretch_holds_nothing_back() -> None:
    checkpoint = ten_records()
    empty = EpochRangeSummary(7, 7, False, -1, -1, 0, 0, 0)
    epoch_ranges = {EpochKey(TOPIC_ID, 0, 0): empty}
    changed = Checkpoint(
        **{
            name: getattr(checkpoint, name)
            for name in Checkpoint.__slots__
            if name != "epoch_ranges"
        },
        epoch_ranges=epoch_ranges,
    )

    assert hold_of(changed, needs(partition_row(log_start=0))) is None
