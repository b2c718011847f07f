"""Sinks that partitions know, chain by chain: has a batch been adopted? Pure."""

from collections.abc import Callable, Mapping

from logstore.formats.chain_state import ChainState
from logstore.formats.partition_row import PartitionRow
from logstore.formats.partition_state import Sink
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.rows.metadata import read_partition_rows
from logstore.protocol.rules.disposal import Fate
from logstore.protocol.sinks.staging_disposal import States
from logstore.protocol.steps import Steps
from logstore.protocol.topics.witnesses import read_fates

ReadChain = Callable[[int], Steps[ChainState | None]]


def sink_states(wanted: set[TopicPartition], read: ReadChain) -> Steps[States]:
    """The sinks of these partitions in each chain that led them, as `read` finds the chain.

    A chain of which `read` gives None says nothing. Raises as registry and `read` do.
    """
    states: dict[TopicPartition, list[Mapping[bytes, Sink]]] = {one: [] for one in wanted}
    if not wanted:
        return states
    rows: Mapping[TopicPartition, PartitionRow] = yield from read_partition_rows()
    chains = sorted({ref.chain for one in wanted if one in rows for ref in rows[one].epoch_ranges})
    for epoch in chains:
        chain = yield from read(epoch)
        if chain is None:
            continue
        for key, epoch_range in chain.epoch_ranges.items():
            partition = key.topic_partition
            if partition in states and epoch_range.state.sinks:
                states[partition].append(epoch_range.state.sinks)
    return states


def deleted_topics(topic_ids: set[bytes]) -> Steps[set[bytes]]:
    """Those of which a record says that they were deleted: a missing row proves nothing."""
    if not topic_ids:
        return set()
    fates = yield from read_fates(topic_ids)
    return {topic_id for topic_id, found in fates.items() if found.fate is Fate.DELETED}
