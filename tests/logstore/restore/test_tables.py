"""Restore asks tables too: what was moved there and trimmed is still readable afterwards."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace

import pytest

from logstore.compaction.decisions.obsolete_files import expired
from logstore.epoch.table_queries import VerifiedEnds, held_in
from logstore.errors import Corrupt, NotFound
from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.formats.keys import CHAINS, CHECKPOINTS, segment_key
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.table_row import TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.history.forms.names import table_key
from logstore.history.forms.snapshot import Snapshot
from logstore.protocol.rows.metadata import read_partition_row, read_table_rows
from logstore.protocol.rules.checks import WrittenRange
from logstore.protocol.rules.disposal import confirmed_start
from logstore.registry.memory import MemoryRows
from logstore.restore.decisions.plan import RegistryRows, plan_rows
from logstore.restore.run import Restored, restore
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.logstore.moved import MovedLog
from tests.logstore.raised import raised_to
from tests.logstore.restore.decisions.test_plan import CLUSTER_ID, KEY, TOPIC_ID, evidence
from tests.logstore.restore.test_restore import all_rows, cluster_id, copy_of, put_back

RECORDS = 24


class TrimmedLog(MovedLog):
    """Remembers in `gone` what is deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.gone: dict[str, bytes] = {}
        delete = self.objects.delete

        def remembered(key: str) -> None:
            with suppress(NotFound):
                self.gone[key] = self.objects.get(key)
            delete(key)

        self.objects.delete = remembered  # type: ignore[method-assign]


Story = Callable[[TrimmedLog, TopicPartition], Awaitable[None]]


class TablesAtOnce:
    """Tables in memory, asked without a thread."""

    def __init__(self, written: MovedLog) -> None:
        self._tables = written.made

    async def snapshot(self, topic_id: bytes) -> Snapshot | None:
        return self._tables.snapshot(topic_id)

    async def held(self, marks: Mapping[bytes, int], grace_ms: int, now_ms: int) -> VerifiedEnds:
        return held_in(self._tables, marks, grace_ms, now_ms)


async def rebuild(written: MovedLog, cluster: bytes, *, holes_deleted: bool = False) -> Restored:
    return await restore(
        written.runner,
        cluster,
        TablesAtOnce(written),
        dry_run=False,
        advance=lambda count: None,
        holes_deleted=holes_deleted,
    )


async def log_start_of(written: MovedLog, key: TopicPartition) -> int:
    row = await written.runner.run(read_partition_row(*key))
    assert row is not None
    return row.log_start


