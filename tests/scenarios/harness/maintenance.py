"""Compaction, an owner's OPTIMIZE, trimming and, if asked, a sweep of sinks' staging in a loop.

    python -m tests.scenarios.harness.maintenance --url URL [--endpoint URL] [--optimize-every N]
        [--gate FILE] [--sweep] [--pause S]

    compacted rows=<n>           `logstore compact --now` ended well
    compacted code=<n>           … or did not
    optimized removed=<n>        an OPTIMIZE of the table that knows nothing of logstore
    trimmed objects=<n>          what `logstore gc` does, with a grace of seconds
    swept objects=<n> left=<n>   … with --sweep: staged objects deleted, batches that have some left
    held                         the file FILE exists: no round begins until it does not

Until SIGTERM, after which what is going on is ended, or a kill.
"""

import argparse
import asyncio
import contextlib
import io
import json
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from logstore.cli.log.gc import sweep_sinks
from logstore.cli.main import main as logstore
from logstore.epoch.durable_table_ends import DurableTableEnds
from logstore.epoch.table_queries import ThreadedTableQueries
from logstore.history.delta import Tables
from logstore.history.forms.names import TABLES
from logstore.ports.clock import SystemClock
from logstore.protocol.deletion.trimming import Trimmer
from logstore.protocol.rows.metadata import read_table_rows
from logstore.stores.location import ForeignLocation, parse_location
from logstore.wiring.open import OpenLog, open_existing, open_objects
from tools.demo.delta_options import delta_options

T = TypeVar("T")

GRACE_MS = 3_000
LOOK_S = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--optimize-every", type=int, default=3)
    parser.add_argument("--gate", type=Path, help="while this file exists, no round begins")
    parser.add_argument("--endpoint", help="of the S3 server that a log in a bucket is on")
    parser.add_argument("--sweep", action="store_true", help="delete what sinks staged, too")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two rounds")
    options = parser.parse_args()
    log = KeptLog(options.url, options.endpoint)

    stopping: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    number = 0
    while not stopping:
        await_gate(options.gate, stopping)
        number += 1
        print(log.compact())
        if number % options.optimize_every == 0:
            print(f"optimized removed={log.optimize()}")
        print(f"trimmed objects={log.trim()}")
        if options.sweep:
            print(log.sweep())
        pause(options.pause, stopping)
    return 0


def pause(seconds: float, stopping: list[bool]) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s and not stopping:
        time.sleep(LOOK_S)


def await_gate(gate: Path | None, stopping: list[bool]) -> None:
    if gate is not None and gate.exists():
        print("held", flush=True)
        while gate.exists() and not stopping:
            time.sleep(LOOK_S)


@dataclass(frozen=True, slots=True)
class KeptLog:
    """A log that is taken care of without its brokers."""

    url: str
    endpoint: str | None = None

    @property
    def storage(self) -> dict[str, str]:
        return {"storage.endpoint": self.endpoint} if self.endpoint else {}

    def command(self, name: str, *more: str) -> tuple[int, str]:
        """Exit code and output of a `logstore` command on this log."""
        given = [f"--set={name}={value}" for name, value in self.storage.items()]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = logstore([name, "--url", self.url, *given, *more])
        return code, said.getvalue()

    def compact(self) -> str:
        code, said = self.command("compact", "--now", "--json")
        return f"compacted code={code}" if code else f"compacted rows={json.loads(said)['rows']}"

    def trim(self) -> int:
        """As `logstore gc` does, with a grace of seconds; how many objects were deleted."""
        return asyncio.run(self._opened(self._trim))

    def sweep(self) -> str:
        """As `logstore gc` does, with a grace of seconds."""
        swept = asyncio.run(self._opened(lambda log: sweep_sinks(log, grace_ms=GRACE_MS)))
        return f"swept objects={swept.objects} left={swept.waiting}"

    def optimize(self) -> int:
        """Files that were merged into others, of all tables; -1 where another writer was faster."""
        location = parse_location(self.url)
        assert not isinstance(location, ForeignLocation), self.url
        root, options = delta_options(location, self.storage)
        count = 0
        for key in {key.rpartition("/_delta_log/")[0] for key in self.keys(f"{TABLES}/")} - {""}:
            with contextlib.suppress(DeltaError):
                table = DeltaTable(f"{root}/{key}", storage_options=options)
                count += int(table.optimize.compact()["numFilesRemoved"])
        return count

    def keys(self, prefix: str) -> list[str]:
        """Of the stored objects that begin so."""
        store = open_objects(self.url, self.storage)
        try:
            return [info.key for info in store.list(prefix)]
        finally:
            store.close()

    async def _opened(self, act: Callable[[OpenLog], Awaitable[T]]) -> T:
        clock, rng = SystemClock(), random.Random()
        log = await open_existing(self.url, clock=clock, rng=rng, storage=self.storage)
        try:
            return await act(log)
        finally:
            await log.close()

    async def _trim(self, log: OpenLog) -> int:
        tables = ThreadedTableQueries(lambda: Tables(self.url, self.storage))
        durable_ends = DurableTableEnds(tables, GRACE_MS)
        rows = await log.runner.run(read_table_rows())
        known = await durable_ends.look(log.runner, fresh=rows.keys())
        assert not known.troubles, known.troubles
        trimmer = Trimmer(log.identity.cluster_id, grace_ms=GRACE_MS)
        done = await log.runner.run(trimmer.steps(durable_ends=known.ends))
        return sum(done.deleted.values())


if __name__ == "__main__":
    sys.exit(main())
