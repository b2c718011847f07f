"""Compaction, an owner's OPTIMIZE and trimming in a loop.

    python -m tests.scenarios.harness.maintenance --url URL [--optimize-every N] [--gate FILE]

    compacted rows=<n>           `logstore compact --now` ended well
    compacted code=<n>           … or did not
    optimized removed=<n>        an OPTIMIZE of the table that knows nothing of logstore
    trimmed objects=<n>          what `logstore gc` does, with a grace of seconds
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
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from logstore.cli.main import main as logstore
from logstore.epoch.durable_table_ends import DurableTableEnds
from logstore.epoch.table_queries import ThreadedTableQueries
from logstore.history.delta import Tables
from logstore.history.names import TABLES
from logstore.ports.clock import SystemClock
from logstore.protocol.metadata import read_table_rows
from logstore.protocol.trimming import Trimmer
from logstore.wiring.open import open_existing

GRACE_MS = 3_000
LOOK_S = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--optimize-every", type=int, default=3)
    parser.add_argument("--gate", type=Path, help="while this file exists, no round begins")
    options = parser.parse_args()

    stopping: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    number = 0
    while not stopping:
        await_gate(options.gate, stopping)
        number += 1
        print(compact(options.url))
        if number % options.optimize_every == 0:
            print(f"optimized removed={optimize(Path(options.url))}")
        print(f"trimmed objects={trim(options.url)}")
    return 0


def await_gate(gate: Path | None, stopping: list[bool]) -> None:
    if gate is not None and gate.exists():
        print("held", flush=True)
        while gate.exists() and not stopping:
            time.sleep(LOOK_S)


def compact(url: str) -> str:
    code, said = _command("compact", "--url", url, "--now", "--json")
    return f"compacted code={code}" if code else f"compacted rows={json.loads(said)['rows']}"


def trim(url: str) -> int:
    """As `logstore gc` does, with a grace of seconds; how many objects were deleted."""
    return asyncio.run(_trim(url))


async def _trim(url: str) -> int:
    log = await open_existing(url, clock=SystemClock(), rng=random.Random())
    try:
        durable_ends = DurableTableEnds(ThreadedTableQueries(lambda: Tables(url, {})), GRACE_MS)
        rows = await log.runner.run(read_table_rows())
        known = await durable_ends.look(log.runner, fresh=rows.keys())
        assert not known.troubles, known.troubles
        trimmer = Trimmer(log.identity.cluster_id, grace_ms=GRACE_MS)
        done = await log.runner.run(trimmer.steps(durable_ends=known.ends))
    finally:
        await log.close()
    return sum(done.deleted.values())


def optimize(log: Path) -> int:
    """Files that were merged into others, of all tables; -1 where another writer was faster."""
    count = 0
    for table in (log / TABLES).iterdir() if (log / TABLES).is_dir() else ():
        with contextlib.suppress(DeltaError):
            count += int(DeltaTable(table).optimize.compact()["numFilesRemoved"])
    return count


def _command(*arguments: str) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = logstore(arguments)
    return code, said.getvalue()


if __name__ == "__main__":
    sys.exit(main())
