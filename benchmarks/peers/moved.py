"""A stopped log's records moved to its tables, and its chains trimmed at once, without a grace."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

from logstore.formats.topic_partition import TopicPartition
from logstore.objects.directory import DirectoryStore
from logstore.ports.clock import SystemClock
from logstore.protocol.metadata import read_table_rows
from logstore.protocol.trimming import Trimmer, every
from logstore.wiring.open import open_existing, open_tables


def move_all(directory: Path) -> None:
    """Raises when anything is left in segments that tables hold."""
    compact = [sys.executable, "-c", "from logstore.cli.main import main; raise SystemExit(main())"]
    compact += ["compact", "--url", str(directory), "--now"]
    subprocess.run(compact, check=True, stdout=subprocess.DEVNULL)
    trim_all(directory)


def trim_all(directory: Path) -> None:
    """The second half alone: of a log whose records were moved."""
    asyncio.run(_trim(directory))


async def _trim(directory: Path) -> None:
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
        if not deleted:
            raise RuntimeError("no segment was trimmed: nothing would be read from tables")
    finally:
        await opened.close()
