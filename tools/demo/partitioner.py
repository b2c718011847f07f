"""Which partition a record goes to: Kafka's own choice for keys, in turn for records without one.

The demo chooses by itself because it numbers the records of each partition before it sends them.
"""

from functools import lru_cache
from itertools import cycle

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


class Partitioner:
    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._turns = cycle(range(partitions))
        self._of_key = lru_cache(maxsize=10_000)(self._hashed)

    def choose(self, key: bytes | None) -> int:
        return next(self._turns) if key is None else self._of_key(key)

    def _hashed(self, key: bytes) -> int:
        return (murmur2(key) & 0x7FFFFFFF) % self._partitions


def murmur2(data: bytes) -> int:
    """32 bits; the same as `org.apache.kafka.common.utils.Utils.murmur2`, unsigned."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)
