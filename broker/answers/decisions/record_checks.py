"""Are the records of a Produce what their batches say? Asked before anything of it is appended.

A batch with a right CRC and senseless records inside would end every consumer of its partition, for
good. So each record is read before it is stored, as Kafka's `LogValidator` does: lengths, count,
offsets, headers; its timestamp against the topic's range, its key on a compacted topic; and the
batch's largest timestamp is that of its records, whatever its header says.

Uncompressed batches cost some 0.1 ms a MB, and are read when they are appended. Others must be
unpacked, by the rules of the strictest consumer (`records.strict_frames`), and 2 KB may become 64
MiB: those that unpack to little are read at once, on the event loop, the rest of a request in a
thread (`run`), while the connection that sent it waits. A request may unpack to a multiple of its
own bytes, so a bomb costs its sender.

Batches whose topic has another codec are packed again in the same place (`recompression`): little
at once, where the codec is fast whatever it packs, the rest in the thread.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker.answers.decisions.recompression import RecompressedBatches
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.topic_rules import TopicRules
from logstore.errors import Retryable
from logstore.records.batch import (
    CODEC_BITS,
    CODECS,
    BadBatch,
    BatchHeader,
    CorruptBatch,
    Reason,
    read_header,
)
from logstore.records.compression import is_loaded
from logstore.records.decode import payload_of
from logstore.records.lookup import (
    LOOKUP_BYTES_MAX,
    CheckedRecords,
    check_payload,
    check_records,
    largest_timestamp_if_sound,
)
from logstore.wire.errors import ErrorCode

AT_ONCE_BYTES_MAX = 1 << 20
"""Unpacked, per request: the loop is held for some 6 ms, gzip and empty headers included."""

PLAIN_SHARE = 8
"""An uncompressed byte counts for so much less: there is nothing to unpack."""

PLAIN_BYTES_MAX = PLAIN_SHARE * AT_ONCE_BYTES_MAX

RECOMPRESSED_WEIGHT = 5
"""An unpacked byte that is packed again counts for so many, where the codec is a fast one."""

BATCH_BYTES = 4096
"""So much is charged for any batch that is not plain, beside its bytes: its calls take 10 us."""

RECOMPRESSED_BATCH_BYTES = 16 * 1024
"""And this for one that is packed again."""

GROWTH_MAX = 32
"""How many times its bytes a request may unpack to, beyond `LOOKUP_BYTES_MAX`."""

RECORD_ERRORS_MAX = 100

_CODEC_AT = 22  # the lower byte of a batch's attributes

_Verdict = CheckedRecords | BadBatch


class RefuseRecords(Refuse):
    """A batch is refused for some of its records; `indexes` are the first of them."""

    def __init__(self, code: ErrorCode, message: str, indexes: Sequence[int]) -> None:
        super().__init__(code, message)
        self.indexes = indexes


class _Waiting(NamedTuple):
    records: memoryview
    rules: TopicRules
    now_ms: int


class RecordChecks:
    """The batches of one request, by identity of the view that the request holds."""

    def __init__(self, at_once_bytes_max: int = AT_ONCE_BYTES_MAX) -> None:
        """`at_once_bytes_max` 0: `run` reads all of them."""
        self._verdicts: dict[int, tuple[_Verdict, TopicRules]] = {}
        self._waiting: list[_Waiting] = []
        self._recompressed = RecompressedBatches()
        self._at_once_left = at_once_bytes_max
        self._thread_left = LOOKUP_BYTES_MAX
        self.unpacked_bytes = 0
        """By `run`, of the batches that it could read."""

    def needs_thread(self) -> bool:
        return bool(self._waiting)

    def add(self, records: memoryview, rules: TopicRules, now_ms: int) -> None:
        """Read this batch now, if it unpacks to little; else `run` will.

        So it does with the first packed ones of a process: their thread loads the library of the
        codecs.
        """
        self._thread_left += GROWTH_MAX * len(records)
        self._recompressed.admit(records)
        charge = _charge(records, rules)
        left = charge.bytes_max(self._at_once_left)
        if len(records) > left or not (charge is _PLAIN_CHARGE or is_loaded()):
            self._waiting.append(_Waiting(records, rules, now_ms))
            return
        verdict = self._read(records, rules, now_ms, left)
        if isinstance(verdict, CorruptBatch) and verdict.reason is Reason.TOO_LARGE:
            self._at_once_left = 0
            self._waiting.append(_Waiting(records, rules, now_ms))
            return
        self._verdicts[id(records)] = verdict, rules
        self._at_once_left -= charge.of(_cost(verdict, left))

    def run(self, is_over: Callable[[], bool]) -> None:
        """Read the rest, until `is_over`. For a thread."""
        for records, rules, now_ms in self._waiting:
            if is_over():
                return
            bytes_max = min(LOOKUP_BYTES_MAX, self._thread_left)
            verdict = self._read(records, rules, now_ms, bytes_max)
            self._thread_left -= _cost(verdict, bytes_max)
            self.unpacked_bytes += 0 if isinstance(verdict, BadBatch) else verdict.payload_bytes
            self._verdicts[id(records)] = verdict, rules

    def check(self, records: memoryview, rules: TopicRules, now_ms: int) -> int:
        """The largest timestamp of the records, ms, -1 without any.

        Raises `RefuseRecords`, or the `BadBatch` that reading the records ended with.
        """
        verdict, judged_by = self._verdicts.get(id(records), (None, None))
        if verdict is None or judged_by != rules:
            raise Retryable("the topic's configuration changed under this request: send it again")
        return _judge(verdict, rules, now_ms)

    def recompressed(self, records: memoryview) -> tuple[memoryview, BatchHeader] | None:
        """The batch to store in place of the checked `records`, its largest timestamp right.

        Once; None: they are stored as they came. Raises `Refuse`.
        """
        return self._recompressed.take(records)

    def _read(
        self, records: memoryview, rules: TopicRules, now_ms: int, bytes_max: int
    ) -> _Verdict:
        try:
            header = read_header(records, 0, len(records))
            payload = payload_of(records, header, max_bytes=bytes_max, is_strict=True)
            checked = check_payload(
                records,
                header,
                payload,
                needs_keys=rules.is_compacted,
                timestamps=rules.timestamps_allowed(now_ms),
                indexes_max=RECORD_ERRORS_MAX,
            )
        except BadBatch as error:
            return error
        if not checked.mistimed.total and not checked.keyless.total:
            self._recompressed.add(records, header, payload, rules, checked.max_timestamp)
        return checked


class PlainChecks(RecordChecks):
    """Of a request with little more than uncompressed batches, on topics that store them as they
    are: each is read when it is appended."""

    def check(self, records: memoryview, rules: TopicRules, now_ms: int) -> int:
        if not is_plain(records) or len(records) > PLAIN_BYTES_MAX or rules.compresses_plain:
            raise Retryable("the topic came to be under this request: send it again")
        low, high = rules.timestamps_allowed(now_ms)
        largest = largest_timestamp_if_sound(records, rules.is_compacted, low, high)
        if largest is not None:
            return largest
        return _judge(_read_plain(records, rules, now_ms), rules, now_ms)

    def recompressed(self, records: memoryview) -> None:
        return None


class _Charge(NamedTuple):
    """Cost of reading a batch on the event loop: `fixed`, and `weight / share` for each byte."""

    fixed: int
    weight: int
    share: int

    def bytes_max(self, left: int) -> int:
        """How many bytes may be unpacked for `left`."""
        return max(left - self.fixed, 0) * self.share // self.weight if self.weight else -1

    def of(self, payload_bytes: int) -> int:
        return self.fixed + payload_bytes * self.weight // self.share


_PLAIN_CHARGE = _Charge(0, 1, PLAIN_SHARE)
_PACKED_CHARGE = _Charge(BATCH_BYTES, 1, 1)
_RECOMPRESSED_CHARGE = _Charge(RECOMPRESSED_BATCH_BYTES, RECOMPRESSED_WEIGHT, 1)
_THREAD_CHARGE = _Charge(0, 0, 1)


def _charge(records: memoryview, rules: TopicRules) -> _Charge:
    target = rules.target
    if target is not None and _codec_bits(records) != CODECS.index(target.codec):
        return _RECOMPRESSED_CHARGE if target.is_fast else _THREAD_CHARGE
    return _PLAIN_CHARGE if is_plain(records) else _PACKED_CHARGE


def _codec_bits(records: memoryview) -> int:
    return records[_CODEC_AT] & CODEC_BITS if len(records) > _CODEC_AT else 0


def is_plain(records: memoryview) -> bool:
    """Whether a batch says that it is not compressed. Of any bytes."""
    return not _codec_bits(records)


def _read_plain(records: memoryview, rules: TopicRules, now_ms: int) -> _Verdict:
    try:
        return check_records(
            records,
            needs_keys=rules.is_compacted,
            timestamps=rules.timestamps_allowed(now_ms),
            indexes_max=RECORD_ERRORS_MAX,
            max_bytes=len(records),
        )
    except BadBatch as error:
        return error


def _judge(verdict: _Verdict, rules: TopicRules, now_ms: int) -> int:
    if isinstance(verdict, BadBatch):
        raise verdict
    if verdict.mistimed.total:
        low, high = rules.timestamps_allowed(now_ms)
        raise RefuseRecords(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamps out of range: count={verdict.mistimed.total} allowed={low}..{high} "
            f"by message.timestamp.before.max.ms={rules.before_ms_max} "
            f"message.timestamp.after.max.ms={rules.after_ms_max}",
            verdict.mistimed.indexes,
        )
    if verdict.keyless.total:
        raise RefuseRecords(
            ErrorCode.INVALID_RECORD,
            f"records without a key on a compacted topic: count={verdict.keyless.total}",
            verdict.keyless.indexes,
        )
    return verdict.max_timestamp


def _cost(verdict: _Verdict, bytes_max: int) -> int:
    """Bytes to charge: a batch that cannot be read may have been unpacked before that showed."""
    return bytes_max if isinstance(verdict, BadBatch) else verdict.payload_bytes
