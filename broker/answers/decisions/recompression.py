"""Batches of one request in the codec of their topics (`compression.type`).

They are packed where their records are checked (`record_checks`), and held until they are appended.
A batch must fit `max.message.bytes` as it came and as it is stored, as in Kafka. All that one
request holds is bounded as well: 2 KB may become a batch of 1 MiB, and a request has many.
"""

from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.topic_rules import TopicRules
from logstore.records.batch import BatchHeader
from logstore.records.crc32c import Buffer
from logstore.records.lookup import LOOKUP_BYTES_MAX
from logstore.records.recompress import pack, packed_batch, packed_bytes
from logstore.wire.errors import ErrorCode

_Stored = tuple[memoryview, BatchHeader]


class RecompressedBatches:
    """By identity of the view that the request holds."""

    def __init__(self) -> None:
        self._batches: dict[int, _Stored | Refuse] = {}
        self._left_bytes = LOOKUP_BYTES_MAX

    def admit(self, records: memoryview) -> None:
        """A batch of the request: as much as came may be held beyond `LOOKUP_BYTES_MAX`."""
        self._left_bytes += len(records)

    def add(
        self,
        records: memoryview,
        header: BatchHeader,
        payload: Buffer,
        rules: TopicRules,
        max_timestamp_ms: int,
    ) -> None:
        """Pack the checked `payload` of `records`, if its topic wants another codec."""
        target = rules.target
        if target is None or header.compression == target.codec:
            return
        if header.compression == "none":
            payload = bytes(payload)  # its connection may close, and others write to its buffer
        packed = pack(payload, target)
        size = packed_bytes(packed)
        stored: _Stored | Refuse
        if size > rules.batch_bytes_max:
            stored = Refuse(
                ErrorCode.MESSAGE_TOO_LARGE,
                "batch larger than max.message.bytes once it has the topic's compression.type: "
                f"codec={target.codec} bytes={size} max={rules.batch_bytes_max}",
            )
        elif size > rules.request_bytes_max:
            stored = Refuse(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                "batch larger than segment.bytes once it has the topic's compression.type: "
                f"codec={target.codec} bytes={size} max={rules.request_bytes_max}",
            )
        elif size > self._left_bytes:
            stored = Refuse(
                ErrorCode.MESSAGE_TOO_LARGE,
                "the batches of this request are too large together once they have their topics' "
                f"compression.type: bytes={size} left={self._left_bytes}; send fewer at a time",
            )
        else:
            self._left_bytes -= size
            stored = packed_batch(header, packed, target, max_timestamp_ms)
        self._batches[id(records)] = stored

    def take(self, records: memoryview) -> _Stored | None:
        """The batch to store in place of `records`, once; None: it is stored as it came.

        Raises `Refuse`.
        """
        stored = self._batches.pop(id(records), None)
        if isinstance(stored, Refuse):
            raise stored
        return stored
