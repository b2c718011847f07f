"""Twenty thousand damaged batches: every one is read or refused by a declared error.

The CRC is made right again after each damage, so that the damage reaches the parsers.
"""

import random

import pytest

from logstore.records.batch import CODECS, BadBatch, Codec, check_batch, read_header
from logstore.records.columns import decode_columns
from logstore.records.decode import decode_records, payload_of
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from tests.logstore.records.strategies import NOW_MS, with_right_crc

MUTATIONS = 4000
MAX_BYTES = 64 << 10


def some_batch(rng: random.Random, codec: Codec) -> bytes:
    records = [
        Record(
            i,
            NOW_MS + rng.randrange(-100, 100_000),
            rng.choice([None, rng.randbytes(rng.randrange(20))]),
            rng.choice([None, rng.randbytes(rng.randrange(90))]),
            [("name", rng.choice([None, b"x"]))] * rng.choice([0, 0, 2]),
        )
        for i in range(rng.randrange(1, 8))
    ]
    return encode_batch(records, compression=codec)


def mutated(rng: random.Random, batch: bytes) -> bytes:
    changed = bytearray(batch)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(21, len(changed))
        kind = rng.randrange(4)
        if kind == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[at] = rng.choice([0, 1, 127, 128, 255])
        elif kind == 2 and len(changed) > 70:
            del changed[at : at + rng.randrange(1, 4)]
        else:
            changed[at:at] = rng.randbytes(rng.randrange(1, 4))
    changed[8:12] = (len(changed) - 12).to_bytes(4, "big")
    return with_right_crc(changed)


def outcome(batch: bytes) -> object:
    """The records or the fault, after both decoders agreed on it."""
    try:
        check_batch(memoryview(batch), 0, len(batch))
        records = decode_records(batch, max_bytes=MAX_BYTES)
    except BadBatch as fault:
        return fault
    header = read_header(batch, 0, len(batch))
    payload = payload_of(batch, header, max_bytes=MAX_BYTES)
    columns = decode_columns([(header, payload)], headers=True)
    assert columns.keys.to_pylist() == [record.key for record in records]
    assert columns.values.to_pylist() == [record.value for record in records]
    return records


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_damage_is_read_or_refused_and_never_anything_else(codec: Codec) -> None:
    rng = random.Random(f"mutations {codec}")
    read = refused = 0
    while read + refused < MUTATIONS:
        batch = some_batch(rng, codec)
        for _ in range(40):
            if isinstance(outcome(mutated(rng, batch)), BadBatch):
                refused += 1
            else:
                read += 1

    assert read > MUTATIONS // 100, "mutations do not reach the records"
    assert refused > MUTATIONS // 10, "mutations do no damage"
