"""Records from and to Arrow on one core, by the native codec and by its twin in Python.

MB of uncompressed batches per CPU-second, CRC checked, in batches of about 1 MB and rows as Spark
gets them. Needs no server; memory is reused, as in a task that reads one segment after the other.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from fastcrc import crc32

from benchmarks.contenders import Contenders
from benchmarks.options import Options
from logstore.records import native
from logstore.records.arrow import KAFKA_COLUMNS, decode_to_arrow
from logstore.records.arrow_encode import encode_from_arrow
from logstore.records.batch import Codec
from logstore.records.encode import encode_batch
from logstore.records.record import Record

TWINS = ("native", "pure")
BATCH_BYTES, BATCHES = 1 << 20, 16
ROWS_MAX, BYTES_MAX, PAYLOAD_BYTES_MAX = 10_000, 8 << 20, 1 << 30
CODECS: Sequence[Codec] = ("none", "lz4", "zstd")
Headers = tuple[tuple[str, bytes], ...]
HEADERS: Headers = (("trace-id", b"0123456789abcdef"), ("content-type", b"application/json"))
WITH_HEADERS = (*KAFKA_COLUMNS, "headers")
STORED = ("offset", "timestamp_ms", "key", "value")


def contenders(_options: Options) -> Contenders:
    return {twin: partial(_run, twin) for twin in TWINS}


def _run(twin: str) -> dict[str, float]:
    """By figure; nothing for the native codec where it is not built."""
    built = native.codec
    if twin == "native" and built is None:
        return {}
    native.codec = built if twin == "native" else None
    try:
        return dict(_figures())
    finally:
        native.codec = built


def _figures() -> Iterator[tuple[str, float]]:
    for value_bytes in (1000, 100):
        plain_bytes = sum(map(len, _batches(value_bytes, "none")))
        for codec in CODECS:
            batches = _batches(value_bytes, codec)
            rate = _rate(plain_bytes, partial(_decode, batches))
            yield f"decode {value_bytes} B, {codec}", rate
        batches = _batches(value_bytes, "none", HEADERS)
        rate = _rate(sum(map(len, batches)), partial(_decode, batches, WITH_HEADERS))
        yield f"decode {value_bytes} B, two headers", rate
        pieces = list(_rows(_batches(value_bytes, "none"), STORED))
        rate = _rate(plain_bytes, partial(_encode, pieces))
        yield f"encode {value_bytes} B, none", rate
    data = bytes(BATCH_BYTES)
    crc32c = crc32.iscsi if native.codec is None else native.codec.crc32c
    yield "crc32c, 1 MiB at a time", _rate(BATCH_BYTES, partial(crc32c, data))


def _rate(size_bytes: int, work: Callable[[], object]) -> float:
    """MB per CPU-second of this thread, the best of some runs: the others met a busy machine."""
    best_s = float("inf")
    for _ in range(5):
        began = time.thread_time()
        work()
        best_s = min(best_s, time.thread_time() - began)
    return size_bytes / best_s / 1e6


def _batches(value_bytes: int, codec: Codec, headers: Headers = ()) -> list[bytes]:
    """Values like JSON of web clicks: they compress to a third or a quarter."""
    count = BATCH_BYTES // (value_bytes + 30)
    return [
        encode_batch(
            [
                Record(
                    i,
                    1_700_000_000_000 + i,
                    b"key%013d" % i,
                    like_json(value_bytes, i + 31 * number),
                    headers,
                )
                for i in range(count)
            ],
            base_offset=number * count,
            compression=codec,
        )
        for number in range(BATCHES)
    ]


def like_json(size: int, number: int) -> bytes:
    """A value of so many bytes that compresses as JSON of web clicks does."""
    parts = [
        b'{"user":%d,"action":"view","page":"/products/%d","session":"%08x"}'
        % (k * 7919 % 1000, k * 31 % 500, k * 2654435761 % 2**32)
        for k in range(number, number + size // 60 + 1)
    ]
    return b"".join(parts)[:size]


def _decode(batches: Sequence[bytes], columns: Sequence[str] = KAFKA_COLUMNS) -> None:
    for _ in _rows(batches, columns):  # not kept: the next one reuses their memory
        pass


def _rows(batches: Sequence[bytes], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return decode_to_arrow(
        batches,
        start=0,
        end=1 << 62,
        columns=columns,
        rows_max=ROWS_MAX,
        bytes_max=BYTES_MAX,
        payload_bytes_max=PAYLOAD_BYTES_MAX,
    )


def _encode(pieces: Sequence[pa.RecordBatch]) -> None:
    for piece in pieces:
        for _ in encode_from_arrow(piece, bytes_max=BATCH_BYTES):
            pass
