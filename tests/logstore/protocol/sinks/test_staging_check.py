"""`logstore fsck` of what sinks staged: what keeps a batch from being adopted is named, no more."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from logstore.formats.chain_row import CHAIN, chain_sk
from logstore.formats.partition_row import partition_pk, partition_sk
from logstore.formats.staging_keys import STAGING
from logstore.objects.memory import MemoryObjects
from logstore.protocol.rules.checks import ProblemKind
from logstore.protocol.sinks.staging_check import StagingFound, check_staging
from logstore.protocol.sinks.verdicts import DAY_MS
from logstore.runners.step_runner import BlockingStepRunner
from logstore.testing.virtual_loop import VirtualClock, run
from tests.broker.staging import Staging
from tests.logstore.protocol.sinks.test_staging_sweep import LIMIT_S, SweptLog, swept_log

OBJECT = "0-7-0"


def check(written: SweptLog, *, bodies: bool = False, after_ms: int = 0) -> StagingFound:
    sizes = {info.key: info.size_bytes for info in written.objects.list(STAGING)}
    now_ms = VirtualClock().now_ms() + after_ms
    steps = check_staging(written.cluster_id, sizes, now_ms, bodies=bodies)
    return BlockingStepRunner(written.objects, written.reads, random.Random(0)).run(steps)


def names(found: StagingFound) -> list[tuple[ProblemKind, str]]:
    return [(one.what, one.where.rpartition("/")[2]) for one in found.problems]


def put_again(objects: MemoryObjects, key: str, data: bytes) -> None:
    objects.delete(key)
    objects.create(key, [data])


def spoil(objects: MemoryObjects, key: str, at: int) -> None:
    data = bytearray(objects.get(key))
    data[at] ^= 0x01
    put_again(objects, key, bytes(data))


def key_of(found: Staging) -> str:
    (ref,) = found.objects
    return ref.name.key(found.sink_batch)


async def checked(
    harm: Callable[[MemoryObjects, Staging], None], *, bodies: bool = False, after_ms: int = 0
) -> StagingFound:
    written = await swept_log()
    async with written.life() as log:
        await written.open(log)
        harm(written.objects, written.stage().put(written.objects))
    return check(written, bodies=bodies, after_ms=after_ms)


def test_a_batch_that_waits_for_its_leaders_is_whole() -> None:
    async def scenario() -> None:
        written = await swept_log()
        async with written.life() as log:
            await written.open(log)
            mixed = written.stage()
            mixed.small_task({1: [["y"]]})
            mixed.put(written.objects)
            under_way = written.stage(1)
            ((ref, data),) = under_way.objects.items()
            written.objects.create(ref.name.key(under_way.sink_batch), [data])
            loser = ref.name._replace(attempt=8)
            written.objects.create(loser.key(mixed.sink_batch), [data])
        for bodies in (False, True):
            found = check(written, bodies=bodies)
            assert found == StagingFound(manifests=1, objects=1, unnamed=2)

    run(scenario(), limit_s=LIMIT_S)


HARMS: dict[str, tuple[Callable[[MemoryObjects, Staging], None], str]] = {
    "an object that is gone": (lambda objects, it: objects.delete(key_of(it)), OBJECT),
    "a bit of its index": (lambda objects, it: spoil(objects, key_of(it), 120), OBJECT),
    "its end": (
        lambda objects, it: put_again(objects, key_of(it), objects.get(key_of(it))[:-3]),
        OBJECT,
    ),
    "another attempt's nonce": (
        lambda objects, it: put_again(
            objects,
            it.sink_batch.manifest_key,
            it.manifest(
                replace(it.head(), objects=[one._replace(nonce=b"?" * 16) for one in it.objects])
            ),
        ),
        OBJECT,
    ),
    "rows that nothing holds": (
        lambda objects, it: put_again(
            objects,
            it.sink_batch.manifest_key,
            it.manifest(replace(it.head(), rows={one: n + 1 for one, n in it.rows.items()})),
        ),
        "manifest",
    ),
    "a bit of the manifest": (
        lambda objects, it: spoil(objects, it.sink_batch.manifest_key, -5),
        "manifest",
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_keeps_a_batch_from_being_adopted_is_named(harm: str) -> None:
    spoiled, where = HARMS[harm]
    found = run(checked(spoiled), limit_s=LIMIT_S)
    assert names(found) == [(ProblemKind.STAGING, where)]


def test_every_byte_is_looked_at_where_all_is_to_be_read() -> None:
    def harm(objects: MemoryObjects, it: Staging) -> None:
        spoil(objects, key_of(it), -1)

    assert run(checked(harm), limit_s=LIMIT_S).problems == []
    found = run(checked(harm, bodies=True), limit_s=LIMIT_S)
    assert names(found) == [(ProblemKind.STAGING, OBJECT)]


def test_a_batch_that_leaders_refuse_for_its_age_needs_no_object() -> None:
    def harm(objects: MemoryObjects, it: Staging) -> None:
        objects.delete(key_of(it))

    assert run(checked(harm, after_ms=32 * DAY_MS), limit_s=LIMIT_S).problems == []
    assert run(checked(harm, after_ms=20 * DAY_MS), limit_s=LIMIT_S).problems != []


def test_a_key_of_no_sink_is_strange() -> None:
    found = run(checked(lambda objects, _: objects.create("staging/x", [b"?"])), limit_s=LIMIT_S)
    assert names(found) == [(ProblemKind.STRANGE_KEY, "x")]


@pytest.mark.parametrize(("done", "is_missed"), [((2, 1), False), ((2, 0), True), ((1, 1), True)])
def test_an_object_is_missed_while_a_partition_has_not_copied_it(
    done: tuple[int, int], is_missed: bool
) -> None:
    """Also where no checkpoint knows of it yet: all of the chain is read."""

    async def scenario() -> None:
        written = await swept_log(checkpoint_segments=1_000)
        async with written.life(clean=False) as log:
            await written.open(log)
            found = written.stage().put(written.objects)
            await written.adopt(log, found, done)
        written.objects.delete(key_of(found))
        assert names(check(written)) == [(ProblemKind.STAGING, OBJECT)] * is_missed

    run(scenario(), limit_s=LIMIT_S)


def test_a_void_manifest_needs_no_object() -> None:
    def harm(objects: MemoryObjects, it: Staging) -> None:
        put_again(objects, it.sink_batch.manifest_key, it.void())

    assert run(checked(harm), limit_s=LIMIT_S) == StagingFound(manifests=1, unnamed=1)


def test_of_a_sink_its_last_manifest_is_read_and_those_with_objects() -> None:
    """A query of a batch a second leaves two million of them; `--data` reads all."""

    async def scenario() -> None:
        written = await swept_log()
        async with written.life() as log:
            await written.open(log)
            first, second = written.stage(), written.stage(1)
            for one in (first, second):
                one.put(written.objects)
            written.objects.delete(key_of(first))
            spoil(written.objects, first.sink_batch.manifest_key, -5)
            spoil(written.objects, second.sink_batch.manifest_key, -5)
        found = check(written)
        assert [one.where for one in found.problems] == [second.sink_batch.manifest_key]
        found = check(written, bodies=True)
        assert [one.where for one in found.problems] == [
            one.sink_batch.manifest_key for one in (first, second)
        ]

    run(scenario(), limit_s=LIMIT_S)


@pytest.mark.parametrize("what", ["partition", "chain"])
def test_rows_that_cannot_be_read_say_nothing_of_a_batch(what: str) -> None:
    """They are named where rows are checked, and what else is found is not lost by it."""

    async def scenario() -> None:
        written = await swept_log()
        async with written.life() as log:
            topic = await written.open(log)
            found = written.stage().put(written.objects)
            await written.adopt(log, found)
            chain = log.epoch
        written.objects.delete(key_of(found))
        assert names(check(written)) == []
        row = (CHAIN, chain_sk(chain))
        if what == "partition":
            row = partition_pk(topic.topic_id, 0), partition_sk(topic.topic_id, 0)
        kept = await written.rows.get(*row)
        await written.rows.update_if(*row, dict.fromkeys(kept or (), "?"), [], "")
        assert names(check(written)) == [(ProblemKind.STAGING, OBJECT)]

    run(scenario(), limit_s=LIMIT_S)
