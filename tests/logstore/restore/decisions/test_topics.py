"""Topics come back from their records: names, settings, counts; and the deleted stay deleted."""

from dataclasses import replace

import pytest

from logstore.errors import Corrupt, Refused
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.topic_record import TopicRecord, encode_record, record_key
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.objects.memory import MemoryStore
from logstore.protocol.steps import PutRow, UpdateRow
from logstore.protocol.topics.life import create_topic
from logstore.protocol.topics.topic_change import create_partitions
from logstore.protocol.topics.topic_configs import change_topic_configs
from logstore.registry.memory import MemoryRows
from logstore.restore.decisions.topics import RESTORED, ChainTopic, plan_topics
from logstore.testing.audit import audit
from logstore.testing.scripted import stop_before
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.restore.test_restore import (
    all_rows,
    check_everything_is_there,
    cluster_id,
    copy_of,
    names_of,
    put_back,
    rebuild,
    write,
)
from tests.logstore.written import WrittenLog

ID, OTHER_ID = b"t" * 16, b"u" * 16
LIVE, DELETING, DELETED = TopicStatus.LIVE, TopicStatus.DELETING, TopicStatus.DELETED


def topic_rows(written: WrittenLog) -> dict[str, TopicRow]:
    return {name: TopicRow.of(row) for name, row in at_once(written.rows.query(TOPIC))}


async def lives(written: WrittenLog) -> None:
    """`orders` changed and grown; `notes` deleted and created again; `gone` deleted; `empty`."""
    async with written.life() as log:
        orders = await log.create_topic("orders", 2, {"retention.ms": "1000"}, replicas=3)
        for name in ("notes", "gone", "empty"):
            await log.create_topic(name, 1, {"cleanup.policy": "delete"})
            await write(written, log, name, 0, 2 if name != "empty" else 0)
        await write(written, log, "orders", 1, 3)
    async with written.life(clean=False) as log:
        await log.create_partitions("orders", 4)
        await written.runner.run(
            change_topic_configs("orders", orders.topic_id, lambda old: {**old, "a": "b"})
        )
        for name in ("notes", "gone"):
            forget(written, log.topics[name].topic_id)
            await log.delete_topic(name)
        await log.create_topic("notes", 2, {"retention.ms": "5"})
        await write(written, log, "notes", 1, 2)
        await write(written, log, "orders", 3, 2)


def forget(written: WrittenLog, topic_id: bytes) -> None:
    for key in [key for key in written.records if key.topic_id == topic_id]:
        del written.records[key]


async def test_a_lost_registry_gets_its_topics_back_and_not_the_deleted_ones() -> None:
    written = WrittenLog(checkpoint_segments=3)
    await lives(written)
    cluster, names = cluster_id(written), names_of(written)
    before = {n: row for n, row in topic_rows(written).items() if row.status is LIVE}
    put_back(written, MemoryRows())
    done = await rebuild(written, cluster)
    assert done.lost_topics == {}
    assert topic_rows(written) == before
    assert set(before) == {"orders", "notes", "empty"}
    assert before["orders"].partitions == 4
    assert before["orders"].configs == {"retention.ms": "1000", "a": "b"}
    assert before["orders"].replicas == 3
    await check_everything_is_there(written, names)
    async with written.life() as log:
        assert set(log.topics) == {"orders", "notes", "empty"}
        await write(written, log, "orders", 2, 1)


async def test_an_old_copy_of_the_registry_is_brought_up_to_the_records() -> None:
    written = WrittenLog(checkpoint_segments=3)
    async with written.life() as log:
        for name in ("orders", "notes", "gone"):
            await log.create_topic(name, 1, {"a": name})
            await write(written, log, name, 0, 2)
        copy = copy_of(written.rows)
        await log.create_partitions("orders", 3)
        for name in ("notes", "gone"):
            forget(written, log.topics[name].topic_id)
            await log.delete_topic(name)
        await log.create_topic("notes", 2, {})
        await write(written, log, "notes", 0, 5)
    cluster, names, before = cluster_id(written), names_of(written), topic_rows(written)
    put_back(written, copy)
    await rebuild(written, cluster)
    after = topic_rows(written)
    assert {n: after[n] for n in ("orders", "notes")} == {n: before[n] for n in ("orders", "notes")}
    assert after["gone"].status is DELETING
    await check_everything_is_there(written, names)
    async with written.life() as log:
        assert set(log.topics) == {"orders", "notes"}
    assert topic_rows(written)["gone"] == before["gone"]
    live = {before[n].topic_id.hex() for n in ("orders", "notes")}
    rows = [sk for pk, sk in all_rows(written.rows) if pk.startswith("partition")]
    assert {sk.partition("/")[0] for sk in rows} == live


