"""Which files of tables are below log start, and when a sweep is due.

Whole files only: a file that also holds younger records stays until all of it is below log start,
and readers are not shown the records below. A sweep is for files that no version names:
`history.delta.Tables.vacuum` finds them, `protocol.rules.disposal.may_sweep_file` decides. Pure.
"""

from collections.abc import Mapping

from logstore.formats.table_row import TableRow
from logstore.history.forms.snapshot import DataFile, Snapshot

HOUR_MS = 3_600_000
SWEEP_INTERVAL_MS = 6 * HOUR_MS
HORIZON_HOURS = 24
"""At least so long a file that no version names stays: what killed runs left, what merges replaced.
Longer than any run. What the table promises its readers, a week by default, counts if longer."""


def expired(snapshot: Snapshot, log_starts: Mapping[int, int]) -> list[DataFile]:
    """Files of which every record is below its partition's log start."""
    below = []
    for partition, files in snapshot.files.items():
        log_start = log_starts.get(partition, 0)
        for file in files:
            if file.min_offset >= log_start:
                break
            if file.max_offset < log_start:
                below.append(file)
    return below


def is_sweep_due(row: TableRow, now_ms: int) -> bool:
    return now_ms - row.swept_ms >= SWEEP_INTERVAL_MS
