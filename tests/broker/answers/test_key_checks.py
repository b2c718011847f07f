"""Keys are read within bounds, whatever the batches unpack to."""

import pytest

from broker.answers.key_checks import AT_ONCE_BYTES_MAX, KeyChecks, RefuseRecords
from logstore.errors import Retryable
from logstore.records.batch import CorruptBatch
from logstore.records.encode import encode_batch
from logstore.records.lookup import LOOKUP_BYTES_MAX
from logstore.records.record import Record


def batch(key: bytes | None, value_bytes: int, compression: str = "zstd") -> memoryview:
    record = Record(0, 0, key, bytes(value_bytes))
    return memoryview(encode_batch([record], compression=compression))  # type: ignore[arg-type]


def never() -> bool:
    return False


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_small_batches_are_read_at_once_and_large_ones_in_the_thread(codec: str) -> None:
    keys = KeyChecks()
    small, large = batch(b"k", 1000, codec), batch(None, AT_ONCE_BYTES_MAX, codec)

    keys.add(small)
    assert not keys.needs_thread()
    keys.check(small)

    keys.add(large)
    assert keys.needs_thread()
    keys.run(never)
    with pytest.raises(RefuseRecords, match="count=1") as refused:
        keys.check(large)
    assert refused.value.indexes == [0]


def test_many_batches_share_what_may_be_read_at_once() -> None:
    keys = KeyChecks()
    batches = [batch(b"k", AT_ONCE_BYTES_MAX // 4) for _ in range(5)]

    for one in batches[:3]:
        keys.add(one)
    assert not keys.needs_thread()
    for one in batches[3:]:
        keys.add(one)
    assert keys.needs_thread()
    keys.run(never)
    for one in batches:
        keys.check(one)


def test_a_request_of_bombs_is_read_up_to_a_bound() -> None:
    keys = KeyChecks()
    bombs = [batch(b"k", LOOKUP_BYTES_MAX // 2) for _ in range(3)]
    for one in bombs:
        keys.add(one)

    keys.run(never)

    keys.check(bombs[0])
    with pytest.raises(CorruptBatch, match="too large"):
        keys.check(bombs[2])


def test_the_thread_ends_with_its_connection() -> None:
    keys = KeyChecks()
    keys.add(large := batch(b"k", 2 * AT_ONCE_BYTES_MAX))

    keys.run(lambda: True)

    with pytest.raises(Retryable):
        keys.check(large)


def test_a_batch_that_nobody_looked_at_is_to_be_sent_again() -> None:
    with pytest.raises(Retryable, match="send it again"):
        KeyChecks().check(batch(b"k", 1))
