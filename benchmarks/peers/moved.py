"""A stopped log's records moved to its tables, and its chains trimmed at once, without a grace."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

from logstore.formats.topic_partition import TopicPartition
from logstore.objects.directory import DirectoryStore
from logstore.ports.clock import SystemClock
from logstore.protocol.deletion.trimming import Trimmer, every
from logstore.protocol.rows.metadata import read_table_rows
from logstore.wiring.open import open_existing, open_tables

NOTHING = "no segment was trimmed: nothing would be read from tables"


def move_all(directory: Path) -> None:
    """Raises if no segment goes."""
    if not move_rest(directory):
        raise RuntimeError(NOTHING)


def move_rest(directory: Path) -> int:
    """Of a log that was compacted and trimmed before; how many objects go."""
    compact = [sys.executable, "-c", "from logstore.cli.main import main; raise SystemExit(main())"]
    compact += ["compact", "--url", str(directory), "--now"]
    subprocess.run(compact, check=True, stdout=subprocess.DEVNULL)
    return asyncio.run(_trim(directory))


def trim_all(directory: Path) -> None:
    """The second half of `move_all` alone: of a log whose records were moved."""
    if not asyncio.run(_trim(directory)):
        raise RuntimeError(NOTHING)


async def _trim(directory: Path) -> int:
    opened = await open_existing(str(directory), clock=SystemClock(), rng=random.Random())
    try:
        store = DirectoryStore(directory)
        tables = open_tables(str(directory), None, store)
        durable_ends: dict[TopicPartition, int] = {}
        for topic_id in await opened.runner.run(read_table_rows()):
            snapshot = tables.snapshot(topic_id)
            ends = {} if snapshot is None else snapshot.ends
            durable_ends |= {TopicPartition(topic_id, number): end for number, end in ends.items()}
        trimmer = Trimmer(opened.identity.cluster_id, grace_ms=0)
        deleted = 0
        for _ in range(2):
            done = await opened.runner.run(trimmer.steps(every, durable_ends))
            deleted += sum(done.deleted.values())
        return deleted
    finally:
        await opened.close()
