"""Where a group is to go on: chosen offsets within what each partition has. Pure.

earliest | latest | an offset | a time        or so many records forward or back
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from logstore.errors import Invalid

EARLIEST_TEXT, LATEST_TEXT = "earliest", "latest"
NONE_AT_OR_AFTER = -1


@dataclass(frozen=True, slots=True)
class Target:
    """One of these is set."""

    timestamp: int | None = None
    """As ListOffsets has it: -2 earliest, -1 latest, else milliseconds."""
    offset: int | None = None
    shift: int | None = None


def parse_target(text: str) -> Target:
    """`earliest`, `latest`, a whole number, or a date and time. Raises `Invalid`."""
    if text == EARLIEST_TEXT:
        return Target(timestamp=-2)
    if text == LATEST_TEXT:
        return Target(timestamp=-1)
    if text.isascii() and text.isdigit():
        return Target(offset=int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(
            f"not earliest, latest, an offset, or a time like 2026-01-31T12:00:00: {text!r}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Target(timestamp=int(moment.timestamp() * 1000))


def choose(
    target: Target,
    committed: Mapping[int, int],
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    by_time: Mapping[int, int],
) -> dict[int, int]:
    """Offset by partition, never outside [start, end]."""
    chosen = {}
    for partition, end in ends.items():
        start = starts[partition]
        if target.offset is not None:
            wanted = target.offset
        elif target.shift is not None:
            wanted = committed.get(partition, start) + target.shift
        else:
            wanted = by_time[partition]
            wanted = end if wanted == NONE_AT_OR_AFTER else wanted
        chosen[partition] = min(max(wanted, start), end)
    return chosen
