"""The one place where an error becomes a Kafka error code.

Errors of the broker itself get codes that clients retry; UNKNOWN_SERVER_ERROR is fatal to
producers, so only unforeseen exceptions are mapped to it.
"""

from broker.answers.decisions.refuse import Refuse
from logstore import errors
from logstore.config.kinds import InvalidConfig
from logstore.epoch.confirmations import NotKnownEverywhere
from logstore.epoch.leader import NotLeading, ProducerRefused, Refusal
from logstore.epoch.topic_changes import NotAlive
from logstore.protocol.access.acls import TooManyAcls
from logstore.protocol.deletion.records_deletion import OffsetOutOfRange
from logstore.protocol.leading.broker_removal import BrokerNotOver, UnknownBroker
from logstore.protocol.rows.quotas import TooManyQuotas
from logstore.protocol.topics.life import BadPartitionCount, BadTopicName, TopicExists, UnknownTopic
from logstore.reading.brokers.history import BadTable
from logstore.records.batch import BadBatch, Reason
from logstore.wire.errors import ErrorCode

CODES: dict[type[errors.LogstoreError], ErrorCode] = {
    errors.LogstoreError: ErrorCode.UNKNOWN_SERVER_ERROR,
    errors.Unavailable: ErrorCode.KAFKA_STORAGE_ERROR,
    # A repeat of an idempotent producer's batch is found by its sequence, so a retry is safe.
    errors.OutcomeUnknown: ErrorCode.REQUEST_TIMED_OUT,
    errors.NotFound: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.AlreadyExists: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.ConditionFailed: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.Fenced: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    NotLeading: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.Corrupt: ErrorCode.CORRUPT_MESSAGE,
    BadTable: ErrorCode.KAFKA_STORAGE_ERROR,  # consumers wait; a corrupt message ends Java's
    errors.Refused: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.Invalid: ErrorCode.INVALID_REQUEST,
    TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    BadTopicName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    BadPartitionCount: ErrorCode.INVALID_PARTITIONS,
    InvalidConfig: ErrorCode.INVALID_CONFIG,
    NotAlive: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    UnknownBroker: ErrorCode.BROKER_ID_NOT_REGISTERED,
    BrokerNotOver: ErrorCode.REQUEST_TIMED_OUT,
    NotKnownEverywhere: ErrorCode.REQUEST_TIMED_OUT,
    TooManyAcls: ErrorCode.POLICY_VIOLATION,
    TooManyQuotas: ErrorCode.POLICY_VIOLATION,
}

BATCH_CODES: dict[Reason, ErrorCode] = {
    Reason.TRUNCATED: ErrorCode.CORRUPT_MESSAGE,
    Reason.BAD_CRC: ErrorCode.CORRUPT_MESSAGE,
    Reason.BAD_MAGIC: ErrorCode.INVALID_RECORD,
    Reason.BAD_COUNT: ErrorCode.INVALID_RECORD,
    Reason.BAD_PRODUCER: ErrorCode.INVALID_RECORD,
    Reason.BAD_RECORD: ErrorCode.INVALID_RECORD,
    Reason.BAD_PAYLOAD: ErrorCode.INVALID_RECORD,
    Reason.TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
    Reason.UNKNOWN_CODEC: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
}

PRODUCER_CODES: dict[Refusal, ErrorCode] = {
    # Never PRODUCER_FENCED: Java recovers from the one and not from the other (KIP-588).
    Refusal.STALE_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    Refusal.OUT_OF_ORDER: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}


def code_of(error: errors.LogstoreError) -> ErrorCode:
    """The code that the error names itself, else that of its nearest class in `CODES`.

    The error goes no further, so its frames are let go: one of them may hold it, and with it the
    whole request, of which there may be 50,000 items.
    """
    errors.without_frames(error)
    if isinstance(error, Refuse):
        return error.code
    if isinstance(error, BadBatch):
        return BATCH_CODES[error.reason]
    if isinstance(error, ProducerRefused):
        return PRODUCER_CODES[error.refusal]
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
