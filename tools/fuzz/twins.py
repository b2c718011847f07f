"""The native codec beside its twin: the same rows or batches, or both refuse.

Where the twin cannot follow, since hostile Arrow arrays would crash Arrow itself, the codec has
only to survive. It gets its input in memory of just that size, so that a sanitizer sees a byte too
many.
"""

import ctypes
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pyarrow as pa

from logstore.errors import LogstoreError
from logstore.records import native
from logstore.records.arrow import KAFKA_COLUMNS, decode_to_arrow
from logstore.records.arrow_encode import encode_from_arrow
from logstore.records.arrow_schema import arrow_schema
from logstore.records.digests import digests_of
from logstore.records.lookup import (
    first_record_at_or_after,
    record_with_max_timestamp,
)
from tools.fuzz.inputs import INT64_MAX, NOW_MS, damaged, some_batches

_ENCODED = ("offset", "timestamp_ms", "key", "value", "headers")
_DECODED = (*KAFKA_COLUMNS, "headers", "timestamp_ms", "leader_epoch")
_COLUMN_COUNT = 17  # of what a decoder fills
PARSED = 60  # batches that the native codec alone reads, for each that both do


class Disagreement(Exception):
    """The twins gave different answers."""


def attack(rng: random.Random, codec: native.Codec) -> bool:
    """One input for everything; whether it was read rather than refused. Raises `Disagreement`."""
    batches = some_batches(rng)
    for _ in range(PARSED):
        _parse(rng, codec, exactly(damaged(rng, rng.choice(batches))))
    _abuse_decoder(rng, codec, batches)
    _abuse_columns(rng, codec)
    for batch in batches:
        _compare_lookups(rng, codec, batch)
    rows = _compare_decoding(rng, codec, batches)
    if rows is None:
        return False
    _compare_encoding(rng, codec, rows)
    return True


@contextmanager
def using(codec: native.Codec | None) -> Iterator[None]:
    before, native.codec = native.codec, codec
    try:
        yield
    finally:
        native.codec = before


def exactly(data: bytes) -> memoryview:
    """A copy in memory of its own and of just that size."""
    if not data:
        return memoryview(bytearray())
    return memoryview((ctypes.c_ubyte * len(data)).from_buffer_copy(data)).cast("B")


def _both(codec: native.Codec, answer: Callable[[], Any], shown: object) -> Any:
    """The answer of both twins; None if both refuse."""
    answers: list[Any] = []
    for twin in (codec, None):
        with using(twin):
            try:
                answers.append(answer())
            except LogstoreError:
                answers.append(None)
    if answers[0] != answers[1]:
        raise Disagreement(f"native={answers[0]} pure={answers[1]} input={shown}")
    return answers[0]


def _compare_lookups(rng: random.Random, codec: native.Codec, batch: bytes) -> None:
    limit = rng.choice([60, 1 << 20])
    timestamp = rng.choice([-1, 0, NOW_MS, NOW_MS + 3, INT64_MAX])
    data = exactly(batch)
    for look_up in (
        lambda: (True, first_record_at_or_after(data, timestamp, max_bytes=limit)),
        lambda: (True, record_with_max_timestamp(data, max_bytes=limit)),
    ):
        _both(codec, look_up, batch.hex())


def _compare_decoding(
    rng: random.Random, codec: native.Codec, batches: Sequence[bytes]
) -> pa.Table | None:
    """With any limits and columns; the table has the columns that are encoded."""
    views = [exactly(batch) for batch in batches]
    low = rng.choice([0, 0, 3, 2**31])
    options: dict[str, Any] = {
        "start": low,
        "end": rng.choice([INT64_MAX, 2**63, low + rng.randrange(60)]),
        "columns": rng.choice([_DECODED, (*_DECODED, "raw_batch"), ("value", "offset"), _ENCODED]),
        "rows_max": rng.choice([1, 2, 7, 1000]),
        "bytes_max": rng.choice([1, 100, 500, 1 << 20]),
        "payload_bytes_max": rng.choice([100, 1 << 20]),
    }

    def decoded() -> pa.Table:
        pieces = list(decode_to_arrow(views, **options))
        for piece in pieces:
            piece.validate(full=True)
            if piece.num_rows > options["rows_max"]:
                raise Disagreement(f"too many rows: {piece.num_rows} options={options}")
            is_quarantine = "raw_batch" in options["columns"] and piece.num_rows == 1
            if piece.num_rows > 1 and piece.nbytes > options["bytes_max"] and not is_quarantine:
                raise Disagreement(f"too many bytes: {piece.nbytes} options={options}")
        return pa.Table.from_batches(pieces, arrow_schema(options["columns"])).combine_chunks()

    table = _both(codec, decoded, ([batch.hex() for batch in batches], options))
    if table is None or not set(_ENCODED) <= set(options["columns"]):
        return None
    return table.select(_ENCODED)


