"""What Apache Kafka's own classes say of a batch, and what this product says, in the same words."""

import hashlib
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from broker.answers.decisions.batch_checks import check_produced
from broker.answers.decisions.record_checks import RecordChecks
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.topic_rules import TopicRules
from broker.answers.error_codes import code_of
from logstore.config.broker import BrokerSettings
from logstore.errors import LogstoreError
from logstore.records.batch import CorruptBatch, Reason
from logstore.records.crc32c import Buffer
from logstore.records.decode import decode_records
from logstore.records.lookup import LOOKUP_BYTES_MAX
from logstore.records.record import Record
from logstore.wire.errors import ErrorCode
from tests.clients.java_users import judge_command
from tests.clients.payloads.record_bytes import FIRST_MS

JUDGE_S = 600.0
PRODUCE = 9
_DIGEST_CHARS = 32
_RULES = TopicRules.of(
    "t",
    {"message.timestamp.after.max.ms": str(2**63 - 1), "max.message.bytes": str(1 << 26)},
    BrokerSettings({}).topic_defaults,
)


class Verdict(NamedTuple):
    digest: str
    """Of the records that a consumer reads; empty: they cannot be read, or are not stored."""
    why: str
    """An error's name."""
    code: str = ""
    """Of Kafka's broker, where it refuses."""


def java_verdicts(batches: Sequence[bytes]) -> list[Verdict]:
    """Whether Kafka's broker stores each batch and Kafka's consumer reads what is stored."""
    with tempfile.TemporaryFile() as asked:
        for batch in batches:
            asked.write(struct.pack(">i", len(batch)) + batch)
        asked.seek(0)
        ran = subprocess.run(
            judge_command(), stdin=asked, capture_output=True, timeout=JUDGE_S, check=False
        )
    assert not ran.returncode, ran.stderr.decode()[-2000:]
    verdicts = [_of_java(*line.split()) for line in ran.stdout.decode().splitlines()]
    assert len(verdicts) == len(batches), ran.stderr.decode()[-2000:]
    return verdicts


def _of_java(sent: str, broker: str, stored: str) -> Verdict:
    """A batch that the broker takes as it is reads like the sent one; else it was made right."""
    if broker != "taken":
        return Verdict("", f"broker={broker}", broker.split(":")[0])
    if len(stored) != _DIGEST_CHARS:
        return Verdict("", f"consumer={stored}")
    return Verdict(stored, "" if sent == stored else f"rewritten, sent={sent}")


def our_verdict(batch: bytes) -> Verdict:
    """Whether Produce takes the batch, and what our reader reads of what is stored."""
    records = memoryview(batch)
    checks = RecordChecks()
    try:
        checks.add(records, _RULES, FIRST_MS)
        checks.run(lambda: False)
        stored, _ = check_produced(records, _RULES, checks, version=PRODUCE, now_ms=FIRST_MS)
    except Refuse as error:
        return Verdict("", f"{ErrorCode(error.code).name} {error}")
    except CorruptBatch as error:
        return Verdict("", f"{code_of(error).name} {_explained(batch, error)}")
    except LogstoreError as error:
        return Verdict("", f"{code_of(error).name} {error}")
    return Verdict(digest_of(bytes(stored)), "")


def _explained(batch: bytes, error: CorruptBatch) -> CorruptBatch:
    """The native codec says where a record is bad; its twin says what is bad."""
    if error.reason is Reason.BAD_RECORD:
        try:
            decode_records(batch, max_bytes=LOOKUP_BYTES_MAX)
        except CorruptBatch as named:
            return named
    return error


def digest_of(batch: bytes) -> str:
    """As `PayloadJudge.java` computes it. Raises `CorruptBatch`."""
    return digest_of_records(decode_records(batch, max_bytes=LOOKUP_BYTES_MAX))


def digest_of_records(records: Iterable[Record]) -> str:
    sha = hashlib.sha256()
    for record in records:
        sha.update(struct.pack(">qq", record.offset_delta, record.timestamp))
        for data in (record.key, record.value):
            sha.update(_sized(data))
        sha.update(struct.pack(">i", len(record.headers)))
        for name, value in record.headers:
            sha.update(_sized(name.encode()) + _sized(value))
    return sha.hexdigest()[:_DIGEST_CHARS]


def _sized(data: Buffer | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + bytes(data)
