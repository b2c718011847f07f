"""A registry that is lost or old is rebuilt from the chains; nothing acknowledged is missing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from logstore.epoch.log import Log
from logstore.errors import Corrupt, LogstoreError, OutcomeUnknown, Refused, Throttled
from logstore.formats.broker_row import BROKER
from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.formats.cluster_row import CLUSTER
from logstore.formats.keys import CHAINS, CHECKPOINTS, checkpoint_key, segment_key
from logstore.formats.partition_row import partition_pk, partition_pks, partition_sk
from logstore.formats.table_row import TABLE
from logstore.formats.topic_record import TOPICS, record_key
from logstore.formats.topic_row import TOPIC, TopicRow
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.objects import ObjectInfo
from logstore.ports.registry import Row
from logstore.protocol.deletion.trimming import Trimmer, every
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.restore.decisions.topics import RESTORED
from logstore.restore.run import Restored, restore
from logstore.testing.audit import audit
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock, run
from tests.logstore.raised import raised_to
from tests.logstore.written import NoTables, WrittenLog, read_segment_ranges

PLACES = (CLUSTER, BROKER, CHAIN, TOPIC, TABLE, *partition_pks())

Story = Callable[[WrittenLog], Awaitable[None]]


def all_rows(rows: MemoryRows) -> dict[tuple[str, str], Row]:
    found: dict[tuple[str, str], Row] = {}
    for pk in PLACES:
        for sk, row in at_once(rows.query(pk)):
            found[pk, sk] = {name: value for name, value in row.items() if name != "wid"}
    return found


def copy_of(rows: MemoryRows) -> MemoryRows:
    copy = MemoryRows()
    for (pk, sk), row in all_rows(rows).items():
        at_once(copy.put_if(pk, sk, row, [], "copied"))
    return copy


def copy_of_objects(objects: MemoryObjects) -> MemoryObjects:
    copy = MemoryObjects(VirtualClock())
    for info in objects.list(""):
        copy.create(info.key, [objects.get(info.key)])
    return copy


def put_back(written: WrittenLog, rows: MemoryRows) -> None:
    """The registry is `rows` from now on."""
    written.rows = rows
    written.reads._rows = rows
    rng = written.runner.rng
    registry = RetryingRegistry(rows, lambda: f"{rng.getrandbits(64)}", VirtualClock(), rng)
    written.runner = replace(written.runner, registry=registry)


def cluster_id(written: WrittenLog) -> bytes:
    row = at_once(written.rows.get(CLUSTER, CLUSTER))
    assert row is not None
    return bytes.fromhex(str(row["cluster_id"]))


async def rebuild(written: WrittenLog, cluster: bytes, *, dry_run: bool = False) -> Restored:
    return await restore(
        written.runner, cluster, NoTables(), dry_run=dry_run, advance=lambda count: None
    )


async def check_everything_is_there(written: WrittenLog, names: dict[bytes, str]) -> None:
    """Through a new broker, which goes on writing, and through a reader."""
    async with written.life() as log:
        for key in list(written.records):
            topic = log.topics[names[key.topic_id]]
            await written.write(log, topic.leaders[key.partition], [EPOCH_MS])
    reader = await written.reader()
    views = reader.partitions(reader.topics())
    for key, records in written.records.items():
        segment_ranges = reader.segment_ranges(
            key, views[key].row, views[key].log_start, views[key].end
        )
        assert read_segment_ranges(written, segment_ranges) == [
            r for r in records if r[0] >= views[key].log_start
        ]
    assert not audit(written.objects, written.rows).violations


async def write(written: WrittenLog, log: Log, name: str, partition: int, count: int) -> None:
    for _ in range(count):
        leader = log.topics[name].leaders[partition]
        await written.write(log, leader, [EPOCH_MS + written.values])


async def three_lives(written: WrittenLog) -> None:
    async with written.life() as log:
        await log.create_topic("orders", 2, {"retention.ms": "1000"})
        await write(written, log, "orders", 0, 7)
    async with written.life(clean=False) as log:
        await log.create_topic("notes", 1, {})
        await write(written, log, "orders", 0, 4)
        await write(written, log, "orders", 1, 5)
    async with written.life(clean=False) as log:
        await write(written, log, "notes", 0, 3)
        await write(written, log, "orders", 0, 2)


def play(story: Story) -> None:
    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=3)
        await three_lives(written)
        await story(written)

    run(scenario())


def names_of(written: WrittenLog) -> dict[bytes, str]:
    rows = at_once(written.rows.query(TOPIC))
    return {TopicRow.of(row).topic_id: name for name, row in rows}


def lose_records(written: WrittenLog) -> None:
    for info in list(written.objects.list(TOPICS)):
        written.objects.delete(info.key)


def test_after_the_registry_was_lost_everything_acknowledged_is_there() -> None:
    async def story(written: WrittenLog) -> None:
        cluster, names = cluster_id(written), names_of(written)
        topics = [row for (pk, _), row in all_rows(written.rows).items() if pk == TOPIC]
        put_back(written, MemoryRows())
        done = await rebuild(written, cluster)
        assert (done.lost_topics, done.records) == ({}, [])
        assert [row for (pk, _), row in all_rows(written.rows).items() if pk == TOPIC] == topics
        assert set(done.sealed) == {3}
        await check_everything_is_there(written, names)

    play(story)


def test_topics_whose_records_are_lost_too_are_called_restored() -> None:
    async def story(written: WrittenLog) -> None:
        cluster = cluster_id(written)
        put_back(written, MemoryRows())
        lose_records(written)
        done = await rebuild(written, cluster)
        ids = {key.topic_id for key in written.records}
        assert done.lost_topics == {
            f"{RESTORED}{i.hex()}": sum(key.topic_id == i for key in written.records) for i in ids
        }
        assert set(done.records) == {record_key(i, 1) for i in ids}
        await check_everything_is_there(written, {i: f"{RESTORED}{i.hex()}" for i in ids})

    play(story)


async def test_after_an_old_copy_was_put_back_topics_keep_names_settings_and_records() -> None:
    written = WrittenLog(checkpoint_segments=3)
    async with written.life() as log:
        topic = await log.create_topic("orders", 2, {"retention.ms": "1000"})
        await write(written, log, "orders", 0, 7)
        copy = copy_of(written.rows)
        await write(written, log, "orders", 1, 5)
    async with written.life(clean=False) as log:
        await write(written, log, "orders", 0, 4)
    cluster = cluster_id(written)
    put_back(written, copy)
    with pytest.raises(BaseExceptionGroup) as refused:
        async with written.life():
            pass
    assert refused.group_contains(Refused, match="logstore restore")
    done = await rebuild(written, cluster)
    assert done.lost_topics == {}
    row = at_once(written.rows.get(TOPIC, "orders"))
    assert row is not None
    assert TopicRow.of(row).configs == {"retention.ms": "1000"}
    await check_everything_is_there(written, {topic.topic_id: "orders"})


async def test_what_is_younger_than_an_old_copy_is_kept_until_restore_finds_it() -> None:
    """No broker started between the copy and its return: no epoch tells that it is old."""

    written = WrittenLog(checkpoint_segments=3)
    async with written.life() as log:
        await log.create_topic("orders", 1, {})
        await write(written, log, "orders", 0, 3)
        copy = copy_of(written.rows)
        late = await log.create_topic("late", 1, {})
        await write(written, log, "late", 0, 20)
    cluster, names = cluster_id(written), names_of(written)
    put_back(written, copy)
    with pytest.raises(BaseExceptionGroup) as refused:
        async with written.life():
            pass
    assert refused.group_contains(Refused, match="logstore restore")
    before = {info.key for info in written.objects.list(CHAINS)}
    trimmer = Trimmer(cluster, grace_ms=0)
    for _ in range(3):
        await written.runner.run(trimmer.steps(every))
    assert before <= {info.key for info in written.objects.list(CHAINS)}
    await rebuild(written, cluster)
    assert names_of(written) == names
    assert late.topic_id in names
    await check_everything_is_there(written, names)


def test_a_second_run_changes_nothing() -> None:
    async def story(written: WrittenLog) -> None:
        cluster = cluster_id(written)
        put_back(written, MemoryRows())
        lose_records(written)
        await rebuild(written, cluster)
        before = all_rows(written.rows), {i.key for i in written.objects.list("")}
        again = await rebuild(written, cluster)
        assert (again.rows, again.sealed, again.records) == ({}, {}, [])
        assert before == (all_rows(written.rows), {i.key for i in written.objects.list("")})

    play(story)


def test_a_dry_run_says_it_all_and_changes_nothing() -> None:
    async def story(written: WrittenLog) -> None:
        cluster = cluster_id(written)
        put_back(written, MemoryRows())
        lose_records(written)
        keys = {info.key for info in written.objects.list("")}
        reported = await rebuild(written, cluster, dry_run=True)
        assert all_rows(written.rows) == {}
        assert {info.key for info in written.objects.list("")} == keys
        done = await rebuild(written, cluster)
        assert done == reported

    play(story)


class Died(Exception):
    """Nothing after this happens."""


class MortalStore(MemoryStore):
    """Dies before the write whose number is `dies_at`."""

    def __init__(self, objects: MemoryObjects, left: list[int]) -> None:
        super().__init__(objects)
        self._left = left

    async def create(self, key: str, parts: object) -> None:
        count_down(self._left)
        await super().create(key, parts)  # type: ignore[arg-type]


class MortalRows(MemoryRows):
    left: list[int]

    async def put_if(self, *args: object) -> None:
        count_down(self.left)
        await super().put_if(*args)  # type: ignore[arg-type]

    async def update_if(self, *args: object) -> None:
        count_down(self.left)
        await super().update_if(*args)  # type: ignore[arg-type]


def count_down(left: list[int]) -> None:
    if not left[0]:
        raise Died
    left[0] -= 1


@pytest.mark.parametrize("is_lost", [True, False])
def test_wherever_it_dies_it_is_run_again_and_all_is_there(is_lost: bool) -> None:
    async def story(written: WrittenLog) -> None:
        cluster, objects = cluster_id(written), written.objects
        lose_records(written)
        old = MemoryRows() if is_lost else copy_of(written.rows)
        if not is_lost:
            await change(old, CLUSTER, CLUSTER, {"next_epoch": 2})
        left, rows = [0], MortalRows()
        for step in range(40):
            rows = MortalRows()
            rows.left = left = [1_000]
            for (pk, sk), row in all_rows(old).items():
                at_once(rows.put_if(pk, sk, row, [], "copied"))
            put_back(written, rows)
            left[0] = step
            written.objects = copy_of_objects(objects)
            store = MortalStore(written.objects, left)
            written.runner = replace(written.runner, store=store)
            try:
                await rebuild(written, cluster)
                break
            except Died:
                left[0] = 1_000
                await rebuild(written, cluster)
        assert step > 3
        left[0] = 10_000
        names = {TopicRow.of(row).topic_id: name for name, row in at_once(rows.query(TOPIC))}
        await check_everything_is_there(written, names)

    play(story)


async def change(rows: MemoryRows, pk: str, sk: str, sets: Row) -> None:
    await rows.update_if(pk, sk, sets, [], "changed")


def test_it_refuses_while_a_heartbeat_moves() -> None:
    async def story(written: WrittenLog) -> None:
        cluster = cluster_id(written)
        async with written.life():
            with pytest.raises(Refused, match="brokers are alive: brokers=1"):
                await rebuild(written, cluster)

    play(story)


def test_it_refuses_while_a_broker_writes_that_has_lost_its_registry() -> None:
    async def story(written: WrittenLog) -> None:
        cluster = cluster_id(written)
        async with written.life(clean=False) as log, asyncio.TaskGroup() as tasks:
            runner = written.runner
            put_back(written, MemoryRows())
            restoring = tasks.create_task(fails(rebuild(written, cluster)))
            await runner.clock.sleep_s(3)
            await write(written, log, "orders", 0, 1)
            assert "a broker is writing: chain=4" in await restoring

    play(story)


class _ListedBefore(MemoryStore):
    """As of a moment before the object `late` landed."""

    late = ""

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        async for info in super().list(prefix):
            if info.key != self.late:
                yield info


def test_a_put_that_lands_after_the_list_was_read_is_no_missing_segment() -> None:
    async def story(written: WrittenLog) -> None:
        names, cluster = names_of(written), cluster_id(written)
        (*_, last) = written.objects.list(segment_key(3, 0).rpartition("/")[0])
        store = _ListedBefore(written.objects)
        store.late = last.key
        put_back(written, MemoryRows())
        runner = replace(written.runner, store=store)
        await restore(runner, cluster, NoTables(), dry_run=False, advance=lambda count: None)
        await check_everything_is_there(written, names)

    play(story)


class _ThrottledLists(MemoryStore):
    """Every list fails behind its first key, and once before it, until it has been asked often."""

    failures_left = 12

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        is_failing, self.failures_left = self.failures_left > 0, self.failures_left - 1
        if is_failing and self.failures_left % 2:
            raise Throttled("slow down")
        async for info in super().list(prefix):
            yield info
            if is_failing:
                raise OutcomeUnknown("reset")


def test_a_throttled_list_is_asked_again_and_nothing_is_counted_twice() -> None:
    async def story(written: WrittenLog) -> None:
        names, cluster = names_of(written), cluster_id(written)
        store = _ThrottledLists(written.objects)
        put_back(written, MemoryRows())
        runner = replace(written.runner, store=store)
        await restore(runner, cluster, NoTables(), dry_run=False, advance=lambda count: None)
        assert store.failures_left < 0
        await check_everything_is_there(written, names)

    play(story)


async def fails(call: Awaitable[object]) -> str:
    try:
        await call
    except LogstoreError as error:
        return str(error)
    return "nothing"


def test_an_old_broker_cannot_go_on_after_it() -> None:
    async def story(written: WrittenLog) -> None:
        cluster = cluster_id(written)
        async with written.life(clean=False) as log:
            put_back(written, MemoryRows())
            await rebuild(written, cluster)
            with pytest.raises(LogstoreError):
                await write(written, log, "orders", 0, 1)
            assert log.fenced.is_set()

    play(story)


@pytest.mark.parametrize("lost", [segment_key(1, 0), segment_key(2, 3), checkpoint_key(1, 3)])
def test_it_refuses_when_a_piece_of_a_chain_is_missing(lost: str) -> None:
    async def story(written: WrittenLog) -> None:
        cluster = cluster_id(written)
        put_back(written, MemoryRows())
        assert lost in {info.key for info in written.objects.list("")}
        written.objects.delete(lost)
        with pytest.raises((Corrupt, Refused), match="put"):
            await rebuild(written, cluster)
        assert all_rows(written.rows) == {}

    play(story)


def test_what_was_trimmed_stays_trimmed() -> None:
    async def story(written: WrittenLog) -> None:
        cluster, names = cluster_id(written), names_of(written)
        key = next(key for key, records in written.records.items() if len(records) == 13)
        other = [k for k in written.records if k != key]
        for place, log_start in ((key, 6), *((k, 99) for k in other)):
            row = at_once(written.rows.get(partition_pk(*place), partition_sk(*place)))
            assert row is not None
            log_start = min(log_start, len(written.records[place]))
            changed = {**row, **raised_to(log_start)}
            await change(written.rows, partition_pk(*place), partition_sk(*place), changed)
        trimmer = Trimmer(cluster, grace_ms=60_000)
        await written.runner.run(trimmer.steps())
        await written.runner.clock.sleep_s(60)
        await written.runner.run(trimmer.steps())
        row = at_once(written.rows.get(CHAIN, chain_sk(1)))
        assert row is not None
        trim = ChainRow.of(row).trim
        assert trim > 0
        put_back(written, MemoryRows())
        await rebuild(written, cluster)
        row = at_once(written.rows.get(CHAIN, chain_sk(1)))
        assert row is not None
        assert (ChainRow.of(row).trim, ChainRow.of(row).deleted) == (trim, trim)
        await check_everything_is_there(written, names)

    play(story)


async def test_an_open_chain_that_is_trimmed_to_its_tail_is_sealed_by_the_first_run() -> None:
    written = WrittenLog(checkpoint_segments=3)
    async with written.life() as log:
        await log.create_topic("orders", 1, {})
        await write(written, log, "orders", 0, 9)
    cluster, (key,) = cluster_id(written), written.records
    place = partition_pk(*key), partition_sk(*key)
    await change(written.rows, *place, raised_to(9))
    trimmer = Trimmer(cluster, grace_ms=0)
    for _ in range(2):
        await written.runner.run(trimmer.steps())
    assert {info.key for info in written.objects.list(CHAINS)} == {segment_key(1, 0)}
    put_back(written, MemoryRows())
    done = await rebuild(written, cluster)
    assert set(done.sealed) == {1}
    assert not audit(written.objects, written.rows).violations


def test_no_checkpoint_is_made_twice() -> None:
    async def story(written: WrittenLog) -> None:
        cluster = cluster_id(written)
        put_back(written, MemoryRows())
        before = {info.key for info in written.objects.list(CHECKPOINTS)}
        await rebuild(written, cluster)
        new = {info.key for info in written.objects.list(CHECKPOINTS)} - before
        row = at_once(written.rows.get(CHAIN, chain_sk(3)))
        assert row is not None
        assert new == {checkpoint_key(3, ChainRow.of(row).seal)}

    play(story)
