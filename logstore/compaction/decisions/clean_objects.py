"""Objects that the tasks of a key compaction leave for each other in the store. Pure.

    compaction/<run>/<topic id, hex>-<partition>-<kind>-<task>-<attempt>

An object is a series of pieces, each a small Arrow table that one task writes and another reads:

    CRC32C of the rest, 4 bytes, big-endian | Arrow IPC stream, its buffers compressed by zstd

Offsets are stored as differences to the one before, which compress well, and in batches of 8,192
rows, so that a reader need not decode all of a piece. Objects live as long as their run, or until
the next run that cleans: nothing else refers to them. A task that has little to leave makes no
object: its pieces travel in its result and in the tasks that read them. One that has much makes
several: -1, -2 and so on follow the name.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from logstore.errors import Corrupt
from logstore.records.crc32c import crc32c

if TYPE_CHECKING:
    import pyarrow as pa

COMPACTION = "compaction/"
BATCH_ROWS = 8192
_CRC_BYTES = 4


class Piece(NamedTuple):
    """Bytes [start, start + length) of an object; or these bytes themselves, as Base64."""

    key: str
    start: int
    length: int
    text: str = ""

    @property
    def data(self) -> bytes | None:
        """None: they are in the object. Raises `Corrupt`."""
        if not self.text:
            return None
        try:
            return b64decode(self.text, validate=True)
        except ValueError as error:
            raise Corrupt(f"a piece of key compaction is damaged: key={self.key}") from error

    def within(self, data: bytes) -> Piece:
        """With its bytes; `data` is the whole object."""
        mine = data[self.start : self.start + self.length]
        return self._replace(text=b64encode(mine).decode())


def run_prefix(run: str) -> str:
    return f"{COMPACTION}{run}/"


def object_key(
    run: str, topic_id: bytes, partition: int, kind: str, number: int, attempt: str
) -> str:
    return f"{run_prefix(run)}{topic_id.hex()}-{partition}-{kind}-{number}-{attempt}"


class PieceWriter:
    """The pieces of one object, in memory until it is stored."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.parts: list[bytes] = []
        self.size_bytes = 0

    def add(self, rows: pa.Table) -> Piece:
        data = _encode(rows)
        piece = Piece(self.key, self.size_bytes, len(data))
        self.parts.append(data)
        self.size_bytes += len(data)
        return piece


def decode_piece(piece: Piece, data: bytes) -> pa.Table:
    """Raises `Corrupt`."""

    with _stream(piece, data) as reader:
        rows = reader.read_all().combine_chunks()
    if "offset" in rows.column_names:
        rows = _with_offsets(rows, _summed(rows["offset"]))
    return rows


def offsets_of(piece: Piece, data: bytes) -> Iterator[pa.Array]:
    """Offsets of a piece, each batch decoded when asked for. Raises `Corrupt` at the first one."""
    import pyarrow.compute as pc

    last = 0
    with _stream(piece, data) as reader:
        for batch in reader:
            offsets = pc.cumulative_sum(batch.column("offset"), start=last)
            if len(offsets):
                last = offsets[-1].as_py()
                yield offsets


def _stream(piece: Piece, data: bytes) -> pa.RecordBatchStreamReader:
    """Read in this thread: pieces are small, and tasks are threads already."""
    import pyarrow as pa

    body = memoryview(data)[_CRC_BYTES:]
    if len(data) != piece.length or crc32c(body) != int.from_bytes(data[:_CRC_BYTES]):
        raise Corrupt(
            f"a file of key compaction is damaged: key={piece.key} start={piece.start} "
            f"length={piece.length}; the next run makes others"
        )
    options = pa.ipc.IpcReadOptions(use_threads=False)
    return pa.ipc.open_stream(pa.BufferReader(pa.py_buffer(body)), options=options)


def _encode(rows: pa.Table) -> bytes:
    import pyarrow as pa

    rows = rows.combine_chunks()
    if "offset" in rows.column_names:
        rows = _with_offsets(rows, _differences(rows["offset"]))
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows, BATCH_ROWS)
    body = sink.getvalue()
    return b"".join((crc32c(memoryview(body)).to_bytes(_CRC_BYTES), body))


def _with_offsets(rows: pa.Table, offsets: pa.Array) -> pa.Table:
    at = rows.column_names.index("offset")
    return rows.set_column(at, "offset", offsets)


def _differences(offsets: pa.ChunkedArray) -> pa.Array:
    import pyarrow.compute as pc

    whole = offsets.combine_chunks()
    return pc.coalesce(pc.pairwise_diff(whole), whole)  # the first has none before it


def _summed(differences: pa.ChunkedArray) -> pa.Array:
    import pyarrow.compute as pc

    return pc.cumulative_sum(differences.combine_chunks())
