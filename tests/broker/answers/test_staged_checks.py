"""Staged batches are checked one at a time, each within a budget of its own."""

import pytest

from broker.answers.decisions import record_checks
from broker.answers.decisions.topic_rules import TopicRules
from broker.answers.staged_checks import (
    SLICE_BYTES,
    CheckedPart,
    PartOutcome,
    ReadPart,
    check_in_slices,
)
from logstore.config.broker import BrokerSettings
from logstore.errors import Corrupt, Invalid
from logstore.formats.staged_object import StagedBuilder, StagedRef, decode_staged
from logstore.formats.staging_keys import SinkBatch, StagedName, sink_hash
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.sinks.adopt_plan import PART_BYTES, Bite, StagedSource
from logstore.records.batch import Codec
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.slices import finish

NOW_MS = 1_700_000_000_000
MIB = 1 << 20
DEFAULTS = BrokerSettings({}).topic_defaults
AS_IT_CAME = TopicRules.of("t", {"max.message.bytes": str(64 * MIB)}, DEFAULTS)
BATCH = SinkBatch(sink_hash("sink"), 1)
CLUSTER = bytes(16)


def part(
    sizes: list[int], codec: Codec = "zstd", rules: TopicRules = AS_IT_CAME, number: int = 0
) -> ReadPart:
    """A part of one batch for each size, of one record that has so many zeros."""
    builder = StagedBuilder()
    for size in sizes:
        record = Record(0, NOW_MS, None, bytes(size))
        builder.add(TopicPartition(bytes(16), number), encode_batch([record], compression=codec))
    parts = builder.freeze(BATCH, cluster_id=CLUSTER, nonce=bytes([1]) * 16, created_ms=NOW_MS)
    data = memoryview(b"".join(parts))
    ref = StagedRef(StagedName(0, 1, 0), bytes([1]) * 16, len(data))
    header, ranges = finish(decode_staged(data, BATCH, ref, cluster_id=CLUSTER))
    (found,) = ranges
    body = data[header.body_at + found.start : header.body_at + found.end]
    return ReadPart([(Bite(0, StagedSource("key", header.body_at, found)), body)], rules)


def checked(outcome: PartOutcome) -> CheckedPart:
    assert isinstance(outcome.checked, CheckedPart), outcome
    return outcome.checked


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_what_batches_unpack_to_together_refuses_none(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times what a request of a producer may unpack to."""
    monkeypatch.setattr(record_checks, "LOOKUP_BYTES_MAX", MIB)
    given = part([MIB - 100] * 40, codec)
    assert len(given.bites[0][1]) * record_checks.GROWTH_MAX + MIB < 40 * MIB

    found = [
        checked(one)
        for slice_ in check_in_slices([given], NOW_MS, slice_bytes=SLICE_BYTES)
        for one in slice_
    ]
    assert sum(len(one.batches) for one in found) == 40


def test_a_slice_unpacks_so_much_and_one_batch_and_the_parts_of_a_partition_follow() -> None:
    parts = [part([100_000] * 11), part([100_000] * 5, number=1)]
    slices = list(check_in_slices(parts, NOW_MS, slice_bytes=300_000))

    assert [sum(len(checked(one).batches) for one in some) for some in slices] == [3] * 5 + [1]
    for number, count in ((0, 11), (1, 5)):
        ends = 0
        for one in (one for some in slices for one in some if one.number == number):
            assert checked(one).first == ends
            ends = checked(one).end
        assert ends == count


def test_nothing_is_unpacked_before_the_slice_before_was_taken() -> None:
    """Batches behind it are damaged, which shows only then."""
    good, bad = part([100_000] * 2), part([100_000] * 2, number=1)
    ((bite, data),) = bad.bites
    damaged = ReadPart([(bite, memoryview(bytes(data[:-1]) + bytes([data[-1] ^ 1])))], bad.rules)
    slices = check_in_slices([good, damaged], NOW_MS, slice_bytes=100_000)

    assert [checked(one).end for one in next(slices)] == [1]
    assert [checked(one).end for one in next(slices)] == [2]
    assert [checked(one).end for one in next(slices)] == [1]
    (last,) = next(slices)
    assert last.number == 1 and isinstance(last.checked, Corrupt)
    assert "key=key" in str(last.checked)


def test_what_grows_by_the_codec_of_its_topic_is_appended_in_parts() -> None:
    rules = TopicRules.of(
        "t", {"max.message.bytes": str(64 * MIB), "compression.type": "uncompressed"}, DEFAULTS
    )
    (outcomes,) = check_in_slices([part([MIB] * 10, rules=rules)], NOW_MS, slice_bytes=SLICE_BYTES)
    sizes = [sum(len(data) for data, _ in checked(one).batches) for one in outcomes]

    assert sum(sizes) > 10 * MIB
    assert max(sizes) < PART_BYTES + 2 * MIB


def test_a_batch_that_unpacks_to_more_than_any_may_is_refused_for_good() -> None:
    """It is not read again: nothing on the way makes a bomb."""
    ((outcome,),) = check_in_slices([part([64 * MIB + 1])], NOW_MS, slice_bytes=SLICE_BYTES)

    assert isinstance(outcome.checked, Invalid) and not isinstance(outcome.checked, Corrupt)
    assert "unpacks to more than any batch may: key=key bytes_max=67108864" in str(outcome.checked)