def play(story: Story, *, moved: int) -> None:
    """`moved` of 24 records are in the table alone."""

    async def scenario() -> None:
        written = TrimmedLog()
        async with written.life() as log:
            leader = (await log.create_topic("orders", 1, {})).leaders[0]
            for number in range(RECORDS):
                await written.write(log, leader, [EPOCH_MS + number])
            key = TopicPartition(leader.topic_id, 0)
            if moved:
                await written.move(log, leader, 0, moved // 2)
                await written.move(log, leader, moved // 2, moved)
                await written.tell_version(leader.topic_id)
        if moved:
            await written.trim({key: moved})
            assert written.records[key][0][0] == 0
        await story(written, key)

    run(scenario())


@pytest.mark.parametrize("moved", [0, 12, RECORDS])
def test_after_the_registry_was_lost_log_start_is_where_the_table_begins(moved: int) -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        put_back(written, MemoryRows())
        await rebuild(written, cluster)
        assert await log_start_of(written, key) == 0
        copies = await written.runner.run(read_table_rows())
        assert {i: row.ends for i, row in copies.items()} == (
            {key.topic_id: {0: moved}} if moved else {}
        )
        async with written.life() as log:
            leader = log.topics["orders"].leaders[0]
            assert (leader.log_start, leader.high_watermark) == (0, RECORDS)
        if moved:
            assert not expired(written.newest(key.topic_id), {0: leader.log_start})

    play(story, moved=moved)


@pytest.mark.parametrize("replaced", [range(5), range(12)])
def test_replaced_records_at_the_beginning_do_not_raise_log_start(replaced: range) -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        async with written.life() as log:
            leader = log.topics["orders"].leaders[0]
            await written.merge(leader, without=replaced, clean_end=12)
        put_back(written, MemoryRows())
        await rebuild(written, cluster)
        assert await log_start_of(written, key) == 0

    play(story, moved=12)


def test_a_second_run_changes_nothing() -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        put_back(written, MemoryRows())
        await rebuild(written, cluster)
        before = all_rows(written.rows)
        assert (await rebuild(written, cluster)).rows == {}
        assert all_rows(written.rows) == before

    play(story, moved=12)


def test_log_start_of_an_old_copy_of_the_registry_stays() -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        put_back(written, copy_of(written.rows))
        await rebuild(written, cluster)
        assert await log_start_of(written, key) == 0

    play(story, moved=RECORDS)


def test_a_table_that_cannot_be_read_stops_it_before_anything_is_written() -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        put_back(written, MemoryRows())
        (entry,) = (k for k in written.keys(f"{table_key(key.topic_id)}/_") if "0000.json" in k)
        written.objects.delete(entry)
        written.objects.create(entry, [b"{"])
        with pytest.raises(Corrupt, match="move its folder away"):
            await rebuild(written, cluster)
        assert all_rows(written.rows) == {}

    play(story, moved=12)


def test_a_table_that_holds_more_than_chains_ever_had_is_an_alarm() -> None:
    snapshots = {TOPIC_ID: Snapshot(TOPIC_ID, 3, {0: 6})}
    with pytest.raises(Corrupt, match="table_end=6 chains_end=5"):
        plan_rows(
            CLUSTER_ID, [evidence(1, {0: WrittenRange(0, 5, False)})], RegistryRows(), snapshots
        )


def test_a_copy_row_goes_up_and_never_down() -> None:
    row = TableRow(version=3, ends={0: 5}, topic="orders", swept_ms=7, on_delete="keep")
    topic = TopicRow(TOPIC_ID, TopicStatus.LIVE, 1, {})
    old = RegistryRows(topics={"orders": topic}, tables={TOPIC_ID: row})
    chains = [evidence(1, {0: WrittenRange(0, 9, False)})]

    def planned(version: int, end: int) -> TableRow:
        snapshots = {TOPIC_ID: Snapshot(TOPIC_ID, version, {0: end})}
        return plan_rows(CLUSTER_ID, chains, old, snapshots).tables[TOPIC_ID]

    assert planned(2, 4) == row
    assert planned(3, 5) == row
    assert planned(4, 8) == replace(row, version=4, ends={0: 8}, on_delete="drop")


def test_where_the_registry_cannot_know_what_an_owner_changed_the_table_is_read() -> None:
    copied = TableRow(version=3, ends={0: 5})
    known = replace(PartitionRow.new(1, 1), edited_end=2)
    topic = TopicRow(TOPIC_ID, TopicStatus.LIVE, 1, {})
    chains = [evidence(1, {0: WrittenRange(0, 9, False)})]

    def edited_end(old: RegistryRows, version: int, end: int) -> int:
        snapshots = {TOPIC_ID: Snapshot(TOPIC_ID, version, {0: end})}
        return plan_rows(CLUSTER_ID, chains, old, snapshots).partitions[KEY].edited_end

    whole = RegistryRows(
        topics={"orders": topic}, partitions={KEY: known}, tables={TOPIC_ID: copied}
    )
    assert edited_end(whole, 3, 5) == 2
    assert edited_end(whole, 4, 8) == 8, "the table pointer has not seen this version"
    assert edited_end(RegistryRows(topics={"orders": topic}), 3, 5) == 5


def test_a_table_that_only_the_old_registry_knows_is_not_taken_for_none() -> None:
    """Its folder was lost: what is trimmed is not thereby below log start."""
    known = PartitionRow.new(1, 1)
    topic = TopicRow(TOPIC_ID, TopicStatus.LIVE, 1, {})
    copy = TableRow(version=3, ends={0: 5})
    chains = [
        evidence(1, {0: WrittenRange(0, 5, False)}),
        evidence(2, {1: WrittenRange(5, 9, False)}, gone={1: 7}),
    ]
    old = RegistryRows(topics={"orders": topic}, partitions={KEY: known}, tables={TOPIC_ID: copy})

    assert plan_rows(CLUSTER_ID, chains, old, {}).partitions[KEY].log_start == 0
    old.tables = {}
    assert plan_rows(CLUSTER_ID, chains, old, {}).partitions[KEY].log_start == 7


def test_a_log_start_that_a_restore_raised_above_the_table_is_put_right_by_another() -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        place = partition_pk(*key), partition_sk(*key)
        await written.runner.registry.update_if(*place, {"log_start": RECORDS})
        assert not expired(written.newest(key.topic_id), await confirmed_starts(written, key))
        await rebuild(written, cluster)
        assert await log_start_of(written, key) == 0

    play(story, moved=RECORDS)


def test_a_log_start_that_was_raised_for_a_reason_stays() -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        place = partition_pk(*key), partition_sk(*key)
        await written.runner.registry.update_if(*place, raised_to(20))
        assert expired(written.newest(key.topic_id), await confirmed_starts(written, key))
        await rebuild(written, cluster)
        assert await log_start_of(written, key) == 20

    play(story, moved=RECORDS)


async def confirmed_starts(written: MovedLog, key: TopicPartition) -> dict[int, int]:
    row = await written.runner.run(read_partition_row(*key))
    assert row is not None
    return {key.partition: confirmed_start(row)}


# Chains that are trimmed, and what comes back below their trim points


@pytest.mark.parametrize("is_old", [False, True])
def test_an_open_chain_that_is_trimmed_to_its_tail_is_sealed_by_the_first_run(is_old: bool) -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        assert written.keys(CHAINS) == [segment_key(1, 0)]
        cluster = cluster_id(written)
        put_back(written, copy_of(written.rows) if is_old else MemoryRows())
        done = await rebuild(written, cluster)
        assert set(done.sealed) == {1}
        assert await log_start_of(written, key) == 0

    play(story, moved=RECORDS)


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("back", [(1,), (2, 3), (5,), (10, 11)])
def test_a_segment_that_came_back_below_the_trim_point_does_no_harm(
    back: tuple[int, ...], is_old: bool
) -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster, trim = cluster_id(written), trim_of(written)
        for seq in back:
            assert seq < trim
            written.objects.create(segment_key(1, seq), [written.gone[segment_key(1, seq)]])
        put_back(written, copy_of(written.rows) if is_old else MemoryRows())
        await rebuild(written, cluster)
        assert await log_start_of(written, key) == 0
        assert trim_of(written) == trim
        await rebuild(written, cluster)

    play(story, moved=16)


@pytest.mark.parametrize("left", [(1,), (2, 4, 7), (11,), tuple(range(2, 12))])
def test_a_round_of_deletes_that_died_is_not_a_loss(left: tuple[int, ...]) -> None:
    """Segments go in any order, and checkpoints after all of them."""

    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster, trim = cluster_id(written), trim_of(written)
        for gone, data in written.gone.items():
            if gone.startswith(CHECKPOINTS) or gone in {segment_key(1, seq) for seq in left}:
                written.objects.create(gone, [data])
        put_back(written, MemoryRows())
        await rebuild(written, cluster)
        assert await log_start_of(written, key) == 0
        assert trim_of(written) <= trim

    play(story, moved=16)


def test_a_segment_that_no_table_holds_is_missed_beside_others_that_are_there() -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        written.objects.delete(segment_key(1, 20))
        put_back(written, MemoryRows())
        with pytest.raises(Corrupt, match="segments are missing"):
            await rebuild(written, cluster)
        assert all_rows(written.rows) == {}

    play(story, moved=0)


def trim_of(written: MovedLog) -> int:
    row = at_once(written.rows.get(CHAIN, chain_sk(1)))
    assert row is not None
    return ChainRow.of(row).trim
