"""Answers that wait until their records are committed: one wait per segment, each bounded.

The store may be slow for longer than a client waits. Then the client gets an error and looks for
the coordinator again (Kafka's `offsets.commit.timeout.ms`); its records may still be committed.
"""

from collections.abc import Callable

from broker.groups.log_port import PartitionLog
from broker.network.timers import Timers
from logstore.errors import LogstoreError
from logstore.wire.errors import ErrorCode

Done = Callable[[ErrorCode], None]


class Promises:
    def __init__(self, log: PartitionLog, timers: Timers, timeout_s: float) -> None:
        self._log = log
        self._timers = timers
        self._timeout_s = timeout_s
        self._waits: dict[int, _Wait] = {}

    def when_committed(self, seq: int, done: Done) -> None:
        """Call `done` with NONE once `seq` is committed, or with the error to answer."""
        if seq < self._log.committed_end:
            done(ErrorCode.NONE)
            return
        wait = self._waits.get(seq)
        if wait is not None:
            wait.waiting.append(done)
            return
        wait = self._waits[seq] = _Wait(self, seq, done)
        self._timers.set(wait, self._timeout_s)
        self._log.when_committed(seq, wait.committed)

    def close(self) -> None:
        """Another broker leads the partition now."""
        for wait in list(self._waits.values()):
            self.end(wait, ErrorCode.NOT_COORDINATOR)

    def end(self, wait: "_Wait", code: ErrorCode) -> None:
        if self._waits.get(wait.seq) is wait:
            del self._waits[wait.seq]
        self._timers.unset(wait)
        waiting, wait.waiting = wait.waiting, []
        for done in waiting:
            done(code)


class _Wait:
    __slots__ = ("_promises", "seq", "timer_bucket", "waiting")

    def __init__(self, promises: Promises, seq: int, first: Done) -> None:
        self._promises = promises
        self.seq = seq
        self.waiting = [first]
        self.timer_bucket = 0

    def committed(self, error: LogstoreError | None) -> None:
        code = ErrorCode.NONE if error is None else ErrorCode.NOT_COORDINATOR
        self._promises.end(self, code)

    def time_out(self) -> None:
        self._promises.end(self, ErrorCode.COORDINATOR_NOT_AVAILABLE)
