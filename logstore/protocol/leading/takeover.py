"""Take over the partitions that a chain leads: safety rule 4. Repeatable at every step, by anyone.

    a-c  fence and seal the chain, read its state (protocol.seal)
    d    each partition whose row names the chain: row → new leader, leader epoch + 1, starting
         where the epoch range ended
    e    checkpoint at the seal, then chain row → sealed

An epoch range whose leadership-begin entry was never committed is empty: it ends where its row says
it starts, and its state is that of the newest earlier epoch range with one.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from logstore.errors import ConditionFailed, LogstoreError
from logstore.formats.chain_state import ChainState, EpochKey
from logstore.formats.checkpoint import encode_in_slices, forget_expired
from logstore.formats.keys import checkpoint_key
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.partition_state import PartitionState
from logstore.formats.topic_partition import TopicPartition
from logstore.ports.registry import Comparison
from logstore.protocol.chain.put import create_parts_settled
from logstore.protocol.chain.seal import SealedChain, mark_sealed, seal_chain
from logstore.protocol.leading.leadership import change_leader
from logstore.protocol.leading.old_registry import (
    PartitionRows,
    TopicRows,
    check_not_older,
    leaderships_above,
)
from logstore.protocol.leading.recovery import Chains, Known, newest_epoch_range
from logstore.protocol.rows.metadata import read_partition_rows, read_topics_by_id
from logstore.protocol.rules.disposal import Fate
from logstore.protocol.steps import DeleteRow, Gather, Steps, sliced
from logstore.protocol.topics.witnesses import read_fates

__all__ = ["Known", "PartlyTaken", "RecoveredPartition", "Successor", "SuccessorOf", "take_over"]

PUT_ATTEMPTS_MAX = 60


@dataclass(frozen=True, slots=True)
class Successor:
    """The next leader of a partition: a broker, with its own open chain."""

    broker: int
    chain: int


SuccessorOf = Callable[[bytes, int, PartitionRow], Successor]
"""Topic id, partition and its row → its next leader, which should be alive."""


@dataclass(frozen=True, slots=True)
class RecoveredPartition:
    """One partition taken over.

    Its new row, and the state its next leadership-begin entry carries.
    """

    topic_id: bytes
    partition: int
    row: PartitionRow
    state: PartitionState

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic_id, self.partition)


class PartlyTaken(LogstoreError):
    """Some partitions were taken over; the others need another attempt."""

    def __init__(self, taken: list[RecoveredPartition], errors: list[LogstoreError]) -> None:
        super().__init__(
            f"takeover is incomplete: partitions_taken={len(taken)} failures={len(errors)} "
            f"first: {errors[0]}"
        )
        self.taken = taken
        self.first = errors[0]


def take_over(
    cluster_id: bytes,
    epoch: int,
    sealer: int,
    successor_of: SuccessorOf,
    known: Known = lambda epoch: None,
    on_sealed: Callable[[], None] = lambda: None,
    on_taken: Callable[[list[RecoveredPartition]], None] = lambda taken: None,
) -> Steps[list[RecoveredPartition]]:
    """Take over the chain of broker epoch `epoch`; the recovered partitions.

    Rows of partitions are read beside the seal, and changed after it. `known`: replayed prefixes of
    chains. `on_sealed` is called once the chain is sealed and read, `on_taken` with all that is
    taken while the checkpoint may still be on its way: clients wait for the new leaders.

    Raises `Refused` if the chain is newer than the registry, `PartlyTaken` if some partitions could
    not be taken: the chain is left fenced, and the next attempt finds them.
    """
    # Rows are read while the chain is sealed, to shorten the time without a leader. A row that
    # changes concurrently fails its condition; one that names the chain later is taken next time.
    sealed: SealedChain | LogstoreError
    rows: PartitionRows | LogstoreError
    topics: TopicRows | LogstoreError
    sealed, rows, topics = yield Gather(
        [seal_chain(cluster_id, epoch, sealer, known(epoch)), _read_rows(), read_topics_by_id()]
    )
    if isinstance(sealed, LogstoreError):
        raise sealed
    if isinstance(rows, LogstoreError):
        raise rows
    if isinstance(topics, LogstoreError):
        raise topics
    on_sealed()
    led = {epoch: sealed.state.epoch_ranges.keys()}
    if leaderships_above(led, rows, topics):
        rows = yield from _read_rows()
        yield from check_not_older(led, rows)
    chains = Chains(cluster_id, sealer, known)
    chains.give(epoch, sealed.state)
    takes: list[Steps[RecoveredPartition | None]] = []
    failed: dict[TopicPartition, LogstoreError] = {}
    for key, row in rows.items():
        if row.chain == epoch:
            try:
                ended = yield from _ended(chains, key, row, sealed)
            except LogstoreError as error:  # one partition's trouble is not the others'
                failed[key] = error
            else:
                takes.append(_take_partition(key, row, ended, successor_of(*key, row)))
    errors = yield from _drop_rows_of_deleted(failed, rows)
    taken: list[RecoveredPartition] = []
    failures: list[LogstoreError]
    failures, put = yield Gather([_take_all(takes, taken, on_taken), _put_checkpoint(sealed.state)])
    errors += filter(None, [*failures, put])
    if errors:
        raise PartlyTaken(taken, errors)
    yield from mark_sealed(epoch, sealed.seal)
    return taken


def _read_rows() -> Steps[PartitionRows]:
    return (yield from read_partition_rows())


@dataclass(frozen=True, slots=True)
class _RangeEnd:
    """End of a partition's current epoch range, the state there, and the chain that wrote it."""

    end: int
    state: PartitionState
    known_from: int


