"""Changes as record batches, and back: what is appended to `__consumer_offsets`. Pure."""

from collections.abc import Iterator, Sequence

from broker.groups.formats import (
    CommittedOffset,
    GroupValue,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_key,
    encode_offset,
)
from broker.groups.outcome import Change
from logstore.errors import Corrupt
from logstore.records.crc32c import Buffer
from logstore.records.decode import decode_records
from logstore.records.encode import encode_batch, records_of

DECODED_BYTES_MAX = 64 * 1024 * 1024


def encode_changes(changes: Sequence[Change], *, now_ms: int) -> bytes:
    """One batch."""
    return encode_batch(
        records_of([(encode_key(key), _value(value)) for key, value in changes], timestamp=now_ms)
    )


def decode_changes(batch: Buffer) -> Iterator[Change | None]:
    """The batch's records; None for one that means nothing here.

    Such may be of a kind that is not ours, or bytes that somebody else appended: the records after
    them must not be lost for that. Raises `Corrupt` when the batch itself cannot be decoded.
    """
    for record in decode_records(batch, max_bytes=DECODED_BYTES_MAX):
        if record.key is None:
            yield None
            continue
        try:
            yield _change(bytes(record.key), record.value)
        except Corrupt:
            yield None


def _change(key_data: bytes, value_data: Buffer | None) -> Change | None:
    key = decode_key(key_data)
    if key is None:
        return None
    if isinstance(key, OffsetKey):
        return key, None if value_data is None else decode_offset(bytes(value_data))
    return key, None if value_data is None else decode_group(bytes(value_data))


def _value(value: CommittedOffset | GroupValue | None) -> bytes | None:
    if value is None:
        return None
    return encode_offset(value) if isinstance(value, CommittedOffset) else encode_group(value)
