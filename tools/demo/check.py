"""Is every flight there exactly once, and in the order it was sent? Pure, but for `rows_of`."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tools.demo.flights import FlightId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = 3


class Row(NamedTuple):
    """Where a flight was found; `seq` is what its record's header says."""

    partition: int
    offset: int
    seq: int | None
    id: FlightId


def rows_of(flights: "DataFrame") -> list[Row]:
    """`flights` has the columns that `queries.decoded` gives."""
    columns = ("partition", "offset", "seq", "time_hour", "carrier", "flight")
    table = flights.select(*columns).toArrow()
    lists = [table.column(name).to_pylist() for name in columns]
    return [Row(p, o, s, FlightId(*rest)) for p, o, s, *rest in zip(*lists, strict=True)]


def faults(rows: Sequence[Row], expected: Iterable[FlightId]) -> list[str]:
    """Faults, the most important first; empty if there are none."""
    seen: dict[FlightId, int] = defaultdict(int)
    for row in rows:
        seen[row.id] += 1
    wanted = set(expected)
    missing = sorted(wanted - seen.keys())
    strange = sorted(seen.keys() - wanted)
    doubled = sorted(flight for flight, count in seen.items() if count > 1)
    found = [
        _named(f"{kind} flights", flights)
        for kind, flights in (("missing", missing), ("doubled", doubled), ("unknown", strange))
        if flights
    ]
    return found + _sequence_faults(rows)


def _sequence_faults(rows: Sequence[Row]) -> list[str]:
    """In the order of offsets, the numbers of a partition are 0, 1, 2 and so on."""
    found = []
    by_partition: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_partition[row.partition].append(row)
    for partition, part in sorted(by_partition.items()):
        part.sort(key=lambda row: row.offset)
        for number, row in enumerate(part):
            if row.seq != number:
                found.append(
                    f"partition {partition} breaks its sequence at offset {row.offset}: "
                    f"expected {number}, found {row.seq}"
                )
                break
    return found


def _named(what: str, flights: Sequence[FlightId]) -> str:
    shown = ", ".join(map(str, flights[:SHOWN]))
    more = f" and {len(flights) - SHOWN:,} more" if len(flights) > SHOWN else ""
    return f"{len(flights):,} {what}: {shown}{more}"
