"""Keys of what a Spark sink stages, relative to the log's URL.

    staging/<sink, 32 hex digits>/<batch, 20 digits>/manifest
    staging/<sink, 32 hex digits>/<batch, 20 digits>/<task>-<attempt>-<number>

A sink is a hash, since users choose ids of any length and characters:

    stream with option sinkId      that, and the id of its query, which Spark draws for a checkpoint
    stream without, batch write    one id: the query's, txnAppId, or one that is drawn
    older, stream with sinkId      sinkId alone (`logstore.staging.older_sinks`)

A batch is one micro-batch of a query, or one version of a batch write. A task is Spark's
partition id; an attempt is a number drawn at random, which numbers its objects from 0.
"""

import hashlib
from typing import NamedTuple

STAGING = "staging/"
MANIFEST = "manifest"
SINK_BYTES = 16
BATCH_MAX = 2**63 - 1
_BATCH_DIGITS = 20
_OF_A_QUERY = b"sink of a query"
"""Sets these hashes apart from those of one id, whatever it is."""


class SinkBatch(NamedTuple):
    """One batch of one sink: exactly one attempt of it is adopted."""

    sink: bytes
    """`sink_hash` of the sink's id."""
    batch: int

    @property
    def prefix(self) -> str:
        return f"{sink_prefix(self.sink)}{self.batch:0{_BATCH_DIGITS}d}/"

    @property
    def manifest_key(self) -> str:
        return self.prefix + MANIFEST


class StagedName(NamedTuple):
    """Names a staged object within its batch; sorted, objects are in the order of their rows."""

    task: int
    attempt: int
    number: int

    def key(self, batch: SinkBatch) -> str:
        return f"{batch.prefix}{self.task}-{self.attempt}-{self.number}"


def sink_hash(sink_id: str, query_id: str | None = None) -> bytes:
    """Returns the 16 bytes that stand for a sink in keys and partition states.

    With `query_id`, of a sink that one query names: another query's sink of that name is another
    sink. Spark's query ids are UUIDs, so the joined text says where they end.
    """
    if query_id is None:
        return hashlib.blake2b(sink_id.encode(), digest_size=SINK_BYTES).digest()
    joined = f"{query_id}/{sink_id}".encode()
    return hashlib.blake2b(joined, digest_size=SINK_BYTES, person=_OF_A_QUERY).digest()


def sink_prefix(sink: bytes) -> str:
    return f"{STAGING}{sink.hex()}/"


def place_of(key: str) -> tuple[SinkBatch, StagedName | None] | None:
    """Batch and staged object of a key; a manifest has no `StagedName`. None: of another key."""
    folder, _, name = key.rpartition("/")
    sink_hex, _, batch_digits = folder.removeprefix(STAGING).partition("/")
    try:
        batch = SinkBatch(bytes.fromhex(sink_hex), int(batch_digits))
        staged = None if name == MANIFEST else StagedName(*map(int, name.split("-")))
    except (ValueError, TypeError):
        return None
    if len(batch.sink) != SINK_BYTES or not 0 <= batch.batch <= BATCH_MAX:
        return None
    return (batch, staged) if key == _key(batch, staged) else None


def _key(batch: SinkBatch, staged: StagedName | None) -> str:
    return batch.manifest_key if staged is None else staged.key(batch)
