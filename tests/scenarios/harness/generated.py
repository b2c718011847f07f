"""Records of every shape that a table must hold, by a seed: what a history series produces.

Sizes from nothing to tens of kilobytes, null and empty values, tombstones, no key, headers with a
name twice and without a value, timestamps out of order and of 1970. Pure.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

VALUE_BYTES_MAX = 64 * 1024
KEYS = 5_000
TIME_MS = 1_700_000_000_000
TIME_SPREAD_MS = 3_600_000


class Made(NamedTuple):
    """A record that has no place in a log yet."""

    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def records(seed: int, partitions: int) -> Iterator[Made]:
    """Without end; about 1 KB each."""
    rng = random.Random(seed)
    noise = rng.randbytes(4 * VALUE_BYTES_MAX)
    for number in range(1 << 62):
        yield Made(
            rng.randrange(partitions),
            _time_ms(rng, number),
            _key(rng),
            _value(rng, noise),
            _headers(rng),
        )


def _time_ms(rng: random.Random, number: int) -> int:
    if rng.randrange(1000) == 0:
        return 1 + number  # librdkafka takes no 0, and nothing before 1970
    return TIME_MS + number + rng.randint(-TIME_SPREAD_MS, TIME_SPREAD_MS)


def _key(rng: random.Random) -> bytes | None:
    match rng.randrange(20):
        case 0:
            return None
        case 1:
            return b""
        case _:
            return b"key-%d" % rng.randrange(KEYS)


def _value(rng: random.Random, noise: bytes) -> bytes | None:
    match rng.randrange(100):
        case 0 | 1:
            return None
        case 2:
            return b""
        case 3:
            size = rng.randrange(VALUE_BYTES_MAX // 2)
        case _:
            size = int(rng.expovariate(1 / 700)) % VALUE_BYTES_MAX
    at = rng.randrange(len(noise) - size)
    half = size // 2  # half of it compresses
    return noise[at : at + size - half] + b"x" * half


def _headers(rng: random.Random) -> tuple[tuple[str, bytes | None], ...]:
    match rng.randrange(10):
        case 0:
            return (("trace", rng.randbytes(16)), ("trace", b""), ("empty", None))
        case 1:
            return (("größe", b"\x00\xff"),)
        case _:
            return ()
