"""Batches whose records are packed in any way: whole, ill-formed, or damaged. Seeded, pure.

Header, length and CRC of each batch are right: what is asked is how its payload is judged.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from logstore.records.batch import Codec, read_header
from logstore.records.encode import encode_batch, with_payload
from logstore.records.record import Record
from tests.clients.payloads import gzip_frames, lz4_frames, snappy_frames, zstd_frames
from tests.clients.payloads.record_bytes import (
    FIRST_MS,
    Records,
    faulty_records,
    few_records,
    some_records,
)

FORMS: Mapping[Codec, Mapping[str, Callable[[random.Random, bytes], bytes]]] = {
    "gzip": gzip_frames.FORMS,
    "snappy": snappy_frames.FORMS,
    "lz4": lz4_frames.FORMS,
    "zstd": zstd_frames.FORMS,
}
USUAL = 3
"""So many of a codec's forms, the first ones, are what common encoders write."""
SEPARATOR = "; "
_SMALL_BYTES = 400
_OTHER_BYTES = {0, 1, 127, 128, 255}
_ANY_FORM, _DAMAGED = 0.6, 0.85
_EMPTY = read_header(batch := encode_batch([Record(0, FIRST_MS, None, b"")]), 0, len(batch))


class Frame(NamedTuple):
    codec: Codec
    kind: str
    """The form of the payload, then what was done to it."""
    batch: bytes


def some_frame(seed: int, number: int, codec: Codec) -> Frame:
    """The frame of this number: any form, a form that is damaged, or faulty records in a usual one.

    Equal numbers give equal frames.
    """
    rng = random.Random(f"{seed} {codec} {number}")
    forms = FORMS[codec]
    draw = rng.random()
    if draw >= _DAMAGED:
        fault, records = faulty_records(rng)
        form = rng.choice(list(forms)[:USUAL])
        packed = forms[form](rng, records.data)
        return Frame(codec, f"{form}{SEPARATOR}{fault}", packed_batch(codec, packed, records))
    records = some_records(rng)
    form = rng.choice(list(forms))
    packed = forms[form](rng, records.data)
    if draw < _ANY_FORM or not packed:
        return Frame(codec, form, packed_batch(codec, packed, records))
    name = rng.choice(list(DAMAGES))
    return Frame(
        codec, f"{form}{SEPARATOR}{name}", packed_batch(codec, DAMAGES[name](rng, packed), records)
    )


def each_damage(seed: int, codec: Codec) -> Iterator[Frame]:
    """Small payloads of every form, with each byte changed in turn, and cut at each byte."""
    for form, pack in FORMS[codec].items():
        rng = random.Random(f"{seed} {codec} {form}")
        records = few_records(rng)
        packed = pack(rng, records.data)
        if len(packed) > _SMALL_BYTES:
            continue
        for at, byte in enumerate(packed):
            cut = packed_batch(codec, packed[:at], records)
            yield Frame(codec, f"{form}{SEPARATOR}cut at {at}", cut)
            for other in sorted({byte ^ 1 << bit for bit in range(8)} | _OTHER_BYTES - {byte}):
                changed = packed[:at] + bytes([other]) + packed[at + 1 :]
                kind = f"{form}{SEPARATOR}{other} at {at}"
                yield Frame(codec, kind, packed_batch(codec, changed, records))


def packed_batch(codec: Codec, payload: bytes, records: Records) -> bytes:
    header = _EMPTY._replace(
        record_count=records.record_count, last_offset_delta=records.record_count - 1
    )
    return with_payload(header, codec, payload)[0]


def _somewhere(rng: random.Random, data: bytes) -> int:
    """Anywhere; half of the time near an end, where headers and trailers are."""
    near = rng.choice([len(data), len(data), 24, -24])
    at = rng.randrange(near) if near > 0 else len(data) + rng.randrange(near, 0)
    return max(0, min(at, len(data) - 1))


def _changed(rng: random.Random, data: bytes) -> bytes:
    at = _somewhere(rng, data)
    return (
        data[:at] + bytes([rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])]) + data[at + 1 :]
    )


def _flipped(rng: random.Random, data: bytes) -> bytes:
    at = _somewhere(rng, data)
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _without(rng: random.Random, data: bytes) -> bytes:
    at = _somewhere(rng, data)
    return data[:at] + data[at + rng.randrange(1, 5) :]


def _with_more(rng: random.Random, data: bytes) -> bytes:
    at = _somewhere(rng, data)
    return data[:at] + rng.randbytes(rng.randrange(1, 5)) + data[at:]


def _repeated(rng: random.Random, data: bytes) -> bytes:
    at = _somewhere(rng, data)
    return data[:at] + data[at : at + rng.randrange(1, 40)] + data[at:]


DAMAGES: Mapping[str, Callable[[random.Random, bytes], bytes]] = {
    "a bit flipped": _flipped,
    "a byte changed": _changed,
    "bytes left out": _without,
    "bytes put in": _with_more,
    "bytes twice": _repeated,
    "cut": lambda rng, data: data[: _somewhere(rng, data)],
}
