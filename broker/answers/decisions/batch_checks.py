"""May this batch of a producer be appended? The rules that need no state of the partition. Pure.

What needs state (sequences of idempotent producers) `Leader.append` decides, what needs the records
`record_checks`. Kafka's are the order of the checks and the code of each refusal (`LogValidator`,
`ProduceRequest.validateRecords`).
"""

from broker.answers.decisions.record_checks import RECORD_ERRORS_MAX, RecordChecks, RefuseRecords
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.topic_rules import TopicRules
from logstore.records.batch import (
    CODEC_BITS,
    CODECS,
    CONTROL_BIT,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatch,
    Reason,
    check_batch,
    with_create_time,
    with_max_timestamp,
)
from logstore.wire.errors import ErrorCode

ZSTD_FROM = 7
"""First Produce version whose clients know zstd (KIP-110)."""

NO_BATCH = "no record batch: there must be exactly one per partition"

_ZSTD = CODECS.index("zstd")
_RARE_BITS = CONTROL_BIT | LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT


def check_produced(
    records: memoryview, rules: TopicRules, checks: RecordChecks, *, version: int, now_ms: int
) -> tuple[memoryview, BatchHeader]:
    """The one batch that `records` must be, in the form to store, and its header.

    As it came; only a largest timestamp that is not that of its records, and the type LogAppendTime
    are put right, in a copy, as Kafka does, and where the topic has a codec of its own, the records
    are in that. Raises `Refuse`, `BadBatch`, or `Retryable`: the topic changed under the request.
    """
    if not records:
        raise Refuse(ErrorCode.INVALID_RECORD, NO_BATCH)
    size = len(records)
    header = _checked(records, size)
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
        _refuse_bits(header, rules)
    if attributes & CODEC_BITS == _ZSTD and version < ZSTD_FROM:
        raise Refuse(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce {ZSTD_FROM} or newer: version={version}",
        )
    largest = checks.check(records, rules, now_ms)
    stored = checks.recompressed(records)
    if attributes & LOG_APPEND_TIME_BIT:
        return with_create_time(records if stored is None else stored[0], largest)
    if stored is not None:
        return stored
    if largest != header.max_timestamp and not rules.stamps_append_time:
        return with_max_timestamp(records, largest)
    return records, header


def check_base(header: BatchHeader) -> None:
    """Of a batch that a client sent, as Kafka does; those that a sink staged have bases."""
    if header.base_offset:
        raise Refuse(
            ErrorCode.INVALID_RECORD,
            f"offsets of a produced batch begin at 0: base_offset={header.base_offset}",
        )


def _checked(records: memoryview, size: int) -> BatchHeader:
    """A batch that is cut off is no batch to Kafka, and no corrupt one."""
    try:
        return check_batch(records, 0, size)
    except CorruptBatch as error:
        if error.reason is Reason.TRUNCATED:
            raise Refuse(ErrorCode.INVALID_RECORD, str(error)) from error
        raise


def _refuse_bits(header: BatchHeader, rules: TopicRules) -> None:
    """A topic that stamps the time itself takes no batch that claims to be stamped; others take the
    times that its records have, as Kafka does."""
    attributes = header.attributes
    if attributes & CONTROL_BIT:
        raise Refuse(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if attributes & TRANSACTIONAL_BIT:
        raise Refuse(ErrorCode.INVALID_TXN_STATE, "transactions are not supported by this version")
    if rules.stamps_append_time:
        raise RefuseRecords(
            ErrorCode.INVALID_TIMESTAMP,
            "clients may not set the timestamp type LogAppendTime",
            range(min(header.record_count, RECORD_ERRORS_MAX)),
        )
