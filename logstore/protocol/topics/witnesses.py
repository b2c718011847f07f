"""Evidence of topic records and chains where the registry has none, for `disposal`. Steps.

    the record of a deletion    a LIST of the topic's records, GETs from the newest on
    was the topic ever led?     the last checkpoint of every chain; the rest of those not sealed

Rare: only where the registry has no row of a topic that a chain or a table holds, or lacks the rows
of its partitions.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from logstore.errors import LogstoreError, NotFound
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus
from logstore.formats.topic_record import (
    RECORD_BYTES_MAX,
    TopicRecord,
    decode_record,
    deletion_in,
    record_place,
    records_prefix,
)
from logstore.protocol.chain.walk import (
    get_retrying,
    list_retrying,
    read_chain_at,
    read_checkpoint,
    read_on,
)
from logstore.protocol.rows.metadata import read_topics_by_id
from logstore.protocol.rules.disposal import Fate, Ruling, fate_of, may_drop_rows
from logstore.protocol.steps import Gather, QueryRows, Steps


class TopicFate(NamedTuple):
    """Fate of a topic that may be deleted, and the record of its deletion."""

    fate: Fate
    deletion: TopicRecord | None


def read_fates(topic_ids: Collection[bytes]) -> Steps[dict[bytes, TopicFate]]:
    """Fates of topics that may be deleted: by their rows, then by their records.

    Raises as `read_deletions`.
    """
    rows = yield from read_topics_by_id()
    deletions = yield from read_deletions(topic_ids)
    fates = {}
    for topic_id in topic_ids:
        row = rows[topic_id][1] if topic_id in rows else None
        deletion = deletions.get(topic_id)
        fate = fate_of(row, deletion_recorded=deletion is not None)
        fates[topic_id] = TopicFate(fate, deletion)
    return fates


def read_deletions(topic_ids: Collection[bytes]) -> Steps[dict[bytes, TopicRecord]]:
    """By topic id, the record that says that it was deleted, where there is one.

    Raises `Corrupt` or `Refused` for a record that cannot be read, and as stores do.
    """
    asked = sorted(topic_ids)
    records: Sequence[TopicRecord | LogstoreError | None] = yield Gather(
        [_read_deletion(topic_id) for topic_id in asked]
    )
    deletions = {}
    for topic_id, record in zip(asked, records, strict=True):
        if isinstance(record, LogstoreError):
            raise record
        if record is not None:
            deletions[topic_id] = record
    return deletions


def _read_deletion(topic_id: bytes) -> Steps[TopicRecord | None]:
    keys = yield from list_retrying(records_prefix(topic_id))
    for key in reversed([key for key in keys if record_place(key) is not None]):
        try:
            data = yield from get_retrying(key, 0, RECORD_BYTES_MAX)
        except NotFound:
            continue  # of a topic that was never born: its creator took it back
        record = deletion_in([decode_record(key, data)])
        if record is not None:
            return record
    return None


def judge_half_done(cluster_id: bytes, topic_id: bytes) -> Steps[Ruling]:
    """Whether rows may go that a creation or a deletion of this topic left, or whose others are
    lost: `disposal.may_drop_rows`.
    """
    deletions = yield from read_deletions([topic_id])
    fate = fate_of(None, deletion_recorded=topic_id in deletions)
    was_led = False
    if fate is not Fate.DELETED:
        was_led = bool((yield from find_led(cluster_id, [topic_id])))
    return may_drop_rows(fate, was_led=was_led)


def find_led(cluster_id: bytes, topic_ids: Collection[bytes]) -> Steps[set[bytes]]:
    """Those of these topics of which any chain has an epoch range."""
    rows = [(int(sk), ChainRow.of(row)) for sk, row in (yield QueryRows(CHAIN))]
    outcomes: Sequence[set[bytes] | LogstoreError] = yield Gather(
        [_topics_in(cluster_id, epoch, row) for epoch, row in rows]
    )
    led = set()
    for some in outcomes:
        if isinstance(some, LogstoreError):
            raise some
        led |= some.intersection(topic_ids)
    return led


def _topics_in(cluster_id: bytes, epoch: int, row: ChainRow) -> Steps[set[bytes]]:
    if row.status is ChainStatus.SEALED:
        front = yield from read_checkpoint(epoch, row.checkpoint)
        return {key.topic_id for key in front.epoch_ranges}
    chain = yield from read_chain_at(cluster_id, epoch, row.checkpoint)
    yield from read_on(chain)
    return {key.topic_id for key in chain.epoch_ranges}
