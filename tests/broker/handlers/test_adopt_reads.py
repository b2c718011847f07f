"""Adopt: staging that lies, is damaged, or is large; what a leader reads, keeps and refuses."""

from collections.abc import Callable
from itertools import chain, repeat

import pytest

from broker.answers import staged_checks
from broker.answers.decisions import record_checks
from broker.answers.staged_fronts import KEPT_MAX
from logstore.formats.segment import HEADER_BYTES
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.sinks import adopt_plan
from logstore.wire.adopt import AdoptOutcome
from tests.broker.handlers.test_adopt import leader, set_backlog
from tests.broker.running import Running
from tests.broker.staging import Staging, adopt, outcome, refusal, staging, values

ADOPTED, ALREADY, INVALID = AdoptOutcome.ADOPTED, AdoptOutcome.ALREADY, AdoptOutcome.INVALID
BUSY = AdoptOutcome.BUSY

Damage = Callable[[Staging], None]


def gone(found: Staging) -> None:
    """An object is not there; the manifest names it."""
    manifest = found.manifest()
    found.objects.popitem()
    found.manifest = lambda head=None: manifest  # type: ignore[method-assign]


def cut_short(found: Staging) -> None:
    ref, data = found.objects.popitem()
    found.objects[ref] = data[:-1]


def other_nonce(found: Staging) -> None:
    ref, data = found.objects.popitem()
    found.objects[ref._replace(nonce=b"o" * 16)] = data


def other_size(found: Staging) -> None:
    ref, data = found.objects.popitem()
    found.objects[ref._replace(size_bytes=ref.size_bytes - 1)] = data


def other_count(found: Staging) -> None:
    partition = TopicPartition(found.topic.topic_id, 0)
    found.rows[partition] += 1


def wrong_batch(found: Staging) -> None:
    ref, data = found.objects.popitem()
    found.objects[ref] = data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    "damage", [gone, cut_short, other_nonce, other_size, other_count, wrong_batch]
)
def test_staging_that_lies_is_refused_before_anything_is_appended(
    running: Running, damage: Damage
) -> None:
    name = f"lies-{damage.__name__}".replace("_", "-")
    topic = running.create_topic(name)
    found = staging(running, topic, name)
    found.task({0: [["a"]]})
    found.task({0: [["b"], ["c"]]})
    damage(found)
    found.put(running.shared.objects)

    assert found.sink_batch.prefix in refusal(running, found.request(), INVALID)
    assert leader(running, name).log_end == 0


def flipped(data: bytes) -> bytes:
    """A bit of the index, of a head or of the only batch."""
    at = HEADER_BYTES + 30 if len(data) > HEADER_BYTES else len(data) - 1
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


def short(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize("harm", [flipped, short])
@pytest.mark.parametrize("where", ["manifest", "index", "body"])
def test_damage_on_the_way_is_read_once_more_before_it_ends_a_query(
    running: Running, where: str, harm: Callable[[bytes], bytes]
) -> None:
    name = f"harm-{where}-{harm.__name__}"
    topic = running.create_topic(name)
    for batch, harms in ((0, [harm]), (1, repeat(harm))):
        found = staging(running, topic, name, batch)
        ref = found.task({0: [[f"{batch}"]]})
        found.put(running.shared.objects)
        key = ref.name.key(found.sink_batch)
        key = found.sink_batch.manifest_key if where == "manifest" else key
        running.store.damage[key] = chain([bytes] if where == "body" else [], harms)
        if batch == 0:
            assert outcome(running, found.request()) == (ADOPTED, 0, 1)
        else:
            assert key in refusal(running, found.request(), INVALID)
            del running.store.damage[key]
            assert outcome(running, found.request()) == (ADOPTED, 1, 2)


def test_inline_batches_that_come_damaged_are_read_once_more(running: Running) -> None:
    found = staging(running, running.create_topic("harm-inline"), "harm-inline")
    found.small_task({0: [["a"]]})
    found.put(running.shared.objects)
    harms = iter([lambda data: data[:-1] + bytes([data[-1] ^ 4])])
    running.store.damage[found.sink_batch.manifest_key] = harms

    assert outcome(running, found.request()) == (ADOPTED, 0, 1)
    assert running.store.reads[found.sink_batch.manifest_key] == 2


# Memory and requests


def test_batches_that_compress_well_are_copied_whatever_they_unpack_to(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_checks, "LOOKUP_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(staged_checks, "SLICE_BYTES", 1 << 20)
    found = staging(running, running.create_topic("zeros"), "zeros")
    for _ in range(2):
        found.task({0: [["0" * 1_000_000] for _ in range(10)]}, compression="zstd")
    found.put(running.shared.objects)

    assert outcome(running, found.request()) == (ADOPTED, 0, 20)
    assert outcome(running, found.request()) == (ALREADY, 0, 20)


def test_a_batch_that_unpacks_to_more_than_any_may_ends_its_query(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_checks, "LOOKUP_BYTES_MAX", 1 << 20)
    found = staging(running, running.create_topic("bomb"), "bomb")
    ref = found.task({0: [["a"], ["0" * 2_000_000]]}, compression="zstd")
    found.put(running.shared.objects)

    for _ in range(2):
        text = refusal(running, found.request(), INVALID)
        assert "unpacks to more than any batch may" in text
        assert ref.name.key(found.sink_batch) in text


def staged_of_many(running: Running, name: str, count: int) -> Staging:
    found = staging(running, running.create_topic(name), name)
    for number in range(count):
        found.task({0: [[f"{number}"]]})
    return found.put(running.shared.objects)


def test_a_leader_that_was_busy_reads_no_index_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adopt_plan, "PART_BATCHES", 1)
    found = staged_of_many(running, "kept", 10)
    keys = [ref.name.key(found.sink_batch) for ref in found.objects]
    settings = running.log.writer._settings
    running.do(lambda: set_backlog(running, 1))
    running.hold_store()
    try:
        (result,) = adopt(running, found.request(timeout_ms=500))
        copied = leader(running, "kept").log_end
        assert 0 < copied < 10
        assert (result.outcome, result.progress) == (BUSY, 10 + copied), "counted, and copied"
    finally:
        running.do(lambda: set_backlog(running, settings.backlog_bytes_max))
        running.let_store_go()
    assert outcome(running, found.request()) == (ADOPTED, 0, 10)
    assert values(running, "kept") == [f"{number}" for number in range(10)]
    assert max(running.store.reads[key] for key in keys) == 3, "an index, and a body twice"
    assert running.store.reads[found.sink_batch.manifest_key] == 1


def test_of_many_objects_a_leader_keeps_some_indexes_and_reads_each_twice(
    running: Running,
) -> None:
    count = 3 * KEPT_MAX
    found = staged_of_many(running, "many-objects", count)
    keys = [ref.name.key(found.sink_batch) for ref in found.objects]

    assert outcome(running, found.request()) == (ADOPTED, 0, count)
    assert values(running, "many-objects") == [f"{number}" for number in range(count)]
    assert len(running.broker.staged_fronts.kept) == KEPT_MAX
    assert max(running.store.reads[key] for key in keys) == 3, "to count, to copy, and a body"
    assert outcome(running, found.request()) == (ALREADY, 0, count)
    assert sum(running.store.reads[key] for key in keys) <= 3 * count
