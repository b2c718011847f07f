"""Compaction runs on one log, one after the other: takes the lease for each, or names its holder.

The view of the log is cached between runs, so a run every minute reads only changes.
"""

import os
import secrets
import socket
from collections.abc import Mapping

from logstore.compaction.commit import CommitTables
from logstore.compaction.decisions.run_rows import RunId, read_run
from logstore.compaction.decisions.summary import Summary, added
from logstore.compaction.leased_rows import LEASE_S, Busy, LeasedRows
from logstore.compaction.run import run_once
from logstore.compaction.session import Carrier, Ports, RunOptions, Session, Watch
from logstore.errors import LogstoreError
from logstore.history.delta import Tables
from logstore.history.forms.snapshot import Snapshot
from logstore.ports.clock import Clock, SystemClock
from logstore.prices import Requests
from logstore.protocol.chain.follow import ROW_AGE_S_MAX
from logstore.reading.direct.reader import LogReader
from logstore.wiring.open import ReadableLog, open_readable

OWNER_BITS = 31


def _unwatched(_: str) -> None:
    """Does nothing."""


class Compactor:
    """`tables` are the log's unless given; `row_age_s_max` is as for `LogReader`. Not for several
    threads at once.
    """

    def __init__(
        self,
        url: str,
        storage: Mapping[str, str],
        carrier: Carrier,
        *,
        clock: Clock | None = None,
        lease_s: float = LEASE_S,
        tables: CommitTables | None = None,
        row_age_s_max: float = ROW_AGE_S_MAX,
    ) -> None:
        self._row_age_s_max = row_age_s_max
        self._url = url
        self._storage = storage
        self._carrier = carrier
        self._clock = clock or SystemClock()
        self._lease_s = lease_s
        self._given_tables = tables
        self._log: ReadableLog | None = None
        self._reader: LogReader | None = None
        self._known: dict[bytes, Snapshot] = {}

    def run(self, options: RunOptions, wait_s: float = 0.0, watch: Watch = _unwatched) -> Summary:
        """Take the compaction lease, waiting up to `wait_s`, and make one run (`run.run_once`).

        `watch` is given the name of each step. Raises `Busy` if another run still has the lease.
        After an error the next run reads everything again.
        """
        began_s = self._clock.monotonic_s()
        run = RunId(self._clock.now_ms(), secrets.randbits(OWNER_BITS))
        log, reader = self._open()
        rows = LeasedRows(
            self._url,
            self._storage,
            owner=run.owner,
            owner_epoch=run.began_ms,
            lease_s=self._lease_s,
            clock=self._clock,
        )
        try:
            watch("lease")
            self._acquire(rows, wait_s)
            before = log.counts.requests()
            tables = self._given_tables or Tables(self._url, self._storage, store=log.runner.store)
            ports = Ports(
                rows=rows,
                reader=reader,
                tables=tables,
                store=log.runner.store,
                carrier=self._carrier,
                clock=self._clock,
                watch=watch,
            )
            session = Session(run, options, ports, self._known)
            run_once(session, f"{socket.gethostname()}, process {os.getpid()}")
            spent = _less(log.counts.requests(), before)
            session.summary.add_requests(added(spent, rows.log.counts.requests()))
            session.summary.seconds = self._clock.monotonic_s() - began_s
            return session.summary
        except LogstoreError:
            self._forget()  # it may have been that what we knew is no longer so
            raise
        finally:
            rows.close()

    def close(self) -> None:
        self._forget()
        self._carrier.close()

    def _open(self) -> tuple[ReadableLog, LogReader]:
        if self._log is None or self._reader is None:
            self._log = open_readable(self._url, self._storage)
            self._reader = LogReader(self._log, row_age_s_max=self._row_age_s_max)
        return self._log, self._reader

    def _forget(self) -> None:
        if self._log is not None:
            self._log.close()
        self._log = self._reader = None
        self._known = {}

    def _acquire(self, rows: LeasedRows, wait_s: float) -> None:
        try:
            rows.acquire(wait_s)
        except Busy as busy:
            other = RunId(busy.holder.owner_epoch, busy.holder.owner)
            row = rows.perform(read_run(other))
            minutes = max(0, self._clock.now_ms() - other.began_ms) / 60_000
            raise Busy(
                busy.holder,
                f"another compaction run is in progress: run={other} "
                f"by={'?' if row is None else row.by} for={minutes:.1f} min; "
                "let it end, or wait for it: --wait SECONDS",
            ) from busy


def _less(now: Requests, before: Requests) -> Requests:
    return Requests(
        now.creates - before.creates,
        now.gets - before.gets,
        now.lists - before.lists,
        now.deletes - before.deletes,
    )
