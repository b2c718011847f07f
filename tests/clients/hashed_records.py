"""Records that try what clients may get wrong, and one digest of all that they are."""

import hashlib
import random
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

PARTITIONS = 3
FIRST_MS = 1_700_000_000_000

Headers = tuple[tuple[str, bytes | None], ...]


class Sent(NamedTuple):
    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Placed(NamedTuple):
    offset: int
    record: Sent


def records(count: int, seed: int) -> Iterator[Sent]:
    """Nulls, empty ones and every byte, in keys, values and headers; times that go back as well."""
    rng = random.Random(seed)
    every_byte = bytes(range(256))
    for number in range(count):
        own = b"%d" % number
        keys = (None, b"", own, every_byte + own, rng.randbytes(12))
        values = (None, b"", own, every_byte, rng.randbytes(100), own * 150)
        headers: tuple[Headers, ...] = (
            (),
            (("trace", own),),
            (("null", None), ("empty", b""), ("bytes", every_byte)),
            (("twice", b"1"), ("twice", None), ("gr\u00fc\u00dfe \u4f60\u597d", b"\x00\xff")),
        )
        yield Sent(
            partition=rng.randrange(PARTITIONS),
            timestamp=FIRST_MS + number + rng.choice((0, 0, 0, -500, 90_000)),
            key=rng.choice(keys),
            value=rng.choice(values),
            headers=rng.choice(headers),
        )


def in_order(placed: Iterable[Placed]) -> list[Placed]:
    return sorted(placed, key=lambda item: (item.record.partition, item.offset))


def fit(record: Sent, client: str) -> Sent:
    """What `client` can send: not all take null for both key and value, or in a header."""
    if client != "librdkafka" and record.key is record.value is None:
        record = record._replace(value=b"")
    if client == "kafka-python":
        headers = tuple((name, value or b"") for name, value in record.headers)
        record = record._replace(headers=headers)
    return record


def digest(placed: Iterable[Placed]) -> str:
    """Of the records in the order of partition and offset; every field says its own length."""
    sha = hashlib.sha256()
    for offset, record in in_order(placed):
        sha.update(struct.pack(">iqq", record.partition, offset, record.timestamp))
        fields: list[bytes | None] = [record.key, record.value]
        for name, value in record.headers:
            fields += [name.encode(), value]
        for data in fields:
            sha.update(struct.pack(">i", -1 if data is None else len(data)) + (data or b""))
    return sha.hexdigest()
