"""Inputs that attack the codec: batches of every kind, damaged in ways that reach its parsers.

Damage is done to the uncompressed batch; lengths and CRC are made right again, mostly, and a codec
is applied after that. Everything follows from the `random.Random` that is passed in.
"""

import random
import struct
from collections.abc import Callable

from logstore.records.batch import CODECS, CRC_FROM, HEADER_BYTES
from logstore.records.crc32c import crc32c
from logstore.records.encode import encode_batch, recompressed
from logstore.records.record import Record

NOW_MS = 1_700_000_000_000
INT64_MAX = 2**63 - 1

_HEADER_FIELDS = (("q", 0), ("i", 12), ("H", 21), ("i", 23), ("q", 27), ("q", 35), ("i", 57))
_EXTREMES = (0, 1, -1, 2, 7, 127, 2**15 - 1, 2**31 - 1, -(2**31), INT64_MAX, -(2**63), -INT64_MAX)
_VARINTS = tuple(
    bytes.fromhex(text)
    for text in (
        *("00", "01", "02", "03", "7f", "8000", "ff01", "fe7f", "80808000", "feffffff0f"),
        *("ffffffff0f", "80808080808080808000", "feffffffffffffffff01", "ffffffffffffffffff01"),
        *("ffffffffffffffffff02", "ffffffffffffffffffff01", "80808080808080808080"),
    )
)


def some_batches(rng: random.Random) -> list[bytes]:
    """One to five batches of a partition, in order, each damaged or not."""
    batches: list[bytes] = []
    offset = rng.choice([0, 0, 5, 2**31, 2**62, INT64_MAX - 3])
    damage_odds = rng.choice([0.0, 0.3, 0.9])
    for _ in range(rng.choice([1, 1, 2, 3, 5])):
        batch = _sound_batch(rng, offset)
        offset = min(offset + rng.randrange(1, 40), INT64_MAX - 3)
        if rng.random() < damage_odds:
            batch = damaged(rng, batch)
        batches.append(_packed(rng, batch))
    return batches


def _sound_batch(rng: random.Random, base_offset: int) -> bytes:
    records, delta = [], -1
    is_append_time = rng.random() < 0.1
    value_bytes_max = rng.choice([0, 30, 70, 300])
    for _ in range(rng.choice([0, 1, 2, 3, 8, 30])):
        delta += rng.choice([1, 1, 1, 2, 70])
        time = (
            NOW_MS
            if is_append_time
            else rng.choice([NOW_MS, -1, 0, NOW_MS + delta, INT64_MAX // 2])
        )
        key = rng.choice([None, b"", rng.randbytes(rng.randrange(40))])
        value = rng.choice([None, rng.randbytes(rng.randrange(value_bytes_max + 1))])
        records.append(Record(delta, time, key, value, _headers(rng)))
    return encode_batch(
        records,
        base_offset=base_offset,
        leader_epoch=rng.choice([-1, 0, 7]),
        control=rng.random() < 0.03,
        log_append_time=is_append_time,
        last_offset_delta=max(delta, 0) + rng.choice([0, 0, 5]),
    )


def _headers(rng: random.Random) -> list[tuple[str, bytes | None]]:
    names = ("", "trace", "é", "名前", "\U0001f600", "n" * 70)
    count = rng.choice([0, 0, 0, 1, 2, 40])
    return [
        (rng.choice(names), rng.choice([None, b"", rng.randbytes(rng.randrange(9))]))
        for _ in range(count)
    ]


def damaged(rng: random.Random, batch: bytes) -> bytes:
    """With its length and CRC right again, nearly always."""
    changed = bytearray(batch)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        rng.choice(_DAMAGES)(rng, changed)
    if rng.random() < 0.95 and len(changed) >= HEADER_BYTES:
        struct.pack_into(">i", changed, 8, len(changed) - 12)
        struct.pack_into(">I", changed, 17, crc32c(bytes(changed[CRC_FROM:])))
    return bytes(changed)


def _somewhere(rng: random.Random, data: bytearray) -> int:
    return rng.randrange(min(HEADER_BYTES, len(data) - 1), len(data)) if len(data) > 1 else 0


def _flip(rng: random.Random, data: bytearray) -> None:
    if data:
        data[_somewhere(rng, data)] ^= 1 << rng.randrange(8)


def _replace(rng: random.Random, data: bytearray) -> None:
    if data:
        data[_somewhere(rng, data)] = rng.choice([0, 1, 2, 127, 128, 254, 255])


def _remove(rng: random.Random, data: bytearray) -> None:
    at = _somewhere(rng, data)
    del data[at : at + rng.randrange(1, 5)]


def _insert(rng: random.Random, data: bytearray) -> None:
    at = _somewhere(rng, data)
    data[at:at] = rng.randbytes(rng.randrange(1, 5))


def _put_varint(rng: random.Random, data: bytearray) -> None:
    at = _somewhere(rng, data)
    data[at : at + rng.choice([0, 1, 2])] = rng.choice(_VARINTS)


def _repeat(rng: random.Random, data: bytearray) -> None:
    at = _somewhere(rng, data)
    data[at:at] = data[at : at + rng.randrange(1, 40)]


def _cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _change_header(rng: random.Random, data: bytearray) -> None:
    form, at = rng.choice(_HEADER_FIELDS)
    bits = 8 * struct.calcsize(form)
    if len(data) >= HEADER_BYTES:
        value = rng.choice([*_EXTREMES, rng.randrange(40)]) & 2**bits - 1
        data[at : at + bits // 8] = value.to_bytes(bits // 8)


def _change_count(rng: random.Random, data: bytearray) -> None:
    if len(data) >= HEADER_BYTES:
        (count,) = struct.unpack_from(">i", data, 57)
        count = max(-(2**31), min(2**31 - 1, count + rng.choice([-1, 1, 1, 100])))
        struct.pack_into(">i", data, 57, count)


_DAMAGES: tuple[Callable[[random.Random, bytearray], None], ...] = (
    *(_flip, _replace, _remove, _insert, _put_varint, _put_varint, _repeat, _cut),
    *(_change_header, _change_count),
)


def _packed(rng: random.Random, batch: bytes) -> bytes:
    is_plain = len(batch) >= HEADER_BYTES and not batch[22] & 7
    if not is_plain or rng.random() < 0.7:
        return batch
    return recompressed(batch, rng.choice(CODECS[1:]))
