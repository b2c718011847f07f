"""Transaction markers: the one record of a control batch that ends a transaction.

    key     0  2  version            0
            2  2  type               0 abort, 1 commit; other control records: any other
    value   0  2  version            0 (1 from Kafka 4.0 on, with more fields behind)
            2  4  coordinator epoch

Source: KIP-98, Kafka's `ControlRecordType` and `EndTransactionMarker`.
"""

import struct
from typing import NamedTuple

from logstore.records.batch import CorruptBatch, Reason
from logstore.records.crc32c import Buffer
from logstore.records.encode import encode_batch
from logstore.records.record import Record

ABORT = 0
COMMIT = 1

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class ControlKey(NamedTuple):
    version: int
    type: int


def encode_marker(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """A whole control batch of one marker. `timestamp` in ms."""
    key = _KEY.pack(0, COMMIT if commit else ABORT)
    return encode_batch(
        [Record(0, timestamp, key, _VALUE.pack(0, coordinator_epoch))],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def decode_control_key(key: Buffer | None) -> ControlKey:
    """Version and type of a control record. Raises `CorruptBatch` (BAD_RECORD)."""
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch(Reason.BAD_RECORD, 0, f"control key too short: key={key!r}")
    return ControlKey(*_KEY.unpack_from(key))


def decode_coordinator_epoch(value: Buffer | None) -> int:
    """Coordinator epoch of a transaction marker. Raises `CorruptBatch` (BAD_RECORD)."""
    if value is None or len(value) < _VALUE.size:
        raise CorruptBatch(Reason.BAD_RECORD, 0, f"marker value too short: value={value!r}")
    _, epoch = _VALUE.unpack_from(value)
    return int(epoch)
