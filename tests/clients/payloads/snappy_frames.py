"""Raw snappy and xerial's streams, well-formed and ill-formed. Seeded, pure.

`logstore.records.compression` draws a stream. A raw block: its length, a plain varint, then
literals and copies. A literal of up to 60 bytes has one byte in front, a longer one its length too.
"""

import random
import struct
from collections.abc import Callable, Mapping, Sequence

import cramjam

_MAGIC = b"\x82SNAPPY\0"


def raw(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def literals(rng: random.Random, data: bytes, length: int | None = None) -> bytes:
    """Of an encoder that finds no copies; `length`: what it claims."""
    parts = [_varint(len(data) if length is None else length)]
    at = 0
    while at < len(data):
        piece = data[at : at + rng.choice([1, 60, 61, 256, 257, 60_000])]
        at += len(piece)
        rest = len(piece) - 1
        extra = max((rest.bit_length() + 7) // 8, 1) if rest >= 60 else 0
        tag = bytes([(59 + extra if extra else rest) << 2])
        parts += (tag, rest.to_bytes(extra, "little") if extra else b"", piece)
    return b"".join(parts)


def _varint(number: int, needless: int = 0) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number | (128 if needless else 0))
    return bytes(out) + b"\x80" * (needless - 1) + b"\0" * bool(needless)


def head(version: int = 1, compatible: int = 1) -> bytes:
    return _MAGIC + struct.pack(">II", version, compatible)


def chunk(packed: bytes, length: int | None = None) -> bytes:
    return struct.pack(">i", len(packed) if length is None else length) + packed


def _chunks(rng: random.Random, data: bytes) -> list[bytes]:
    step = max(1, rng.choice([32 * 1024, len(data) // 2, 100, 1 << 20]))
    pieces: Sequence[bytes] = [data[at : at + step] for at in range(0, len(data), step)]
    return [chunk(raw(piece)) for piece in pieces]


def stream(rng: random.Random, data: bytes) -> bytes:
    return head() + b"".join(_chunks(rng, data))


def _with_extra(rng: random.Random, data: bytes, extra: bytes) -> bytes:
    chunks = _chunks(rng, data)
    chunks.insert(rng.randrange(len(chunks) + 1), extra)
    return head() + b"".join(chunks)


def _of_version(rng: random.Random, data: bytes) -> bytes:
    numbers = (0, 1, 1, 2, 9, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
    return head(rng.choice(numbers), rng.choice(numbers)) + stream(rng, data)[16:]


def _two_streams(rng: random.Random, data: bytes) -> bytes:
    half = len(data) // 2
    return stream(rng, data[:half]) + stream(rng, data[half:])


def _needless_varint(rng: random.Random, data: bytes) -> bytes:
    body = raw(data)[len(_varint(len(data))) :]
    return _varint(len(data), needless=rng.randrange(1, 4)) + body


FORMS: Mapping[str, Callable[[random.Random, bytes], bytes]] = {
    "raw": lambda rng, data: raw(data),
    "raw literals": literals,
    "a stream": stream,
    "a stream of literals": lambda rng, data: head() + chunk(literals(rng, data)),
    "an empty chunk": lambda rng, data: _with_extra(rng, data, chunk(b"\0")),
    "a chunk of no bytes": lambda rng, data: _with_extra(rng, data, chunk(b"")),
    "a chunk of length -1": lambda rng, data: _with_extra(rng, data, chunk(b"", -1)),
    "a chunk of negative length": lambda rng, data: _with_extra(rng, data, chunk(b"", -(2**31))),
    "a chunk too long": lambda rng, data: (
        stream(rng, data) + chunk(raw(b"x"), rng.choice([9, 1 << 30]))
    ),
    "a chunk too short": lambda rng, data: head() + chunk(raw(data), len(raw(data)) - 1),
    "a chunk that is no snappy": lambda rng, data: _with_extra(rng, data, chunk(b"\x09\xff\xff")),
    "a stream in a chunk": lambda rng, data: head() + chunk(stream(rng, data)),
    "any version": _of_version,
    "another magic": lambda rng, data: b"\x82SNAPPX\0" + stream(rng, data)[8:],
    "a header cut": lambda rng, data: head()[: rng.randrange(16)],
    "a header alone": lambda rng, data: head(),
    "no header": lambda rng, data: stream(rng, data)[16:],
    "bytes behind a stream": lambda rng, data: (
        stream(rng, data) + rng.randbytes(rng.choice([1, 2, 3, 4, 9]))
    ),
    "zeros behind a stream": lambda rng, data: (
        stream(rng, data) + bytes(rng.choice([1, 3, 4, 5, 9]))
    ),
    "a stream behind a stream": _two_streams,
    "a header behind a stream": lambda rng, data: (
        stream(rng, data) + rng.choice([head(), head(0, 0), head()[: rng.randrange(4, 16)]])
    ),
    "bytes behind raw": lambda rng, data: raw(data) + rng.randbytes(rng.choice([1, 4])),
    "raw that claims more": lambda rng, data: literals(rng, data, len(data) + 1),
    "raw that claims less": lambda rng, data: literals(rng, data, len(data) - 1),
    "raw that claims much more": lambda rng, data: literals(rng, data, 2**31 - 1),
    "raw with a needless varint": _needless_varint,
    "two raw ones": lambda rng, data: raw(data[: len(data) // 2]) + raw(data[len(data) // 2 :]),
    "nothing": lambda rng, data: b"",
}