async def test_rows_of_partitions_whose_topic_is_deleted_go() -> None:
    """Half a copy of the registry has them, and not the row of their topic."""

    written = WrittenLog(checkpoint_segments=3)
    async with written.life() as log:
        for name in ("orders", "gone"):
            await log.create_topic(name, 1, {})
            await write(written, log, name, 0, 2)
        copy, gone = copy_of(written.rows), log.topics["gone"].topic_id
        forget(written, gone)
        await log.delete_topic("gone")
    cluster, names = cluster_id(written), names_of(written)
    at_once(copy.delete_if(TOPIC, "gone", [], "lost"))
    put_back(written, copy)
    done = await rebuild(written, cluster)
    sk = partition_sk(gone, 0)
    assert done.removed == [f"{partition_pk(gone, 0)}/{sk}"]
    assert sk not in [sk for _, sk in all_rows(written.rows)]
    assert (await rebuild(written, cluster)).removed == []
    await check_everything_is_there(written, names)


async def test_a_topic_that_no_chain_has_led_comes_back_empty() -> None:
    """Its creation was answered, or died on its way: both look alike."""

    written = WrittenLog()
    async with written.life(clean=False) as log:
        await log.create_topic("orders", 1, {})
        await write(written, log, "orders", 0, 1)
        steps = create_topic("young", [PartitionRow.new(1, log.epoch)] * 2, {"a": "b"})
        await written.runner.run(steps)
        before = topic_rows(written)
        steps = create_topic("half", [PartitionRow.new(1, log.epoch)], {})
        await stop_before(written.runner, steps, PutRow)
    cluster, names = cluster_id(written), names_of(written)
    put_back(written, MemoryRows())
    await rebuild(written, cluster)
    after = topic_rows(written)
    assert set(after) == {"orders", "young", "half"}
    assert {name: after[name] for name in before} == before
    await check_everything_is_there(written, names)
    async with written.life() as log:
        assert set(log.topics) == set(after)
        await written.write(log, log.topics["young"].leaders[1], [EPOCH_MS])
    assert not audit(written.objects, written.rows).violations


async def test_a_change_that_was_recorded_and_never_made_is_made() -> None:
    """The client that asked for it got no answer."""

    written = WrittenLog()
    async with written.life(clean=False) as log:
        topic = await log.create_topic("orders", 1, {})
        await write(written, log, "orders", 0, 1)
        row = {1: PartitionRow.new(1, log.epoch)}
        steps = create_partitions("orders", topic.topic_id, row)
        await stop_before(written.runner, steps, UpdateRow)
    cluster, names = cluster_id(written), names_of(written)
    put_back(written, MemoryRows())
    await rebuild(written, cluster)
    assert topic_rows(written)["orders"].partitions == 2
    await check_everything_is_there(written, names)
    async with written.life() as log:
        await written.write(log, log.topics["orders"].leaders[1], [EPOCH_MS])
    assert not audit(written.objects, written.rows).violations


async def test_a_record_that_cannot_be_read_stops_it_before_anything_is_written() -> None:
    written = WrittenLog()
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
    cluster = cluster_id(written)
    put_back(written, MemoryRows())
    await MemoryStore(written.objects).create(record_key(topic.topic_id, 2), [b"{"])
    with pytest.raises(Corrupt, match=record_key(topic.topic_id, 2)):
        await rebuild(written, cluster)
    assert all_rows(written.rows) == {}


# What is decided, by rows, records and take entries


def row(version: int, status: TopicStatus = LIVE, topic_id: bytes = ID, **configs: str) -> TopicRow:
    return TopicRow(topic_id, status, 2, configs, 1, version)


def record(
    version: int, status: TopicStatus = LIVE, topic_id: bytes = ID, **configs: str
) -> TopicRecord:
    return TopicRecord("orders", row(version, status, topic_id, **configs))


FULL = ChainTopic(2, is_empty=False)


def test_a_row_as_new_as_its_record_stays() -> None:
    planned = plan_topics({"orders": row(2)}, {ID: FULL}, {ID: [record(1), record(2)]}, {})

    assert (planned.rows, planned.records) == ({"orders": row(2)}, [])


