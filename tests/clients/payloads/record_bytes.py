"""Records of a batch before they are packed: whole, or with one fault. Seeded, pure."""

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

from logstore.records.varint import encode_varint

FIRST_MS = 1_700_000_000_000
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


class Records(NamedTuple):
    data: bytes
    record_count: int
    """As the batch's header says it."""


class _Fields(NamedTuple):
    """Of one record, each as it is to be written."""

    attributes: int
    time_delta: int
    offset_delta: int
    key_length: int
    key: bytes
    value_length: int
    value: bytes
    header_count: int
    headers: bytes


def some_records(rng: random.Random) -> Records:
    """One to a hundred; now and then some that fill several blocks of any codec."""
    count = rng.choice([1, 1, 2, 3, 10, 100])
    value_bytes = rng.choice([0, 3, 30, 100, 100, 1000])
    if rng.random() < 0.08:
        count, value_bytes = 10, rng.choice([7_000, 30_000])
    each = [_some_fields(rng, number, value_bytes) for number in range(count)]
    return Records(b"".join(map(_record, each)), count)


def few_records(rng: random.Random) -> Records:
    """Three, of some bytes."""
    return Records(b"".join(_record(_some_fields(rng, number, 9)) for number in range(3)), 3)


def faulty_records(rng: random.Random) -> tuple[str, Records]:
    """With one fault, and its name."""
    count = rng.choice([1, 2, 3, 10])
    each = [_some_fields(rng, number, 30) for number in range(count)]
    name = rng.choice(list(FAULTS))
    at = rng.randrange(count)
    data = [_record(fields) for fields in each]
    fault = FAULTS[name]
    if fault is None:
        return name, _miscounted(rng, name, b"".join(data), count)
    data[at] = fault(rng, each[at])
    return name, Records(b"".join(data), count)


def _miscounted(rng: random.Random, name: str, data: bytes, count: int) -> Records:
    match name:
        case "a record too few":
            return Records(data, count + rng.choice([1, 1, 5]))
        case "a record too many":
            return Records(data + _record(_some_fields(rng, count, 3)), count)
        case "bytes behind the records":
            return Records(data + rng.randbytes(rng.choice([1, 2, 9])), count)
        case _:
            return Records(data[: -rng.randrange(1, min(9, len(data)))], count)


def _some_fields(rng: random.Random, number: int, value_bytes: int) -> _Fields:
    key = rng.choice([None, b"", b"%d" % number])
    value = rng.choice([None, rng.randbytes(value_bytes), b"%d " % number * (value_bytes // 3)])
    headers = rng.choice([(), (), (("trace", b"x"), ("é", None), ("", b""))])
    return _Fields(
        0,
        rng.choice([0, number, -number]),
        number,
        -1 if key is None else len(key),
        key or b"",
        -1 if value is None else len(value),
        value or b"",
        len(headers),
        b"".join(_header(name.encode(), value) for name, value in headers),
    )


def _record(fields: _Fields, length_error: int = 0) -> bytes:
    body = b"".join(
        (
            bytes([fields.attributes]),
            encode_varint(fields.time_delta),
            encode_varint(fields.offset_delta),
            encode_varint(fields.key_length) + fields.key,
            encode_varint(fields.value_length) + fields.value,
            encode_varint(fields.header_count) + fields.headers,
        )
    )
    return encode_varint(len(body) + length_error) + body


def _header(name: bytes, value: bytes | None, name_error: int = 0) -> bytes:
    length = encode_varint(-1 if value is None else len(value))
    return encode_varint(len(name) + name_error) + name + length + (value or b"")


def _long_varint(fields: _Fields) -> bytes:
    """The time delta takes more bytes than it needs."""
    plain = _record(fields._replace(time_delta=0))
    body = plain[len(encode_varint(len(plain) - 1 if len(plain) < 65 else len(plain) - 2)) :]
    changed = body[:1] + b"\x80\x00" + body[2:]
    return encode_varint(len(changed)) + changed


_Fault = Callable[[random.Random, _Fields], bytes]

FAULTS: Mapping[str, _Fault | None] = {
    "a record too few": None,
    "a record too many": None,
    "bytes behind the records": None,
    "records cut short": None,
    "a record longer than it says": lambda rng, f: _record(f, rng.choice([-1, -2])),
    "a record shorter than it says": lambda rng, f: _record(f, rng.choice([1, 2, 60])),
    "a record of less than no bytes": lambda _, f: _record(f, -len(_record(f)) - 2),
    "a key of length -2": lambda _, f: _record(f._replace(key_length=-2, key=b"")),
    "a value of length -9": lambda _, f: _record(f._replace(value_length=-9, value=b"")),
    "a key longer than its record": lambda _, f: _record(f._replace(key_length=5000)),
    "a value of 2 GiB": lambda _, f: _record(f._replace(value_length=_INT32_MAX)),
    "headers fewer than said": lambda _, f: _record(f._replace(header_count=9)),
    "headers more than said": lambda _, f: _record(
        f._replace(header_count=1, headers=_header(b"a", b"") * 2)
    ),
    "a negative count of headers": lambda _, f: _record(f._replace(header_count=-1)),
    "a header without a name": lambda _, f: _record(
        f._replace(header_count=1, headers=b"\x01\x00")
    ),
    "a header's name that is not UTF-8": lambda _, f: _record(
        f._replace(header_count=1, headers=_header(b"\xff\xfe", b""))
    ),
    "a header's value of length -2": lambda _, f: _record(
        f._replace(header_count=1, headers=b"\x02a\x03")
    ),
    "attributes of a record": lambda rng, f: _record(f._replace(attributes=rng.randrange(256))),
    "an offset out of turn": lambda rng, f: _record(
        f._replace(offset_delta=rng.choice([-1, 0, 1, 2, 3, 1000, _INT32_MAX]))
    ),
    "an offset of more than 32 bits": lambda _, f: _record(f._replace(offset_delta=2**32)),
    "a time before all times": lambda _, f: _record(f._replace(time_delta=-FIRST_MS - 7)),
    "a time after all times": lambda _, f: _record(f._replace(time_delta=_INT64_MAX)),
    "a varint longer than it need be": lambda _, f: _long_varint(f),
}
