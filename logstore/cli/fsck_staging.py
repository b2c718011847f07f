"""Staged objects held against manifests and partitions: a part of `logstore fsck`.

A log at work changes during the check, so that only problems found every time count. They stand
beside the log's own: nothing below `staging/` is part of the log until a leader has copied it.
"""

from logstore.formats.staging_keys import STAGING
from logstore.ports.clock import Clock
from logstore.protocol.staging_check import StagingFound, check_staging
from logstore.wiring.open import ReadableLog

CHECKS = 3


def look_at_staging(log: ReadableLog, clock: Clock, *, bodies: bool) -> StagingFound:
    """Counts of the first look, and what every look finds. Raises as stores and registry do."""
    first = _look(log, clock, bodies)
    for _ in range(CHECKS - 1):
        if not first.problems:
            break
        again = {(one.what, one.where) for one in _look(log, clock, bodies).problems}
        first.problems = [one for one in first.problems if (one.what, one.where) in again]
    return first


def _look(log: ReadableLog, clock: Clock, bodies: bool) -> StagingFound:
    sizes = {info.key: info.size_bytes for info in log.runner.store.list(STAGING)}
    steps = check_staging(log.identity.cluster_id, sizes, clock.now_ms(), bodies=bodies)
    return log.runner.run(steps)