def test_a_row_without_a_record_gets_one() -> None:
    planned = plan_topics({"orders": row(0, a="b")}, {ID: FULL}, {}, {})

    assert planned.rows == {"orders": row(1, a="b")}
    assert planned.records == [record(1, a="b")]


def test_partitions_that_were_led_count() -> None:
    planned = plan_topics({}, {ID: ChainTopic(7, is_empty=False)}, {ID: [record(3)]}, {})

    assert planned.rows == {"orders": replace(row(4), partitions=7)}
    assert [one.topic for one in planned.records] == [planned.rows["orders"]]


def test_a_topic_deleted_late_makes_room_for_its_next_life() -> None:
    records = {
        ID: [record(1), record(2, DELETED)],
        OTHER_ID: [record(1, topic_id=OTHER_ID, next="life")],
    }
    led = {ID: FULL, OTHER_ID: FULL}

    planned = plan_topics({"orders": row(1)}, led, records, {})
    assert planned.rows == {"orders": row(1, topic_id=OTHER_ID, next="life")}

    planned = plan_topics({"orders": row(1)}, {ID: FULL}, {ID: records[ID]}, {})
    assert planned.rows == {"orders": row(1, DELETING)}

    planned = plan_topics({}, led, {ID: [record(2, DELETED), record(5)]}, {})
    assert set(planned.rows) == {f"{RESTORED}{OTHER_ID.hex()}"}


def test_of_two_topics_with_one_name_the_lost_one_can_be_given_another() -> None:
    records = {ID: [record(1)], OTHER_ID: [record(1, topic_id=OTHER_ID)]}
    old = {"orders": row(1)}
    led = {ID: FULL, OTHER_ID: FULL}

    with pytest.raises(Refused, match=f"lost={OTHER_ID.hex()}"):
        plan_topics(old, led, records, {})
    planned = plan_topics(old, led, records, {OTHER_ID: "more"})
    assert planned.rows == {**old, "more": row(2, topic_id=OTHER_ID)}
    assert planned.records == [TopicRecord("more", row(2, topic_id=OTHER_ID))]


def test_a_topic_that_no_chain_has_led_comes_back_where_no_other_had_its_name() -> None:
    mine, other = [record(1), record(2, a="b")], record(1, topic_id=OTHER_ID)
    gone = record(2, DELETED, OTHER_ID)
    renamed = TopicRecord("more", row(2, topic_id=OTHER_ID))

    assert plan_topics({}, {}, {ID: mine}, {}).rows == {"orders": row(2, a="b")}
    both_died, led = {ID: mine, OTHER_ID: [other]}, {OTHER_ID: FULL}
    assert plan_topics({}, {}, both_died, {}).rows == {}  # or one of them
    with_gone = {ID: mine, OTHER_ID: [other, gone]}
    assert plan_topics({}, {}, with_gone, {}).rows == {}  # the deleted one may be the later one
    assert plan_topics({}, led, with_gone, {}).rows == {}
    for others in ([other], [other, renamed]):
        planned = plan_topics({}, led, {ID: mine, OTHER_ID: others}, {})
        assert [one.topic_id for one in planned.rows.values()] == [OTHER_ID]
    for status in (LIVE, DELETING, DELETED):
        old = {"orders": row(3, status, OTHER_ID)}
        assert plan_topics(old, {}, {ID: mine}, {}).rows.keys() == {"orders"}
        assert plan_topics(old, {}, {ID: mine}, {}).rows["orders"].topic_id == OTHER_ID
    assert plan_topics({}, {}, {ID: [*mine, record(3, DELETED)]}, {}).rows == {}


def test_one_of_several_topics_that_no_chain_has_led_can_be_asked_for() -> None:
    records = {ID: [record(1)], OTHER_ID: [record(1, topic_id=OTHER_ID)]}

    planned = plan_topics({}, {}, records, {OTHER_ID: "orders"})
    assert planned.rows == {"orders": row(1, topic_id=OTHER_ID)}
    assert plan_topics({}, {}, {}, {OTHER_ID: "orders"}).rows == {}


def test_its_own_records_are_read_by_the_next_run() -> None:
    first = plan_topics({}, {ID: FULL}, {}, {})
    records = {ID: first.records}

    assert plan_topics({}, {ID: FULL}, records, {}).rows == first.rows
    assert plan_topics(first.rows, {ID: FULL}, records, {}).records == []
    assert encode_record(first.records[0])
