"""Was there too much of a partition when retention.bytes raised its log start?

Retention may drop the oldest records while at least `retention.bytes` remain. It counts bytes of
batches in the log and of files in the table, each record once. The sum is known from above: every
batch that was sent before and is not known to lie below the new log start, as often as it was sent,
and every file of the table that reaches above it.
"""

from collections.abc import Collection
from typing import NamedTuple

from logstore.testing.seen import Seen, Sent

BATCH_BYTES_MAX = 70
"""Of a batch without its records: the header has 61."""
RECORD_BYTES_MAX = 24
"""Of a record without its value: these have neither a key nor headers."""


class Surplus(NamedTuple):
    """Retention raised log start to `log_start`, and had to leave `keep_bytes`."""

    log_start: int
    keep_bytes: int
    table_bytes: int
    """Of files that reach above log start."""
    batches: Collection[Sent]
    """Those sent until then."""


def bytes_left_max(seen: Seen, surplus: Surplus) -> int:
    """At most so many bytes lay above log start, by what is known now."""
    below = {value for offset, value in seen.values.items() if offset < surplus.log_start}
    return surplus.table_bytes + sum(
        _bytes_of(sent) * (seen.attempts[sent.number] or 1)
        for sent in surplus.batches
        if not (sent.is_idempotent and below.issuperset(sent.values))
    )


def _bytes_of(sent: Sent) -> int:
    return BATCH_BYTES_MAX + sum(RECORD_BYTES_MAX + len(value) for value in sent.values)
