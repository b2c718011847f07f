"""Whether records are read and written by C or by Python: `codec` is the extension, or None.

The C files beside this one are built where a compiler is there when the package is installed. Every
caller has a twin in Python, which does the same more slowly; `LOGSTORE_NATIVE=0` chooses that one.
Only the modules of `logstore.records` and `logstore.formats.body_order` choose.

The extension refuses what is odd with a `ValueError` and without a reason: the twin then reads the
same, and names the fault.
"""

import os
from importlib import import_module
from typing import Protocol, cast

Bytes = object
"""Anything with the buffer protocol and in one piece: `bytes`, a view, Arrow's buffers."""

Column = tuple[int, Bytes | None, Bytes | None, Bytes | None] | None
"""An Arrow array: where it starts in its buffers, validity, offsets, data. None: all null."""

Sizes = tuple[int, int, int, int, int, int, int, int, int]
"""Rows; null keys, bytes of keys; the same of values; headers, bytes of their names, nulls among
their values, bytes of these."""

INTERFACE = 7
"""Of what the extension offers; one that was built from other sources is not used."""


class Decoder(Protocol):
    """For one thread at a time; `decoder.c` tells how the calls follow each other."""

    def add(self, batch: Bytes, payload: Bytes = ..., /) -> int:
        """Returns the outcome: SKIPPED, TAKEN, PACKED, FULL, REFUSED or OUT_OF_ORDER."""

    def take(self) -> Sizes | None: ...
    def fill(self, *columns: Bytes | None) -> None: ...
    def clear(self) -> None: ...


class NewDecoder(Protocol):
    def __call__(
        self,
        *,
        start: int,
        end: int,
        rows_max: int,
        bytes_max: int,
        payload_bytes_max: int,
        row_bytes: int,
    ) -> Decoder: ...


class Codec(Protocol):
    INTERFACE: int
    SKIPPED: int
    TAKEN: int
    PACKED: int
    FULL: int
    REFUSED: int
    OUT_OF_ORDER: int

    @property
    def Decoder(self) -> NewDecoder: ...  # noqa: N802 - it is a class

    def crc32c(self, data: Bytes, initial: int = ..., way: int = ..., /) -> int: ...
    def crc32c_ways(self) -> tuple[str, ...]: ...
    def encode_rows(
        self,
        first: int,
        end: int,
        bytes_max: int,
        base_offset: int,
        leader_epoch: int,
        has_append_time: bool,
        columns: tuple[Column, ...],
        /,
    ) -> tuple[bytes, int, int]:
        """A batch, the first row behind it, and the offset behind it. Columns: offsets or None,
        timestamps, keys, values, lists of headers, their names, their values."""

    def look_up(
        self, batch: Bytes, payload: Bytes, question: int, timestamp: int, from_offset: int, /
    ) -> tuple[bool, int, int]:
        """Whether a record is found, its offset and timestamp. The error's argument is the
        position of the record that cannot be read, if that is the reason."""

    def check_records(
        self,
        batch: Bytes,
        payload: Bytes,
        needs_keys: bool,
        timestamp_min: int,
        timestamp_max: int,
        limit: int,
        /,
    ) -> tuple[int, int, list[int], int, list[int]]:
        """The largest timestamp; how many records have no key, and the numbers of the first
        `limit`; the same of those whose timestamp is out of range. Errors as above."""

    def order_body(
        self, entries: Bytes, /
    ) -> tuple[bytes, bytes, list[tuple[bytes, bytes]]] | None:
        """As `logstore.formats.body_order`: pieces, positions, positions by packed epoch key."""

    def hash_keys(self, count: int, keys: Column, /) -> bytes:
        """An int32 per key: Kafka's hash of it, 31 bits; -1 for a null."""

    def digest_keys(self, count: int, keys: Column, /) -> bytes:
        """16 bytes per key: its BLAKE2s. A null is an error."""

    def last_rows(self, digests: Bytes, offsets: Bytes, /) -> bytes:
        """Bits, the lowest of a byte first: whether a row's offset is the greatest of its digest.
        16 bytes and an int64 per row."""

    def gather(self, target: Bytes, source: Bytes, pieces: Bytes, /) -> None:
        """Fill `target` with pieces of `source`."""


def _chosen() -> Codec | None:
    if os.environ.get("LOGSTORE_NATIVE") == "0":
        return None
    try:
        built = cast(Codec, import_module("logstore.records.native._codec"))
    except ImportError:
        return None
    return built if built.INTERFACE == INTERFACE else None


codec = _chosen()
