"""A log start raised by hand, as if a client had deleted the records below: for tests."""

from logstore.formats.partition_row import StartReason
from logstore.ports.registry import Row


def raised_to(offset: int) -> Row:
    """What of a partition's row changes."""
    return {"log_start": offset, "start_reason": StartReason.RECORDS_DELETED.to(offset)}