def _compare_encoding(rng: random.Random, codec: native.Codec, table: pa.Table) -> None:
    keys = table.column("key").drop_null().combine_chunks()
    _both(codec, lambda: digests_of(keys).to_pylist(), keys)
    if not table.num_rows:
        return
    start = rng.randrange(table.num_rows)
    rows = table.slice(start, rng.randrange(1, 40)).combine_chunks().to_batches()[0]
    rows = rows.slice(rng.randrange(rows.num_rows))
    options: dict[str, Any] = {
        "bytes_max": rng.choice([61, 150, 400, 1 << 20]),
        "leader_epoch": rng.choice([-1, 5]),
        "log_append_time": rng.random() < 0.2,
    }
    if rng.random() < 0.5:
        rows = rows.drop_columns(["offset"])
        options["base_offset"] = rng.choice([0, 2**40])
    _both(codec, lambda: list(encode_from_arrow(rows, **options)), (rows.to_pylist(), options))


def _parse(rng: random.Random, codec: native.Codec, batch: memoryview) -> None:
    """One damaged batch, read to its end; results are of the size that was asked for."""
    decoder = codec.Decoder(
        start=rng.choice([0, 2]),
        end=INT64_MAX,
        rows_max=rng.choice([1, 3, 1000]),
        bytes_max=rng.choice([1, 200, 1 << 20]),
        payload_bytes_max=1 << 20,
        row_bytes=32,
    )
    payload = batch[61:]
    _survive(lambda: codec.look_up(batch, payload, rng.randrange(4), NOW_MS, rng.randrange(3)))
    needs_keys, limit = rng.random() < 0.5, rng.randrange(1100)
    _survive(lambda: codec.check_records(batch, payload, needs_keys, 0, NOW_MS, limit))
    verdict = decoder.add(batch)
    if verdict == codec.PACKED:
        verdict = decoder.add(batch, payload)
    try:
        while (sizes := decoder.take()) is not None:
            count, _, key_bytes, _, value_bytes, header_count, name_bytes, _, header_bytes = sizes
            bits, ends = (count + 7) // 8, 4 * count + 4
            header_bits, header_ends = (header_count + 7) // 8, 4 * header_count + 4
            widths = (8 * count, 8 * count, 8 * count, 4 * count, 4 * count)
            columns = (bits, ends, key_bytes, bits, ends, value_bytes, ends, header_ends)
            headers = (name_bytes, header_bits, header_ends, header_bytes)
            decoder.fill(*(exactly(bytes(size)) for size in (*widths, *columns, *headers)))
    except ValueError:
        pass


def _abuse_decoder(rng: random.Random, codec: native.Codec, batches: Sequence[bytes]) -> None:
    """Calls in any order, buffers of any size."""
    decoder = codec.Decoder(
        start=0,
        end=INT64_MAX,
        rows_max=rng.choice([1, 5, 1000]),
        bytes_max=rng.choice([1, 300, 1 << 20]),
        payload_bytes_max=1 << 20,
        row_bytes=rng.randrange(60),
    )
    for _ in range(8):
        batch = exactly(rng.choice(batches))
        lent = [
            rng.choice([None, exactly(bytes(rng.choice([1, 8, 40, 400, 4000])))])
            for _ in range(_COLUMN_COUNT)
        ]
        payload = exactly(rng.randbytes(rng.randrange(50)))
        calls: list[Callable[[], object]] = [
            partial(decoder.add, batch),
            partial(decoder.add, batch, payload),
            decoder.take,
            decoder.take,
            partial(decoder.fill, *lent),
            *([decoder.clear] if rng.random() < 0.1 else []),
        ]
        for call in rng.sample(calls, 3):
            _survive(call)


def _abuse_columns(rng: random.Random, codec: native.Codec) -> None:
    """Arrow's buffers as no library would make them."""

    def numbers(form: type[ctypes.c_int32] | type[ctypes.c_int64]) -> memoryview:
        bits = 8 * ctypes.sizeof(form)
        count = rng.randrange(12)
        some = [rng.choice([0, 1, 5, 30, -1, 2 ** (bits - 1) - 1, n * 3]) for n in range(count)]
        packed = b"".join((n & 2**bits - 1).to_bytes(bits // 8, "little") for n in some)
        return exactly(sorted_some(packed, bits // 8) if rng.random() < 0.7 else packed)

    def sorted_some(packed: bytes, width: int) -> bytes:
        items = [packed[i : i + width] for i in range(0, len(packed), width)]
        return b"".join(sorted(items, key=lambda item: int.from_bytes(item, "little")))

    def column(ends: memoryview | None) -> native.Column:
        valid = rng.choice([None, exactly(rng.randbytes(rng.randrange(3)))])
        data = exactly(rng.randbytes(rng.randrange(60)))
        return rng.choice([0, 0, 1, 9]), valid, ends, data

    def binary() -> native.Column:
        return rng.choice([None, column(numbers(ctypes.c_int32))])

    def fixed() -> native.Column:
        return 0, None, None, numbers(ctypes.c_int64)

    columns = (rng.choice([None, fixed()]), fixed(), *(binary() for _ in range(5)))
    rows = rng.randrange(12)
    _survive(lambda: codec.hash_keys(rows, binary()))
    _survive(lambda: codec.digest_keys(rows, binary()))
    digests = exactly(bytes(rng.randrange(2) for _ in range(rng.choice([0, 16, 17, 160]))))
    _survive(lambda: codec.last_rows(digests, numbers(ctypes.c_int64)))
    _survive(lambda: codec.encode_rows(0, rows, 61 + rng.randrange(99), 0, 0, False, columns))


def _survive(call: Callable[[], object]) -> None:
    with suppress(ValueError, TypeError, RuntimeError, BufferError):
        call()
