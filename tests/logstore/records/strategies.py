"""Records and batches for tests, and what other libraries make of them."""

import struct
from typing import Any

from hypothesis import strategies as st

from logstore.records.batch import CRC_FROM
from logstore.records.crc32c import Buffer, crc32c
from logstore.records.record import Record

NOW_MS = 1_700_000_000_000

short_bytes = st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | short_bytes), max_size=3).map(tuple)
timestamps = st.integers(NOW_MS - 2**40, NOW_MS + 2**40) | st.integers(0, 2**61)


@st.composite
def record_lists(draw: st.DrawFn, *, gaps: bool = False, min_size: int = 1) -> list[Record]:
    count = draw(st.integers(min_size, 10))
    steps = draw(st.lists(st.integers(1, 300 if gaps else 1), min_size=count, max_size=count))
    records, delta = [], -1
    for step in steps:
        delta += step
        fields = (timestamps, st.none() | short_bytes, st.none() | short_bytes, headers)
        records.append(Record(delta, *draw(st.tuples(*fields))))
    return records


def with_right_crc(batch: Buffer) -> bytes:
    """The batch as it is, so that a reader gets past the check."""
    fixed = bytearray(batch)
    struct.pack_into(">I", fixed, 17, crc32c(bytes(fixed[CRC_FROM:])))
    return bytes(fixed)


def built_by(builder_class: Any, records: list[Record], codec: int = 0) -> bytes:
    """The batch that kafka-python's or aiokafka's builder makes."""
    builder = builder_class(2, codec, 0, -1, -1, -1, 1 << 30)
    for record in records:
        builder.append(*record[:4], list(record.headers))
    return bytes(builder.build())


def read_by(reader_class: Any, batch: bytes) -> list[Record]:
    """What kafka-python's or aiokafka's reader finds."""
    reader = reader_class(batch)
    assert reader.validate_crc()
    base_offset = reader.base_offset
    return [
        Record(
            found.offset - base_offset,
            found.timestamp,
            found.key,
            found.value,
            tuple(found.headers),
        )
        for found in reader
    ]
