"""May this batch of a producer be appended? The rules that need no state of the partition. Pure.

What needs state (sequences of idempotent producers) `Leader.append` decides. Headers suffice for
all but one rule: on compacted topics every record must have a key (`key_checks`). Kafka's are the
order of the checks and the code of each refusal (`LogValidator`, `ProduceRequest.validateRecords`).
"""

from broker.answers.errors import Refuse
from broker.answers.key_checks import KeyChecks, RefuseRecords
from broker.answers.topic_rules import TopicRules
from logstore.records.batch import (
    CODEC_BITS,
    CODECS,
    CONTROL_BIT,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    check_batch,
)
from logstore.wire.errors import ErrorCode

ZSTD_FROM = 7
"""First Produce version whose clients know zstd (KIP-110)."""

NO_TIMESTAMP = -1
NO_BATCH = "no record batch: there must be exactly one per partition"

_ZSTD = CODECS.index("zstd")
_RARE_BITS = CONTROL_BIT | LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT


def check_produced(
    records: memoryview, rules: TopicRules, keys: KeyChecks, *, version: int, now_ms: int
) -> BatchHeader:
    """The header of the one batch that `records` must be. Raises `Refuse` or `BadBatch`."""
    if not records:
        raise Refuse(ErrorCode.INVALID_RECORD, NO_BATCH)
    size = len(records)
    header = check_batch(records, 0, size)
    if header.batch_length + LENGTH_END != size:
        raise Refuse(
            ErrorCode.INVALID_RECORD,
            f"more than one record batch for a partition: bytes={size} first={header.size_bytes}",
        )
    if size > rules.batch_bytes_max:
        raise Refuse(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch larger than max.message.bytes: bytes={size} max={rules.batch_bytes_max}",
        )
    if size > rules.request_bytes_max:
        raise Refuse(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"batch larger than segment.bytes: bytes={size} max={rules.request_bytes_max}",
        )
    attributes = header.attributes
    if attributes & _RARE_BITS:
        _refuse_bits(attributes)
    if attributes & CODEC_BITS == _ZSTD and version < ZSTD_FROM:
        raise Refuse(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce {ZSTD_FROM} or newer: version={version}",
        )
    is_odd = (
        header.max_timestamp > now_ms + rules.after_ms_max
        or header.base_timestamp < now_ms - rules.before_ms_max
    )
    if is_odd and not rules.stamps_append_time:
        _check_timestamps(header, rules, now_ms)
    if rules.is_compacted:
        keys.check(records)
    return header


def _refuse_bits(attributes: int) -> None:
    if attributes & CONTROL_BIT:
        raise Refuse(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if attributes & LOG_APPEND_TIME_BIT:
        raise Refuse(
            ErrorCode.INVALID_TIMESTAMP, "clients may not set the timestamp type LogAppendTime"
        )
    raise Refuse(ErrorCode.INVALID_TXN_STATE, "transactions are not supported by this version")


def _check_timestamps(header: BatchHeader, rules: TopicRules, now_ms: int) -> None:
    """The first record's and the latest timestamp; one in between would need decoding."""
    first, latest = header.base_timestamp, header.max_timestamp
    if latest != NO_TIMESTAMP and latest > now_ms + rules.after_ms_max:
        index = 0 if first == latest else header.record_count - 1
        raise RefuseRecords(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp too far ahead: timestamp={latest} now={now_ms} "
            f"message.timestamp.after.max.ms={rules.after_ms_max}",
            [index],
        )
    if first != NO_TIMESTAMP and first < now_ms - rules.before_ms_max:
        raise RefuseRecords(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp too far behind: timestamp={first} now={now_ms} "
            f"message.timestamp.before.max.ms={rules.before_ms_max}",
            [0],
        )
