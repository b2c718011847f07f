"""Transaction markers as Kafka writes them: the product passes control batches over unread.

    key     0  2  version            0
            2  2  type               0 abort, 1 commit
    value   0  2  version            0
            2  4  coordinator epoch

Source: KIP-98, Kafka's `ControlRecordType` and `EndTransactionMarker`.
"""

import struct

from logstore.records.encode import encode_batch
from logstore.records.record import Record

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


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
    return encode_batch(
        [Record(0, timestamp, _KEY.pack(0, commit), _VALUE.pack(0, coordinator_epoch))],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
