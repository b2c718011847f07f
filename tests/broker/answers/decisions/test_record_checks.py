"""Records are read within bounds, whatever the batches unpack to."""

import random

import pytest

from broker.answers.decisions.record_checks import (
    AT_ONCE_BYTES_MAX,
    PLAIN_BYTES_MAX,
    PlainChecks,
    RecordChecks,
    RefuseRecords,
)
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.topic_rules import TopicRules
from logstore.config.broker import BrokerSettings
from logstore.errors import Retryable
from logstore.records.batch import CorruptBatch
from logstore.records.compression import compress
from logstore.records.encode import encode_batch
from logstore.records.lookup import LOOKUP_BYTES_MAX
from logstore.records.record import Record

NOW_MS = 1_700_000_000_000
MIB = 1 << 20
DEFAULTS = BrokerSettings({}).topic_defaults
COMPACTED = TopicRules.of("t", {"cleanup.policy": "compact"}, DEFAULTS)
PLAIN_TOPIC = TopicRules.of("t", {}, DEFAULTS)


def batch(key: bytes | None, value_bytes: int, compression: str = "zstd") -> memoryview:
    record = Record(0, 0, key, bytes(value_bytes))
    return memoryview(encode_batch([record], compression=compression))  # type: ignore[arg-type]


def never() -> bool:
    return False


@pytest.fixture(autouse=True, scope="module")
def _loaded_codecs() -> None:
    """As in a process that packed or unpacked before; `test_first_packed_batch` has the others."""
    compress("zstd", b"")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_small_batches_are_read_at_once_and_large_ones_in_the_thread(codec: str) -> None:
    checks = RecordChecks()
    small, large = batch(b"k", 1000, codec), batch(None, PLAIN_BYTES_MAX, codec)

    checks.add(small, COMPACTED, NOW_MS)
    assert not checks.needs_thread()
    checks.check(small, COMPACTED, NOW_MS)

    checks.add(large, COMPACTED, NOW_MS)
    assert checks.needs_thread()
    checks.run(never)
    with pytest.raises(RefuseRecords, match="count=1") as refused:
        checks.check(large, COMPACTED, NOW_MS)
    assert refused.value.indexes == [0]


