"""Staged objects held against manifests and partitions: a part of `logstore fsck`.

Its problems stand beside the log's own: nothing below `staging/` is part of the log until a leader
has copied it.
"""

from logstore.cli.fsck.again import found_each_time
from logstore.formats.staging_keys import STAGING
from logstore.ports.clock import Clock
from logstore.protocol.sinks.staging_check import StagingFound, check_staging
from logstore.wiring.open import ReadableLog


def look_at_staging(log: ReadableLog, clock: Clock, *, bodies: bool) -> StagingFound:
    """Counts of the first look, and what every look finds. Raises as stores and registry do."""
    found = _look(log, clock, bodies)
    again = found_each_time(found.problems, lambda _: _look(log, clock, bodies).problems)
    found.problems = list(again)
    return found


def _look(log: ReadableLog, clock: Clock, bodies: bool) -> StagingFound:
    sizes = {info.key: info.size_bytes for info in log.runner.store.list(STAGING)}
    steps = check_staging(log.identity.cluster_id, sizes, clock.now_ms(), bodies=bodies)
    return log.runner.run(steps)
