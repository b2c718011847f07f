"""What records come to: a count and a sum of hashes for each partition, in whatever order read.

Two readers that saw the same records at the same offsets have equal digests; a record that is
missing, doubled, moved or changed makes them differ.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_MASK = (1 << 64) - 1
_PLACE = struct.Struct("<qq")
_LENGTH = struct.Struct("<i")
NONE = -1

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class Digest:
    counts: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    sums: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def add(
        self,
        partition: int,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> None:
        parts = [_PLACE.pack(offset, timestamp_ms), _sized(key), _sized(value)]
        for name, content in headers:
            parts += (_sized(name.encode()), _sized(content))
        digest = blake2b(b"".join(parts), digest_size=8).digest()
        self.counts[partition] += 1
        self.sums[partition] = (self.sums[partition] + int.from_bytes(digest)) & _MASK

    def add_rows(self, rows: "Iterable[pa.RecordBatch]") -> None:
        """Rows with the columns partition, offset, timestamp_ms, key, value, headers."""
        for batch in rows:
            columns = ("partition", "offset", "timestamp_ms", "key", "value")
            plain = [batch.column(name).to_pylist() for name in columns]
            for row, headers in zip(
                zip(*plain, strict=True), batch.column("headers").to_pylist(), strict=True
            ):
                named = [(one["key"], one["value"]) for one in headers or ()]
                self.add(row[0], row[1], row[2], row[3], row[4], named)

    def copy(self) -> "Digest":
        return Digest(defaultdict(int, self.counts), defaultdict(int, self.sums))

    @property
    def records(self) -> int:
        return sum(self.counts.values())

    def differs_from(self, other: "Digest") -> str | None:
        """What differs, in one line; None: nothing does."""
        wrong = [
            f"partition {number}: {self.counts.get(number, 0)} records for "
            f"{other.counts.get(number, 0)}"
            + ("" if self.counts.get(number) != other.counts.get(number) else ", not the same ones")
            for number in sorted({*self.counts, *other.counts})
            if (self.counts.get(number), self.sums.get(number))
            != (other.counts.get(number), other.sums.get(number))
        ]
        return "; ".join(wrong) or None


def _sized(data: bytes | None) -> bytes:
    return _LENGTH.pack(NONE) if data is None else _LENGTH.pack(len(data)) + data