def test_many_batches_share_what_may_be_read_at_once() -> None:
    checks = RecordChecks()
    batches = [batch(b"k", AT_ONCE_BYTES_MAX // 4) for _ in range(5)]

    for one in batches[:3]:
        checks.add(one, COMPACTED, NOW_MS)
    assert not checks.needs_thread()
    for one in batches[3:]:
        checks.add(one, COMPACTED, NOW_MS)
    assert checks.needs_thread()
    checks.run(never)
    for one in batches:
        checks.check(one, COMPACTED, NOW_MS)


def test_a_request_of_bombs_is_read_up_to_a_bound() -> None:
    checks = RecordChecks()
    bombs = [batch(b"k", LOOKUP_BYTES_MAX // 2) for _ in range(3)]
    for one in bombs:
        checks.add(one, COMPACTED, NOW_MS)

    checks.run(never)

    checks.check(bombs[0], COMPACTED, NOW_MS)
    with pytest.raises(CorruptBatch, match="too large"):
        checks.check(bombs[2], COMPACTED, NOW_MS)


def test_the_thread_ends_with_its_connection() -> None:
    checks = RecordChecks()
    checks.add(large := batch(b"k", 2 * AT_ONCE_BYTES_MAX), COMPACTED, NOW_MS)

    checks.run(lambda: True)

    with pytest.raises(Retryable):
        checks.check(large, COMPACTED, NOW_MS)


def test_a_batch_that_was_not_checked_is_to_be_sent_again() -> None:
    with pytest.raises(Retryable, match="send it again"):
        RecordChecks().check(batch(b"k", 1), COMPACTED, NOW_MS)


def test_uncompressed_batches_count_for_less() -> None:
    checks = RecordChecks()
    records = [batch(b"k", PLAIN_BYTES_MAX // 4, "none") for _ in range(4)]

    for one in records[:3]:
        checks.add(one, PLAIN_TOPIC, NOW_MS)
    assert not checks.needs_thread()
    checks.add(records[3], PLAIN_TOPIC, NOW_MS)

    assert checks.needs_thread()


def test_a_plain_request_is_read_when_it_is_appended() -> None:
    record = Record(0, NOW_MS, None, b"v")

    assert PlainChecks().check(memoryview(encode_batch([record])), PLAIN_TOPIC, NOW_MS) == NOW_MS
    with pytest.raises(RefuseRecords, match="without a key"):
        PlainChecks().check(memoryview(encode_batch([record])), COMPACTED, NOW_MS)
    with pytest.raises(Retryable):
        PlainChecks().check(batch(b"k", 1), PLAIN_TOPIC, NOW_MS)


def test_rules_that_changed_are_not_judged_by_the_old_ones() -> None:
    checks = RecordChecks()
    checks.add(records := batch(None, 1), PLAIN_TOPIC, NOW_MS)

    with pytest.raises(Retryable, match="configuration changed"):
        checks.check(records, COMPACTED, NOW_MS)


def test_every_timestamp_counts_and_none_is_none() -> None:
    late = NOW_MS + 2 * PLAIN_TOPIC.after_ms_max
    times = [NOW_MS, late, -1, late, NOW_MS - 10**9]
    records = [Record(i, ms, None, b"v") for i, ms in enumerate(times)]
    stamped = TopicRules.of("t", {"message.timestamp.type": "LogAppendTime"}, DEFAULTS)
    payload = memoryview(encode_batch(records))

    with pytest.raises(RefuseRecords, match="timestamps out of range: count=2") as refused:
        PlainChecks().check(payload, PLAIN_TOPIC, NOW_MS)
    assert refused.value.indexes == [1, 3]
    assert PlainChecks().check(payload, stamped, NOW_MS) == late


def topic_of(kind: str, **configs: str) -> TopicRules:
    return TopicRules.of("t", {"compression.type": kind, **configs}, DEFAULTS)


@pytest.mark.parametrize(
    ("kind", "size", "in_thread"),
    [
        ("lz4", 1000, False),
        ("lz4", AT_ONCE_BYTES_MAX // 2, True),
        ("zstd", 1000, False),
        ("gzip", 1000, True),
        ("snappy", 1000, False),
        ("uncompressed", AT_ONCE_BYTES_MAX // 2, False),
    ],
)
def test_little_is_packed_at_once_and_only_by_a_fast_codec(
    kind: str, size: int, in_thread: bool
) -> None:
    checks, rules = RecordChecks(), topic_of(kind)
    checks.add(records := batch(b"k", size, "none"), rules, NOW_MS)

    assert checks.needs_thread() == in_thread
    checks.run(never)
    checks.check(records, rules, NOW_MS)
    stored = checks.recompressed(records)
    assert (stored is None) == (kind == "uncompressed")
    assert checks.recompressed(records) is None, "it is held once"


def test_a_slow_level_is_for_the_thread() -> None:
    checks = RecordChecks()
    slow = TopicRules.of(
        "t", {"compression.type": "zstd", "compression.zstd.level": "19"}, DEFAULTS
    )
    checks.add(batch(b"k", 1, "none"), slow, NOW_MS)
    assert checks.needs_thread()


def test_many_small_batches_that_are_unpacked_are_for_the_thread() -> None:
    checks, batches = RecordChecks(), [batch(b"k", 1) for _ in range(1000)]
    for one in batches:
        checks.add(one, PLAIN_TOPIC, NOW_MS)

    assert checks.needs_thread()
    checks.run(never)
    for one in batches:
        checks.check(one, PLAIN_TOPIC, NOW_MS)


def test_a_request_holds_only_so_much_that_was_recompressed() -> None:
    rules = topic_of("uncompressed", **{"max.message.bytes": str(40 * MIB)})
    checks = RecordChecks()
    value = random.Random(1).randbytes(MIB // 2) + bytes(30 * MIB)
    record = Record(0, 0, b"k", value)
    batches = [memoryview(encode_batch([record], compression="zstd")) for _ in range(3)]
    for one in batches:
        checks.add(one, rules, NOW_MS)

    checks.run(never)

    for one in batches:
        checks.check(one, rules, NOW_MS)
    for one in batches[:2]:
        assert checks.recompressed(one) is not None
    with pytest.raises(Refuse, match="too large together"):
        checks.recompressed(batches[2])


def test_a_plain_request_is_sent_again_once_its_topic_compresses() -> None:
    plain = memoryview(encode_batch([Record(0, NOW_MS, None, b"v")]))
    with pytest.raises(Retryable):
        PlainChecks().check(plain, topic_of("lz4"), NOW_MS)
    assert PlainChecks().check(plain, topic_of("uncompressed"), NOW_MS) == NOW_MS
