"""Draw a broker epoch and open its chain: safety rule 3, up to the chain row.

    read the next epoch n → create the opening of n → chain row of n → raise the row to n + 1

so openings have no gaps, and a registry that knows an epoch to be drawn knows its chain: a copy of
it made between the two would else never look there. When the opening of n is there already:

    the row has moved on               → another broker drew n; read again
    the row stays for a whole lease    → the creator of the opening died before it raised the row:
                                         seal that chain at seq 1, raise the row, try n + 1
    a segment at seq 1, or a checkpoint above it, and the row, read after that, still says n
                                       → the registry is older than the log: stop

A seal at seq 1 and a checkpoint there are those of a takeover: the maker died between the chain row
and the raise, and its chain, which holds nothing, was taken over by that row.

A chain row that is there already for a freshly drawn epoch means the same as that last case.

The format level is read with n, and is a condition of the raise: a broker that cannot read the
level that was finalized since draws no epoch (`protocol.leading.upgrade` has the other half).

An opening is stamped with the time of the store (`logstore.protocol.deletion.believed_time`). A
chain's time goes on from there, and producers expire by it: with a wall clock that is a day ahead
the first checkpoint would forget every producer whose state was inherited; with one that is a day
behind that of the next chain would. It is asked for while the cluster row is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from logstore.errors import ConditionFailed, Fenced, LogstoreError, Refused
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.keys import checkpoints_prefix, seq_of
from logstore.formats.levels import NEWEST_LEVEL, check_known
from logstore.formats.segment import NO_NONCE, SegmentKind
from logstore.formats.segment_builder import FrozenSegment, bare_header, freeze_bare
from logstore.ports.registry import Comparison, RowAbsent
from logstore.protocol.chain.put import KeyTaken, Stored, put_once
from logstore.protocol.chain.walk import list_retrying, store_time_retrying
from logstore.protocol.steps import DrawNonce, Gather, GetRow, PutRow, Steps, UpdateRow, Wait
from logstore.version import VERSION

DRAWS_MAX = 1000
OLD_REGISTRY = (
    "the registry is older than the log, it seems to have been restored from a copy; "
    "stop every broker and run: logstore restore"
)


@dataclass(frozen=True, slots=True)
class Opened:
    """An epoch that is ours alone, with its chain's opening stored."""

    epoch: int
    opening: FrozenSegment


def open_chain(
    cluster_id: bytes,
    broker: int,
    *,
    lease_s: float,
    topic_defaults: Mapping[str, str] = MappingProxyType({}),
    level_max: int = NEWEST_LEVEL,
) -> Steps[Opened]:
    """`topic_defaults` as in the chain's row; `level_max`: the highest format level that is read.

    Raises `Refused` when the registry is older than the log, or the log is of a higher level.
    """
    cluster = yield from _first_look(cluster_id)
    for _ in range(DRAWS_MAX):
        check_known(cluster.format_level, VERSION, level_max)
        epoch = cluster.next_epoch
        opening = yield from _bare(SegmentKind.OPENING, cluster_id, broker, epoch, 0, NO_NONCE)
        put = yield from put_once(epoch, opening)
        if isinstance(put, Stored):
            yield from _put_chain_row(epoch, broker, topic_defaults)
            if (yield from _raise_row(cluster)):
                return Opened(epoch, opening)
            # A level was finalized; or we were so slow that another broker sealed our opening.
        else:
            yield Wait(lease_s)
            if (yield from read_cluster(cluster_id)).next_epoch == epoch:
                yield from _bury(cluster, broker, put)
        cluster = yield from read_cluster(cluster_id)
    raise Refused(
        f"no broker epoch could be drawn: other brokers took each of {DRAWS_MAX}; start fewer at a "
        "time"
    )


def _first_look(cluster_id: bytes) -> Steps[ClusterRow]:
    """The cluster row; the time of the store is known afterwards. Raises as both do."""
    results = yield Gather([read_cluster(cluster_id), store_time_retrying()])
    for result in results:
        if isinstance(result, LogstoreError):
            raise result
    cluster: ClusterRow = results[0]
    return cluster


