"""Rows as a reader found them, compared with those sent: doubled, lost, changed, out of order."""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.scenarios.harness.digests import Digest, Headers
from tests.scenarios.harness.history_readers import COLUMNS
from tests.scenarios.harness.pipeline_rows import NO_KEY, SentRows, add_row

if TYPE_CHECKING:
    import pyarrow as pa

NUMBER_BITS = 32


@dataclass(frozen=True, slots=True)
class PipelineVerdict:
    rows: int
    doubled: int
    lost: int
    out_of_order: int
    """Rows that come after a later one of their key."""
    offset_faults: int
    """Offsets of a partition that are missing, or there twice."""
    changed: str | None
    """Where the digest differs from what was sent; None: it is the same."""

    @property
    def is_good(self) -> bool:
        counts = (self.doubled, self.lost, self.out_of_order, self.offset_faults)
        return not any(counts) and self.changed is None

    def report(self) -> str:
        return (
            f"{self.rows:,} rows: doubled {self.doubled}, lost {self.lost}, out of order "
            f"{self.out_of_order}, offsets wrong {self.offset_faults}, digest "
            f"{'equal' if self.changed is None else self.changed}"
        )


@dataclass(slots=True)
class FoundRows:
    """Added in any order."""

    digest: Digest = field(default_factory=Digest)
    _places: dict[int, "array[int]"] = field(default_factory=lambda: defaultdict(_places))
    """By partition: offset and number of each row, in one integer."""

    def add(
        self,
        partition: int,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> None:
        number = add_row(self.digest, timestamp_ms, key, value, headers)
        self._places[partition].append(offset << NUMBER_BITS | number)

    def add_batches(self, batches: "Iterable[pa.RecordBatch]") -> None:
        """Of rows with `COLUMNS`."""
        for batch in batches:
            *plain, headers = (batch.column(name).to_pylist() for name in COLUMNS)
            for row in zip(*plain, headers, strict=True):
                named = [(one["key"], one["value"]) for one in row[5] or ()]
                self.add(row[0], row[1], row[2], row[3], row[4], named)

    def judge(self, sent: SentRows, *, is_all: bool = True) -> PipelineVerdict:
        """`is_all`: whether all that was sent should be there; else nothing counts as lost."""
        ordered = {
            number: sorted(place for place in places)
            for number, places in sorted(self._places.items())
        }
        numbers = {
            partition: [place & ((1 << NUMBER_BITS) - 1) for place in places]
            for partition, places in ordered.items()
        }
        different = len({number for some in numbers.values() for number in some})
        count = self.digest.records
        return PipelineVerdict(
            rows=count,
            doubled=count - different,
            lost=len(sent.keys) - different if is_all else 0,
            out_of_order=_out_of_order(numbers, sent.keys),
            offset_faults=sum(map(_offset_faults, ordered.values())),
            changed=self.digest.differs_from(sent.digest) if is_all else None,
        )


def _places() -> "array[int]":
    return array("Q")


def _out_of_order(numbers: Mapping[int, Iterable[int]], keys: "array[int]") -> int:
    """A row that is there twice counts where it is first."""
    by_key: dict[int, dict[int, None]] = defaultdict(dict)
    for some in numbers.values():
        for number in some:
            if keys[number] != NO_KEY:
                by_key[keys[number]][number] = None
    return sum(later < earlier for some in by_key.values() for earlier, later in pairwise(some))


def _offset_faults(places: Iterable[int]) -> int:
    offsets = [-1, *(place >> NUMBER_BITS for place in places)]
    return sum(later != earlier + 1 for earlier, later in pairwise(offsets))
