"""Do all records for compacted topics have a key? Asked of a whole Produce before it is appended.

The records must be unpacked for it, and 2 KB may become 64 MiB. Batches that unpack to little are
read at once, on the event loop; the others in a thread (`run`), while the connection that sent them
waits. A request may unpack to a multiple of its own bytes, so a bomb costs its sender.
"""

from collections.abc import Callable, Sequence

from broker.answers.errors import Refuse
from logstore.errors import Retryable
from logstore.records.batch import BadBatch, CorruptBatch, Reason
from logstore.records.lookup import LOOKUP_BYTES_MAX, Keyless, records_without_key
from logstore.wire.errors import ErrorCode

AT_ONCE_BYTES_MAX = 1 << 20
"""Unpacked, per request: the loop is held for some 6 ms, gzip and empty headers included."""

GROWTH_MAX = 32
"""How many times its bytes a request may unpack to, beyond `LOOKUP_BYTES_MAX`."""

RECORD_ERRORS_MAX = 100


class RefuseRecords(Refuse):
    """A batch is refused for some of its records; `indexes` are the first of them."""

    def __init__(self, code: ErrorCode, message: str, indexes: Sequence[int]) -> None:
        super().__init__(code, message)
        self.indexes = indexes


class KeyChecks:
    """The batches of one request, by identity of the view that the request holds."""

    def __init__(self) -> None:
        self._verdicts: dict[int, Keyless | BadBatch] = {}
        self._waiting: list[memoryview] = []
        self._at_once_left = AT_ONCE_BYTES_MAX
        self._thread_left = LOOKUP_BYTES_MAX

    def needs_thread(self) -> bool:
        return bool(self._waiting)

    def add(self, records: memoryview) -> None:
        """Read the keys of this batch now, if it unpacks to little; else `run` will."""
        self._thread_left += GROWTH_MAX * len(records)
        left = self._at_once_left
        if len(records) > left:
            self._waiting.append(records)
            return
        verdict = _read(records, left)
        if isinstance(verdict, CorruptBatch) and verdict.reason is Reason.TOO_LARGE:
            self._at_once_left = 0
            self._waiting.append(records)
            return
        self._verdicts[id(records)] = verdict
        self._at_once_left -= _cost(verdict, left)

    def run(self, is_over: Callable[[], bool]) -> None:
        """Read the rest, until `is_over`. For a thread."""
        for records in self._waiting:
            if is_over():
                return
            bytes_max = min(LOOKUP_BYTES_MAX, self._thread_left)
            verdict = _read(records, bytes_max)
            self._thread_left -= _cost(verdict, bytes_max)
            self._verdicts[id(records)] = verdict

    def check(self, records: memoryview) -> None:
        """Raises `RefuseRecords`, or the `BadBatch` that reading the records ended with."""
        verdict = self._verdicts.get(id(records))
        if verdict is None:
            raise Retryable("the topic's configuration changed under this request: send it again")
        if isinstance(verdict, BadBatch):
            raise verdict
        if verdict.total:
            raise RefuseRecords(
                ErrorCode.INVALID_RECORD,
                f"records without a key on a compacted topic: count={verdict.total}",
                verdict.indexes,
            )


def _read(records: memoryview, bytes_max: int) -> Keyless | BadBatch:
    try:
        return records_without_key(records, indexes_max=RECORD_ERRORS_MAX, max_bytes=bytes_max)
    except BadBatch as error:
        return error


def _cost(verdict: Keyless | BadBatch, bytes_max: int) -> int:
    """Bytes to charge: a batch that cannot be read may have been unpacked before that showed."""
    return bytes_max if isinstance(verdict, BadBatch) else verdict.payload_bytes
