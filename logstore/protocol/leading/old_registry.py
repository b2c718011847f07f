"""Detects a registry that is older than the log: safety rules 4d and 12. Reads, changes nothing.

A registry that was put back from a copy lacks what happened since. A broker that starts on it would
give leadership 5 of a partition to its own chain, although another chain holds leadership 5 and has
acknowledged batches in it. So before a broker changes the first row of its life it compares every
chain with the rows:

    chains younger than the registry    `open_chain` meets their openings
    chains that lost their row          below the next epoch each has a row, or was sealed empty
    chains not sealed by their row      no leadership in them may be above its partition's row
    chains sealed by their row          hold nothing that a registry of that moment does not know

The rows are read after the chains: a leadership is in its row before its first entry is stored, so
a broker that works at the same time is never mistaken for evidence. Two brokers that start together
on an old copy reach the same result as one alone, since neither changes a row, or marks a chain as
sealed, before its own comparison has ended. So no broker has to know whether another one serves,
and the controller, which runs only in started brokers, need not compare.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from logstore.errors import Corrupt, LogstoreError, NotFound, Refused
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus
from logstore.formats.chain_state import ChainState, EpochKey
from logstore.formats.partition_row import PartitionRow
from logstore.formats.segment import SegmentKind
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow
from logstore.protocol.chain.opening import OLD_REGISTRY, read_cluster
from logstore.protocol.chain.seal import read_to_end
from logstore.protocol.chain.walk import read_front
from logstore.protocol.rows.metadata import read_partition_rows, read_topics_by_id
from logstore.protocol.rules.disposal import Fate, fate_of
from logstore.protocol.steps import Gather, QueryRows, Steps
from logstore.protocol.topics.witnesses import read_deletions

CHAINS_AT_ONCE = 8

PartitionRows = Mapping[TopicPartition, PartitionRow]
"""By topic id and partition."""
TopicRows = Mapping[bytes, tuple[str, TopicRow]]
"""Name and row, by topic id."""
Led = Mapping[int, Collection[EpochKey]]
"""By chain, the leaderships that it holds a committed leadership-begin entry of."""


def compare_with_log(
    cluster_id: bytes, below: int, keeps: Callable[[ChainRow], bool]
) -> Steps[dict[int, ChainState]]:
    """The comparison that a starting broker makes once, before it changes rows. Raises `Refused`.

    Covers the chains of epochs less than `below`, the broker's own. Returns the chains that are not
    sealed, as far as they go now, if `keeps` wants them: those that the broker will take over. A
    chain that cannot be read because it is damaged is no evidence: its takeover fails, and nothing
    else.

    Requests: the cluster row, all chain rows, partition rows and topic rows; for each chain not
    sealed what a takeover of it reads.
    """
    cluster = yield from read_cluster(cluster_id)
    rows = {int(sk): ChainRow.of(row) for sk, row in (yield QueryRows(CHAIN))}
    lacking = [epoch for epoch in range(1, min(cluster.next_epoch, below)) if epoch not in rows]
    yield from _check_all_empty(lacking)
    unsealed = [
        epoch
        for epoch, row in sorted(rows.items())
        if row.status is not ChainStatus.SEALED and epoch < below
    ]
    if not unsealed:
        return {}
    led: dict[int, Collection[EpochKey]] = {}
    kept: dict[int, ChainState] = {}
    for at in range(0, len(unsealed), CHAINS_AT_ONCE):
        for chain in (yield from _read_chains(cluster_id, unsealed[at : at + CHAINS_AT_ONCE])):
            led[chain.epoch] = list(chain.epoch_ranges)
            if keeps(rows[chain.epoch]):
                kept[chain.epoch] = chain
    partitions: PartitionRows = yield from read_partition_rows()
    yield from check_not_older(led, partitions)
    return kept


def check_not_older(led: Led, rows: PartitionRows) -> Steps[None]:
    """Raises `Refused` if a leadership is above its partition's row, which was read after chains.

    Unless its topic is deleted: its row says so, or a record does once that row is gone, or has
    none of its partitions.
    """
    topics: TopicRows = yield from read_topics_by_id()
    above = leaderships_above(led, rows, topics)
    whole = topics.keys() & {key.topic_id for key in rows}
    deletions = yield from read_deletions(above.keys() - whole)
    for topic_id, (epoch, led_partition) in above.items():
        name, row = topics.get(topic_id, (topic_id.hex(), None))
        fate = fate_of(
            row, deletion_recorded=topic_id in deletions, has_partitions=topic_id in whole
        )
        if fate in (Fate.LIVE, Fate.UNKNOWN):
            raise Refused(
                f"chain {epoch} has led partition {led_partition.partition} of topic {name} as "
                f"leader epoch {led_partition.leader_epoch}, which the registry does not know: "
                f"{OLD_REGISTRY}"
            )


def leaderships_above(
    led: Led, rows: PartitionRows, topics: TopicRows
) -> dict[bytes, tuple[int, EpochKey]]:
    """By topic, one leadership that is above its partition's row, or whose topic has no row, and
    the chain that holds its committed leadership-begin entry.
    """
    above: dict[bytes, tuple[int, EpochKey]] = {}
    for epoch, keys in led.items():
        for key in keys:
            row = rows.get(key.topic_partition)
            if row is None or _is_above(key, epoch, row) or key.topic_id not in topics:
                above[key.topic_id] = (epoch, key)
    return above


def _is_above(key: EpochKey, epoch: int, row: PartitionRow) -> bool:
    if key.leader_epoch == row.leader_epoch:
        return row.chain != epoch
    return key.leader_epoch > row.leader_epoch


def _check_all_empty(epochs: Collection[int]) -> Steps[None]:
    """Chains without a row are those whose maker died first, sealed at seq 1 by the next start."""
    for epoch in epochs:
        try:
            kind = (yield from read_front(epoch, 1)).index.header.kind
        except NotFound:
            kind = None  # trimmed, or lost: a seal is never deleted
        if kind is not SegmentKind.SEAL:
            raise Refused(f"the registry has no row of chain {epoch}: {OLD_REGISTRY}")


def _read_chains(cluster_id: bytes, epochs: Sequence[int]) -> Steps[list[ChainState]]:
    """Those that can be read."""
    outcomes: Sequence[ChainState | LogstoreError] = yield Gather(
        [read_to_end(cluster_id, epoch) for epoch in epochs]
    )
    chains = []
    for chain in outcomes:
        if isinstance(chain, ChainState):
            chains.append(chain)
        elif not isinstance(chain, Corrupt):
            raise chain
    return chains
