"""Reads of staged objects and manifests: whole, or the front, or some ranges. Pure.

All retry while the store is away. An object that is not there, or is another one than its manifest
names, is `Corrupt`, and the text has its key: nothing of that batch can be adopted. That ends a
query, so what is damaged is read once more before: bytes may be lost or changed on their way.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from logstore.errors import Corrupt, NotFound
from logstore.formats.manifest import Manifest, decode_manifest_in_slices
from logstore.formats.segment import HEADER_BYTES, decode_header
from logstore.formats.staged_object import StagedIndex, StagedRef, decode_staged
from logstore.formats.staging_keys import SinkBatch
from logstore.protocol.chain.walk import get_retrying
from logstore.protocol.steps import Steps, sliced
from logstore.records.crc32c import crc32c_in_slices

T = TypeVar("T")

FRONT_GUESS_BYTES = 64 * 1024
FRONT_BYTES_MAX = 32 << 20
"""A task puts its object at 8 MiB; of batches of one small record each, the index has 13 MB."""

MANIFEST_GUESS_BYTES = 256 * 1024
MANIFEST_BYTES_MAX = 192 << 20
"""Inline batches, and lines for a million staged objects."""


class ReadManifest(NamedTuple):
    manifest: Manifest
    data: bytes
    """The whole object: the body holds the inline batches."""


def read_manifest(batch: SinkBatch, cluster_id: bytes) -> Steps[ReadManifest]:
    """Raises `NotFound` where there is none, `Corrupt`, `Refused`."""
    return _once_more(lambda: _read_manifest(batch, cluster_id))


def read_staged_index(batch: SinkBatch, ref: StagedRef, cluster_id: bytes) -> Steps[StagedIndex]:
    """The index of an object that a manifest names. Raises `Corrupt`, `Refused`."""
    return _once_more(lambda: _read_staged_index(batch, ref, cluster_id))


def _once_more(read: Callable[[], Steps[T]]) -> Steps[T]:
    try:
        return (yield from read())
    except Corrupt:
        return (yield from read())


def _read_manifest(batch: SinkBatch, cluster_id: bytes) -> Steps[ReadManifest]:
    key = batch.manifest_key
    data = yield from get_retrying(key, 0, MANIFEST_GUESS_BYTES)
    try:
        header = decode_header(data)
    except Corrupt as error:
        raise Corrupt(f"{error} key={key}") from error
    size = header.body_at + header.body_bytes
    if size > MANIFEST_BYTES_MAX:
        raise Corrupt(f"manifest too large: key={key} bytes={size} max={MANIFEST_BYTES_MAX}")
    if len(data) < size:
        data += yield from get_retrying(key, len(data), size - len(data))
    if len(data) != size:
        raise Corrupt(f"manifest cut short: key={key} bytes={len(data)} need={size}")
    manifest = yield from sliced(decode_manifest_in_slices(data, batch, cluster_id=cluster_id))
    body = memoryview(data)[header.body_at :]
    if (yield from sliced(crc32c_in_slices(body))) != header.body_crc:
        raise Corrupt(f"manifest fails its checksum: key={key}")
    return ReadManifest(manifest, data)


def _read_staged_index(batch: SinkBatch, ref: StagedRef, cluster_id: bytes) -> Steps[StagedIndex]:
    key = ref.name.key(batch)
    guess = min(FRONT_GUESS_BYTES, max(ref.size_bytes, HEADER_BYTES))
    data = yield from read_staged_bytes(key, 0, guess)
    try:
        body_at = decode_header(data).body_at
    except Corrupt as error:
        raise Corrupt(f"{error} key={key}") from error
    if body_at > min(ref.size_bytes, FRONT_BYTES_MAX):
        raise Corrupt(f"index of a staged object too large: key={key} bytes={body_at} need={ref}")
    if len(data) < body_at:
        data += yield from read_staged_bytes(key, len(data), body_at - len(data))
    front = memoryview(data)[:body_at]
    return (yield from sliced(decode_staged(front, batch, ref, cluster_id=cluster_id)))


def read_staged_bytes(key: str, start: int, length: int) -> Steps[bytes]:
    """Bytes of a staged object that a manifest names, fewer where it ends. Raises `Corrupt`."""
    try:
        return (yield from get_retrying(key, start, length))
    except NotFound as error:
        raise Corrupt(f"staged object is gone: key={key}; its manifest names it") from error
