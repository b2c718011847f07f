"""The native codec beside its twin: the same rows, or both refuse; the same batches, or both refuse.

Where the twin cannot follow, since hostile Arrow arrays would crash Arrow itself, the codec has only
to survive. It gets its input in memory of exactly that size, so that a sanitizer sees a byte beyond.
"""

import ctypes
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from logstore.errors import LogstoreError
from logstore.records import native
from logstore.records.arrow import KAFKA_COLUMNS, decode_to_arrow
from logstore.records.arrow_encode import encode_from_arrow
from logstore.records.arrow_schema import arrow_schema
from logstore.records.lookup import first_record_at_or_after, has_null_key, record_with_max_timestamp
from tools.fuzz.inputs import INT64_MAX, NOW_MS, some_batches

_ENCODED = ("offset", "timestamp_ms", "key", "value", "headers")
_DECODED = (*KAFKA_COLUMNS, "headers", "timestamp_ms", "leader_epoch")
_Refused = type[LogstoreError]


class Disagreement(Exception):
    """The twins gave different answers."""


def attack(rng: random.Random, codec: native.Codec) -> bool:
    """One input for everything; whether it was read rather than refused. Raises `Disagreement`."""
    batches = some_batches(rng)
    _attack_encoder(rng, codec)
    _attack_decoder(rng, codec, batches)
    for batch in batches:
        _compare(codec, batches, lambda batch=batch: _looked_up(batch, rng.getrandbits(41)))
    rows = _compare_decoding(rng, codec, batches)
    if rows is None:
        return False
    _compare_encoding(rng, codec, rows)
    return True


@contextmanager
def _using(codec: native.Codec | None) -> Iterator[None]:
    before, native.codec = native.codec, codec
    try:
        yield
    finally:
        native.codec = before


def _compare[T](codec: native.Codec, batches: Sequence[bytes], answer: Callable[[], T]) -> T: ...
