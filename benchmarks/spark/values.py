"""Values of records: random bytes, or JSON of web clicks, the same for every server and run."""

import json
import random
import zlib
from collections.abc import Sequence

POOL_BYTES = 16_000_000
"""Above what a batch holds: inside one, no value comes twice, which would compress."""

KINDS = ("random", "json")


def values_of(kind: str, record_bytes: int, *, pool_bytes: int = POOL_BYTES) -> Sequence[bytes]:
    """Values of `record_bytes` each, to be used over and over."""
    rng = random.Random(record_bytes)
    count = pool_bytes // record_bytes
    if kind == "random":
        return [rng.randbytes(record_bytes) for _ in range(count)]
    return [_json(rng, record_bytes, number) for number in range(count)]


def checksum(values: Sequence[bytes], count: int) -> int:
    """Of `count` records: the sum of their CRC-32, as Spark's `sum(crc32(value))`."""
    sums = [zlib.crc32(value) for value in values]
    rounds, rest = divmod(count, len(sums))
    return rounds * sum(sums) + sum(sums[:rest])


def _json(rng: random.Random, record_bytes: int, number: int) -> bytes:
    """One object, filled up to its size with a word: clicks compress to a quarter or so."""
    clicks = [_click(rng, number + k) for k in range(max(1, record_bytes // 110))]
    text = json.dumps(clicks[0] if len(clicks) == 1 else {"clicks": clicks}, separators=(",", ":"))
    return text.ljust(record_bytes)[:record_bytes].encode()


def _click(rng: random.Random, number: int) -> dict[str, object]:
    return {
        "id": number,
        "user": rng.randrange(100_000),
        "action": rng.choice(["view", "search", "add", "buy"]),
        "page": f"/products/{rng.randrange(5000)}",
        "session": f"{rng.getrandbits(32):08x}",
    }