def _ended(
    chains: Chains, key: TopicPartition, row: PartitionRow, sealed: SealedChain
) -> Steps[_RangeEnd]:
    epoch_range = sealed.state.epoch_ranges.get(EpochKey(*key, row.leader_epoch))
    if epoch_range is not None:
        return _RangeEnd(epoch_range.end, epoch_range.state, row.leader_epoch)
    start = row.epoch_ranges[-1].start
    before = yield from newest_epoch_range(chains, key, row)
    if before is None:
        return _RangeEnd(start, PartitionState(), 0)
    return _RangeEnd(start, before[0].state, before[1])


def _take_all(
    takes: Sequence[Steps[RecoveredPartition | None]],
    taken: list[RecoveredPartition],
    on_taken: Callable[[list[RecoveredPartition]], None],
) -> Steps[list[LogstoreError]]:
    """Fills `taken`; the errors of the others."""
    results: Sequence[RecoveredPartition | LogstoreError | None] = yield Gather(takes)
    taken += [result for result in results if isinstance(result, RecoveredPartition)]
    on_taken(taken)
    return [result for result in results if isinstance(result, LogstoreError)]


def _take_partition(
    key: TopicPartition, row: PartitionRow, ended: _RangeEnd, successor: Successor
) -> Steps[RecoveredPartition | None]:
    try:
        taken = yield from change_leader(
            key,
            row,
            broker=successor.broker,
            chain=successor.chain,
            start=ended.end,
            known_from=ended.known_from,
        )
    except ConditionFailed:
        return None  # another broker took it, or the topic is gone
    return RecoveredPartition(*key, taken, ended.state)


def _drop_rows_of_deleted(
    failed: Mapping[TopicPartition, LogstoreError], rows: PartitionRows
) -> Steps[list[LogstoreError]]:
    """Delete the rows that cannot be taken over and whose topic is deleted; the errors of the rest.

    Example: the first attempt to create a row times out, the second succeeds, the topic is deleted,
    and then the first attempt arrives. Chains forget the epoch ranges of a deleted topic, so this
    row names an epoch range that no chain holds, and every takeover of its chain would fail.
    """
    fates = (yield from read_fates({key[0] for key in failed})) if failed else {}
    errors = []
    for key, error in failed.items():
        if fates[key[0]].fate is not Fate.DELETED:
            errors.append(error)
            continue
        is_seen = Comparison("leader_epoch", "=", rows[key].leader_epoch)
        with suppress(ConditionFailed):  # deleted or taken over by another broker
            yield DeleteRow(partition_pk(*key), partition_sk(*key), [is_seen])
    return errors


def _put_checkpoint(chain: ChainState) -> Steps[None]:
    """Create the checkpoint at the seal. One that is there already is as good."""
    if chain.checkpoint == chain.next_seq:
        return
    key = checkpoint_key(chain.epoch, chain.next_seq)
    encoded = yield from sliced(encode_in_slices(chain))
    forget_expired(chain, encoded)
    yield from create_parts_settled(key, encoded.parts, attempts_max=PUT_ATTEMPTS_MAX)
