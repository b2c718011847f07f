"""May these staged batches of a sink be copied into a partition? Decided on values. Pure.

    manifest older than a sink is remembered    → refused: the sink may be forgotten here
    manifest of the future                      → refused: it would stay young for too long
    batch below the sink's last one             → done before (a delayed request, an old checkpoint)
    the last one, all of it copied              → done before
    the last one, copied in part                → go on behind what is here
    batch above it, the last one not complete   → refused: the rest would be lost
    unknown sink                                → copy, unless the partition has `SINKS_MAX` others

A leader knows a sink as soon as batches are appended, before they are committed; so a repeat of
what is still in flight is found too, and its answer waits for the same commit (safety rule 10).

Manifests carry the clock of the driver that made them, sinks the time of the chain (`ChainTime`). A
sink is remembered for `sink_expiration_ms` after its last batch. That batch's manifest was at most
`AHEAD_MS_MAX` ahead of the chain when it was copied; so when its sink is forgotten, it is older
than `manifest_age_ms_max`, with a day to spare, and is refused.
"""

from enum import Enum
from typing import NamedTuple

from logstore.formats.partition_state import PartitionState, Sink, sink_expiration_ms

DAY_MS = 86_400_000
AHEAD_MS_MAX = DAY_MS
SINKS_MAX = 1_000
"""Per partition. Each takes 56 bytes of every leadership entry and checkpoint."""


class SinkRefusal(Enum):
    TOO_OLD = "the manifest is too old"
    AHEAD = "the manifest is of the future"
    UNFINISHED = "an earlier batch of the sink is not complete"
    OTHER_BATCHES = "another manifest of this batch was copied in part"
    TOO_MANY = "too many sinks write to this partition"


class CopyFrom(NamedTuple):
    """Copy the batches behind the first `batches_done`."""

    batches_done: int


def manifest_age_ms_max(batch: int) -> int:
    """Up to which age a manifest is adopted: four weeks, of a single batch write one day."""
    return sink_expiration_ms(batch) - AHEAD_MS_MAX - DAY_MS


def judge_manifest(batch: int, manifest_ms: int, chain_ms: int) -> SinkRefusal | None:
    """`manifest_ms`: when the driver made it, by its own clock."""
    if chain_ms - manifest_ms > manifest_age_ms_max(batch):
        return SinkRefusal.TOO_OLD
    return SinkRefusal.AHEAD if manifest_ms - chain_ms > AHEAD_MS_MAX else None


def judge_sink(
    state: PartitionState, sink_hash: bytes, batch: int, batches_total: int | None, chain_ms: int
) -> CopyFrom | Sink | SinkRefusal:
    """`CopyFrom`: copy. A `Sink`: the batch is here, with the sink's last batch. Else why not.

    `batches_total`: how many record batches the manifest has for this partition; None: that is not
    known yet, a batch that is here is found all the same.
    """
    known = state.live_sink(sink_hash, chain_ms)
    if known is None:
        live = sum(not sink.is_expired(chain_ms) for sink in state.sinks.values())
        return SinkRefusal.TOO_MANY if live >= SINKS_MAX else CopyFrom(0)
    if batch > known.batch:
        return CopyFrom(0) if known.is_done else SinkRefusal.UNFINISHED
    if batch < known.batch or known.is_done:
        return known
    if batches_total is not None and known.batches_total != batches_total:
        return SinkRefusal.OTHER_BATCHES
    return CopyFrom(known.batches_done)
