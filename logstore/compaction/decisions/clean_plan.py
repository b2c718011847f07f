"""Tasks of a key compaction and their results, as values and as JSON. Pure.

    {"kind": "scan", …, "units": [[index, [file, …]], …], "buckets": 0 or N, "horizon": offset,
     "rows_max": 9, "at_once_bytes": 9, "dead_ratio_min": 0.2}
    {"kind": "decide", …, "pieces": [piece, …], "horizon": offset}
    {"kind": "rewrite", …, "units": …, "rows": 12, "dead": [piece, …], "tombstones": [piece, …]}

A scan reads keys and reduces them: into buckets of the keys' digests, which `decide` tasks finish,
or, with 0 buckets, it has all rows of the partition and decides itself. If these are few, it writes
the files again as well. What a scan and a decision found comes as `CleanFound`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from logstore.compaction.decisions.clean_objects import Piece
from logstore.compaction.decisions.clean_rules import Unit, UnitCounts
from logstore.history.forms.snapshot import DataFile

SCAN, DECIDE, REWRITE = "scan", "decide", "rewrite"
KINDS = (SCAN, DECIDE, REWRITE)


class CleanPlace(TypedDict):
    """Names that every task of a key compaction has."""

    run: str
    number: int
    topic_id: bytes
    topic: str
    partition: int
    within_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _CleanTask:
    """`within_bytes`: so much the task leaves in its result; more, in an object."""

    run: str
    number: int
    topic_id: bytes
    topic: str
    partition: int
    within_bytes: int

    @property
    def topic_ids(self) -> set[bytes]:
        return {self.topic_id}

    def _front(self, kind: str) -> dict[str, object]:
        return {
            "kind": kind,
            "run": self.run,
            "number": self.number,
            "topic_id": self.topic_id.hex(),
            "topic": self.topic,
            "partition": self.partition,
            "within_bytes": self.within_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask(_CleanTask):
    """Keys of some units to be read. `bucket_count` 0: of all units, to be decided at once.

    With buckets, no more than about `rows_max` rows are in memory, whatever units have. A partition
    of at most `at_once_bytes` of rows in memory is written again too, 0: left to `RewriteTask`s.
    `dead_ratio_min` as in `clean_rules.CleanRules`.
    """

    units: Sequence[Unit]
    bucket_count: int
    horizon: int
    rows_max: int
    at_once_bytes: int
    dead_ratio_min: float

    def text(self) -> str:
        own = {
            "units": _unit_lists(self.units),
            "buckets": self.bucket_count,
            "horizon": self.horizon,
            "rows_max": self.rows_max,
            "at_once_bytes": self.at_once_bytes,
            "dead_ratio_min": self.dead_ratio_min,
        }
        return _json({**self._front(SCAN), **own})


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideTask(_CleanTask):
    """One bucket of a partition, in pieces that its scans wrote."""

    pieces: Sequence[Piece]
    horizon: int

    def text(self) -> str:
        own = {"pieces": list(self.pieces), "horizon": self.horizon}
        return _json({**self._front(DECIDE), **own})


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask(_CleanTask):
    """Neighbouring units to be written without their dead rows. `rows`: how many a scan read."""

    units: Sequence[Unit]
    rows: int
    dead: Sequence[Piece]
    tombstones: Sequence[Piece]

    def text(self) -> str:
        own = {
            "units": _unit_lists(self.units),
            "rows": self.rows,
            "dead": list(self.dead),
            "tombstones": list(self.tombstones),
        }
        return _json({**self._front(REWRITE), **own})


CleanTask = ScanTask | DecideTask | RewriteTask


@dataclass(slots=True)
class UnitFound:
    """Of one unit: how many rows, and which may go."""

    rows: int = 0
    keyless: int = 0
    superseded: int = 0
    tombstones: int = 0
    dead_pieces: list[Piece] = field(default_factory=list)
    """Offsets of rows without a key or with a newer one; column offset."""
    tombstone_pieces: list[Piece] = field(default_factory=list)
    """Those of tombstones that may go; column offset."""

    def add(self, other: UnitFound) -> None:
        self.rows += other.rows
        self.keyless += other.keyless
        self.superseded += other.superseded
        self.tombstones += other.tombstones
        self.dead_pieces += other.dead_pieces
        self.tombstone_pieces += other.tombstone_pieces

    def values(self) -> tuple[object, ...]:
        """Its fields in order."""
        counts = self.rows, self.keyless, self.superseded, self.tombstones
        return (*counts, self.dead_pieces, self.tombstone_pieces)


@dataclass(slots=True)
class CleanFound:
    """Findings of one task, or of all tasks of a partition. -1: no such offset."""

    units: dict[int, UnitFound] = field(default_factory=dict)
    buckets: dict[int, list[Piece]] = field(default_factory=dict)
    raw_offset: int = -1
    """The first batch that cannot be decoded."""
    newest_tombstone: int = -1
    last_tombstones: int = 0
    held: dict[int, int] = field(default_factory=dict)
    """As in `clean_keys.Decided`."""
    dropped: int = 0
    """Rows that a rewrite left out."""
    dropped_tombstones: int = 0
    dropped_keyless: int = 0
    rewritten: list[int] | None = None
    """Units that a scan wrote again; None: it wrote none, and left the choice to the run."""

    def unit(self, index: int) -> UnitFound:
        return self.units.setdefault(index, UnitFound())

    def see_raw(self, offset: int) -> None:
        if offset >= 0 and (self.raw_offset < 0 or offset < self.raw_offset):
            self.raw_offset = offset

    def hold(self, unit: int, offset: int) -> None:
        self.held[unit] = min(offset, self.held.get(unit, offset))

    def add(self, other: CleanFound) -> None:
        for index, unit in other.units.items():
            self.unit(index).add(unit)
        for bucket, pieces in other.buckets.items():
            self.buckets.setdefault(bucket, []).extend(pieces)
        self.see_raw(other.raw_offset)
        self.newest_tombstone = max(self.newest_tombstone, other.newest_tombstone)
        self.last_tombstones += other.last_tombstones
        for index, offset in other.held.items():
            self.hold(index, offset)
        self.dropped += other.dropped
        self.dropped_tombstones += other.dropped_tombstones
        if other.rewritten is not None:
            self.rewritten = other.rewritten

    def counts(self) -> dict[int, UnitCounts]:
        """By unit."""
        return {
            index: UnitCounts(unit.rows, unit.superseded, unit.keyless, unit.tombstones)
            for index, unit in self.units.items()
        }

    def within(self, data: bytes) -> CleanFound:
        """With the bytes of its pieces, all of which are parts of `data`."""
        units = {
            index: replace(
                unit,
                dead_pieces=[piece.within(data) for piece in unit.dead_pieces],
                tombstone_pieces=[piece.within(data) for piece in unit.tombstone_pieces],
            )
            for index, unit in self.units.items()
        }
        buckets = {
            number: [piece.within(data) for piece in pieces]
            for number, pieces in self.buckets.items()
        }
        return replace(self, units=units, buckets=buckets)

    def data(self) -> dict[str, object]:
        return {
            "units": {str(index): unit.values() for index, unit in self.units.items()},
            "buckets": {str(number): pieces for number, pieces in self.buckets.items()},
            "raw_offset": self.raw_offset,
            "newest_tombstone": self.newest_tombstone,
            "last_tombstones": self.last_tombstones,
            "held": {str(index): offset for index, offset in self.held.items()},
            "dropped": self.dropped,
            "dropped_tombstones": self.dropped_tombstones,
            "rewritten": self.rewritten,
        }

    @staticmethod
    def of(data: Mapping[str, Any]) -> CleanFound:
        """Raises `KeyError`, `TypeError`, `ValueError` for other data."""
        units = {}
        for index, (rows, keyless, superseded, stones, *pieces) in data["units"].items():
            dead, old = (_pieces_of(some) for some in pieces)
            units[int(index)] = UnitFound(rows, keyless, superseded, stones, dead, old)
        return CleanFound(
            units,
            {int(number): _pieces_of(pieces) for number, pieces in data["buckets"].items()},
            data["raw_offset"],
            data["newest_tombstone"],
            data["last_tombstones"],
            {int(index): int(offset) for index, offset in data["held"].items()},
            data["dropped"],
            data["dropped_tombstones"],
            rewritten=data["rewritten"],
        )


def clean_task_of(data: Mapping[str, Any]) -> CleanTask:
    """Raises `KeyError`, `TypeError`, `ValueError` for other data."""
    place: CleanPlace = {
        "run": data["run"],
        "number": data["number"],
        "topic_id": bytes.fromhex(data["topic_id"]),
        "topic": data["topic"],
        "partition": data["partition"],
        "within_bytes": data["within_bytes"],
    }
    if data["kind"] == SCAN:
        return ScanTask(
            **place,
            units=_units_of(data["units"]),
            bucket_count=data["buckets"],
            horizon=data["horizon"],
            rows_max=data["rows_max"],
            at_once_bytes=data["at_once_bytes"],
            dead_ratio_min=data["dead_ratio_min"],
        )
    if data["kind"] == DECIDE:
        return DecideTask(**place, pieces=_pieces_of(data["pieces"]), horizon=data["horizon"])
    return RewriteTask(
        **place,
        units=_units_of(data["units"]),
        rows=data["rows"],
        dead=_pieces_of(data["dead"]),
        tombstones=_pieces_of(data["tombstones"]),
    )


def _json(data: object) -> str:
    return json.dumps(data, separators=(",", ":"))


def _unit_lists(units: Iterable[Unit]) -> list[object]:
    return [[unit.index, [file.values() for file in unit.files]] for unit in units]


def _units_of(lists: Iterable[tuple[int, Sequence[Sequence[Any]]]]) -> list[Unit]:
    units = []
    for index, listed in lists:
        files = tuple(DataFile(*one) for one in listed)
        low, high = min(one.min_offset for one in files), max(one.max_offset for one in files)
        units.append(Unit(index, files, low, high))
    return units


def _pieces_of(lists: Iterable[Sequence[Any]]) -> list[Piece]:
    return [
        Piece(str(key), int(start), int(length), str(text)) for key, start, length, text in lists
    ]
