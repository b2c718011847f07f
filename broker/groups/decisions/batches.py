"""Changes as record batches of `__consumer_offsets`, and back. Pure."""

from collections.abc import Iterator, Sequence

from broker.groups.decisions.formats import (
    CommittedOffset,
    GroupValue,
    Key,
    NewerVersion,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_key,
    encode_offset,
)
from broker.groups.decisions.newer_records import NewerRecord, newer_key
from broker.groups.decisions.outcome import Change
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


def encode_newer(records: Sequence[NewerRecord], *, now_ms: int) -> bytes:
    """One batch with the records as they were."""
    return encode_batch(records_of([(one.key, one.value) for one in records], timestamp=now_ms))


def decode_changes(batch: Buffer) -> Iterator[Change | NewerRecord | None]:
    """The batch's records; None for one that is damaged, or has no key.

    Such may be bytes that another program appended: the records after them must not be lost for
    that. Raises `Corrupt` when the batch itself cannot be decoded.
    """
    for record in decode_records(batch, max_bytes=DECODED_BYTES_MAX):
        if record.key is None:
            yield None
            continue
        try:
            yield _change(bytes(record.key), record.value)
        except Corrupt:
            yield None


def _change(key_data: bytes, value_data: Buffer | None) -> Change | NewerRecord:
    key = decode_key(key_data)
    value = None if value_data is None else bytes(value_data)
    if key is None:
        return newer_key(key_data, value)
    try:
        return _known(key, value)
    except NewerVersion:
        return NewerRecord(key_data, value, key.group, key)


def _known(key: Key, value_data: bytes | None) -> Change:
    if isinstance(key, OffsetKey):
        return key, None if value_data is None else decode_offset(value_data)
    return key, None if value_data is None else decode_group(value_data)


def _value(value: CommittedOffset | GroupValue | None) -> bytes | None:
    if value is None:
        return None
    return encode_offset(value) if isinstance(value, CommittedOffset) else encode_group(value)
