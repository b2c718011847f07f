"""Identity of a log: cluster.json in the store, and the cluster row in the registry. Created once.

    {"cluster_id": 32 hex digits, "format": 2, "registry": "sqlite:registry.db"}

Its format is the format level that the log was created with, and never changes; a level that was
finalized later is in the cluster row, and in a mark of its own (`protocol.leading.upgrade`).

cluster.json is created before the row, and the row before chain 1 is opened. A row that is missing
when it is read after that opening was seen means that the registry was lost: nothing is created.
"""

import json
from contextlib import suppress
from dataclasses import dataclass

from logstore.errors import (
    AlreadyExists,
    ConditionFailed,
    Corrupt,
    NotFound,
    OutcomeUnknown,
    Refused,
    Retryable,
)
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.keys import CLUSTER_KEY, segment_key
from logstore.formats.levels import NEWEST_LEVEL, check_known
from logstore.formats.segment import HEADER_BYTES
from logstore.ports.registry import RowAbsent
from logstore.protocol.chain.opening import OLD_REGISTRY, read_cluster
from logstore.protocol.chain.walk import get_retrying
from logstore.protocol.steps import BackOff, Create, DrawNonce, Get, GetRow, PutRow, Steps, retried
from logstore.version import VERSION

FIRST_EPOCH = 1
ATTEMPTS_MAX = 5


@dataclass(frozen=True, slots=True)
class Identity:
    cluster_id: bytes
    registry: str
    """Registry URL as every reader finds it, never with credentials."""
    format_level: int = NEWEST_LEVEL
    """That of its creation."""


def encode_identity(identity: Identity) -> bytes:
    fields = {
        "cluster_id": identity.cluster_id.hex(),
        "format": identity.format_level,
        "registry": identity.registry,
    }
    return json.dumps(fields, sort_keys=True).encode() + b"\n"


def decode_identity(data: bytes) -> Identity:
    """Raises `Corrupt`, or `Refused` for a newer format."""
    try:
        fields = json.loads(data)
        level = int(fields["format"])
        identity = Identity(bytes.fromhex(fields["cluster_id"]), str(fields["registry"]), level)
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{CLUSTER_KEY} cannot be read: {error}; is this a log's URL?") from error
    check_known(level, VERSION)
    if len(identity.cluster_id) != 16:
        raise Corrupt(f"{CLUSTER_KEY} holds no cluster id")
    return identity


def read_identity() -> Steps[Identity | None]:
    """Content of cluster.json, or None. Only a few attempts, since a person waits for it."""
    repeats = (Retryable, OutcomeUnknown)
    try:
        data = yield from retried(Get(CLUSTER_KEY), attempts_max=ATTEMPTS_MAX, repeats=repeats)
    except NotFound:
        return None
    return decode_identity(bytes(data))


def ensure_identity(registry: str) -> Steps[Identity]:
    """Create cluster.json and the cluster row where they are missing: embedded first start.

    Raises `Refused` when the registry is another cluster's, or is gone while the log is not.
    """
    identity = yield from read_identity()
    if identity is None:
        identity = yield from _create_identity(registry)
    if (yield GetRow(CLUSTER, CLUSTER)) is None:
        yield from _put_row(identity)
    cluster = yield from read_cluster(identity.cluster_id)
    check_known(cluster.format_level, VERSION)
    return identity


def _create_identity(registry: str) -> Steps[Identity]:
    """Of racing creators one wins, and all find its cluster."""
    cluster_id: bytes = yield DrawNonce()
    mine = encode_identity(Identity(cluster_id, registry))
    for attempt in range(1, ATTEMPTS_MAX + 1):
        # There already: another's, mine if an answer was lost, or nothing at all: a 409.
        with suppress(AlreadyExists, Retryable, OutcomeUnknown):
            yield Create(CLUSTER_KEY, [mine])
        identity = yield from read_identity()
        if identity is not None:
            return identity
        yield BackOff(attempt)
    raise Refused(f"{CLUSTER_KEY} cannot be created; look at the store, and try again")


def _put_row(identity: Identity) -> Steps[None]:
    try:
        yield from get_retrying(segment_key(FIRST_EPOCH, 0), 0, HEADER_BYTES)
    except NotFound:
        pass
    else:
        if (yield GetRow(CLUSTER, CLUSTER)) is not None:
            return  # written since by another broker, which then opened its chain
        raise Refused(f"the log has chains and the registry is empty: {OLD_REGISTRY}")
    row = ClusterRow(identity.cluster_id, FIRST_EPOCH, identity.format_level).row()
    with suppress(ConditionFailed):  # another was first; the caller reads whose cluster it is
        yield PutRow(CLUSTER, CLUSTER, row, [RowAbsent()])
