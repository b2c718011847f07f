"""Take over what a chain led: safety rule 4. Repeatable at every step, by anyone.

    a-c  fence and seal the chain, read its state (chains.seal)
    d    each partition whose row names the chain: row → new leader, leader epoch + 1, starting
         where the stretch ended
    e    checkpoint at the seal, then chain row → sealed

A stretch whose take entry was never committed is empty: it ends where its row says it starts, and
its state is that of the newest earlier stretch with one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from logstore.chains.checkpoint import encode_checkpoint
from logstore.chains.keys import checkpoint_key
from logstore.chains.opening import OLD_REGISTRY
from logstore.chains.put import create_settled
from logstore.chains.replay import ChainState, Stretch, StretchKey
from logstore.chains.seal import SealedChain, mark_sealed, read_chain_row, seal_chain
from logstore.chains.state import PartitionState
from logstore.chains.walk import read_chain_at
from logstore.errors import ConditionFailed, LogstoreError, Refused
from logstore.metadata import read_partition_rows, read_topics
from logstore.registry.store import Condition
from logstore.rows import (
    ChainStatus,
    PartitionRow,
    TopicStatus,
    partition_pk,
    partition_sk,
)
from logstore.steps import Steps, Together, UpdateRow

PUT_ATTEMPTS_MAX = 60


@dataclass(frozen=True, slots=True)
class Heir:
    """Who takes over: a broker, by its own open chain."""

    broker: int
    chain: int


@dataclass(frozen=True, slots=True)
class Inheritance:
    """One partition taken over: its new row, and the state its next take entry carries."""

    topic_id: bytes
    partition: int
    row: PartitionRow
    state: PartitionState


def take_over(cluster_id: bytes, epoch: int, heir: Heir, *, cold: bool) -> Steps[list[Inheritance]]:
    """Take over chain `epoch`. `cold`: no broker is alive, so the registry may be an old copy.

    Raises `Refused` when the chain knows more than the registry.
    """
    sealed = yield from seal_chain(cluster_id, epoch, heir.broker)
    rows = yield from read_partition_rows()
    if cold:
        yield from _check_not_older(sealed.state)
    mine = [(key, row) for key, row in rows if row.chain == epoch]
    results: Sequence[Inheritance | LogstoreError | None] = yield Together(
        [_take_partition(cluster_id, key, row, sealed, heir) for key, row in mine]
    )
    taken = []
    for result in results:
        if isinstance(result, LogstoreError):
            raise result
        if result is not None:
            taken.append(result)
    yield from _put_checkpoint(sealed.state)
    yield from mark_sealed(epoch, sealed.seal)
    return taken


def _check_not_older(chain: ChainState) -> Steps[None]:
    """No committed take entry of this chain may be above its partition's row (read after it)."""
    rows = dict((yield from read_partition_rows()))
    above: dict[bytes, StretchKey] = {}
    for key in chain.stretches:
        row = rows.get((key.topic_id, key.partition))
        if row is None or _is_above(key, chain.epoch, row):
            above[key.topic_id] = key
    if not above:
        return
    for name, topic in (yield from read_topics()).items():  # the others are deleted
        found = above.get(topic.topic_id)
        if found is not None and topic.status is TopicStatus.LIVE:
            raise Refused(
                f"chain {chain.epoch} has led partition {found.partition} of topic {name} as "
                f"leader epoch {found.leader_epoch}, which the registry does not know: "
                f"{OLD_REGISTRY}"
            )


def _is_above(key: StretchKey, epoch: int, row: PartitionRow) -> bool:
    if key.leader_epoch == row.leader_epoch:
        return row.chain != epoch
    return key.leader_epoch > row.leader_epoch


def _take_partition(
    cluster_id: bytes,
    key: tuple[bytes, int],
    row: PartitionRow,
    sealed: SealedChain,
    heir: Heir,
) -> Steps[Inheritance | None]:
    topic_id, partition = key
    stretch = sealed.state.stretches.get(StretchKey(topic_id, partition, row.leader_epoch))
    if stretch is not None:
        start, state = stretch.end, stretch.state
    else:
        start = row.stretches[-1].start
        state = yield from _inherited(cluster_id, topic_id, partition, row, heir)
    taken = row.taken_by(broker=heir.broker, chain=heir.chain, start=start)
    terms = [
        Condition("chain", "=", row.chain),
        Condition("leader_epoch", "=", row.leader_epoch),
    ]
    pk, sk = partition_pk(topic_id, partition), partition_sk(topic_id, partition)
    try:
        yield UpdateRow(pk, sk, taken.row(), terms)
    except ConditionFailed as failed:
        now = None if failed.current is None else PartitionRow.of(failed.current)
        if now is None or now.chain != heir.chain:
            return None  # somebody else took it, or the topic is gone
        taken = now
    return Inheritance(topic_id, partition, taken, state)


def _inherited(
    cluster_id: bytes, topic_id: bytes, partition: int, row: PartitionRow, heir: Heir
) -> Steps[PartitionState]:
    """The state of the newest stretch before the current one whose take entry was committed."""
    for ref in reversed(row.stretches[:-1]):
        chain = yield from chain_at_seal(cluster_id, ref.chain, heir.broker)
        stretch: Stretch | None = chain.stretches.get(
            StretchKey(topic_id, partition, ref.leader_epoch)
        )
        if stretch is not None:
            return stretch.state
    return PartitionState()


def chain_at_seal(cluster_id: bytes, epoch: int, sealer: int) -> Steps[ChainState]:
    """The state of a chain that is sealed, or is to be."""
    row = yield from read_chain_row(epoch)
    if row.status is ChainStatus.SEALED:
        return (yield from read_chain_at(cluster_id, epoch, row.seal))
    return (yield from seal_chain(cluster_id, epoch, sealer)).state


def _put_checkpoint(chain: ChainState) -> Steps[None]:
    """Create the checkpoint at the seal. One that is there already is as good."""
    if chain.checkpoint == chain.next_seq:
        return
    key = checkpoint_key(chain.epoch, chain.next_seq)
    yield from create_settled(key, encode_checkpoint(chain), attempts_max=PUT_ATTEMPTS_MAX)