def read_cluster(cluster_id: bytes) -> Steps[ClusterRow]:
    row = yield GetRow(CLUSTER, CLUSTER)
    if row is None:
        raise Refused(f"the registry has no cluster row: {OLD_REGISTRY}")
    cluster = ClusterRow.of(row)
    if cluster.cluster_id != cluster_id:
        raise Refused(
            f"the registry belongs to another cluster: log={cluster_id.hex()} "
            f"registry={cluster.cluster_id.hex()}; give this log's own registry"
        )
    return cluster


def _raise_row(seen: ClusterRow) -> Steps[bool]:
    """Whether it was this call that raised the row from its next epoch."""
    try:
        yield UpdateRow(
            CLUSTER,
            CLUSTER,
            {"next_epoch": seen.next_epoch + 1},
            [
                Comparison("next_epoch", "=", seen.next_epoch),
                Comparison("format_level", "=", seen.format_level),
            ],
        )
    except ConditionFailed:
        return False
    return True


def _put_chain_row(epoch: int, broker: int, topic_defaults: Mapping[str, str]) -> Steps[None]:
    row = ChainRow(broker=broker, status=ChainStatus.OPEN, topic_defaults=topic_defaults).row()
    try:
        yield PutRow(CHAIN, chain_sk(epoch), row, [RowAbsent()])
    except ConditionFailed as failed:
        if failed.current is not None and failed.current.get("status") != ChainStatus.OPEN.value:
            # Ours, written by an attempt whose answer was lost, and fenced since.
            raise Fenced(
                f"chain {epoch} was fenced while it was opened: this broker was too slow; start it "
                "again"
            ) from failed
        raise Refused(f"chain {epoch} has a row already: {OLD_REGISTRY}") from failed


def _bury(cluster: ClusterRow, broker: int, opening: KeyTaken) -> Steps[None]:
    """Seal the chain of an opening whose maker is gone, and raise the row past it."""
    cluster_id, epoch, header = cluster.cluster_id, cluster.next_epoch, opening.header
    if header is None or header.cluster_id != cluster_id or header.kind is not SegmentKind.OPENING:
        raise Refused(
            f"chain {epoch} does not begin with an opening of this cluster; {OLD_REGISTRY}"
        )
    keys = yield from list_retrying(checkpoints_prefix(epoch))
    if any(seq_of(key) > 1 for key in keys):  # its first segments may be gone again
        yield from _refuse_unless_drawn(cluster_id, epoch, "checkpoints")
        return
    seal = yield from _bare(SegmentKind.SEAL, cluster_id, broker, epoch, 1, header.nonce)
    put = yield from put_once(epoch, seal)
    if isinstance(put, KeyTaken) and (
        put.header is None or put.header.kind is not SegmentKind.SEAL
    ):
        yield from _refuse_unless_drawn(cluster_id, epoch, "segments")
        return
    # If another broker sealed it first the row has moved, which is sufficient.
    yield from _raise_row(cluster)


def _refuse_unless_drawn(cluster_id: bytes, epoch: int, what: str) -> Steps[None]:
    """Raises `Refused` where the cluster row, read after the log, does not know the epoch.

    Its maker may have been slow: it raised the row after that was read here, and wrote the chain.
    """
    if (yield from read_cluster(cluster_id)).next_epoch == epoch:
        raise Refused(f"chain {epoch} holds {what} that the registry does not know: {OLD_REGISTRY}")


def _bare(
    kind: SegmentKind,
    cluster_id: bytes,
    broker: int,
    epoch: int,
    seq: int,
    previous: bytes,
) -> Steps[FrozenSegment]:
    nonce: bytes = yield DrawNonce()
    now_ms = yield from store_time_retrying()
    return freeze_bare(
        bare_header(
            kind,
            cluster_id=cluster_id,
            epoch=epoch,
            seq=seq,
            broker=broker,
            nonce=nonce,
            previous_nonce=previous,
            created_ms=now_ms,
        )
    )
