"""Changes of topics and their records: whatever the order and the process that dies, both agree."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.errors import Invalid, LogstoreError
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.topic_record import (
    TOPICS,
    TopicRecord,
    decode_record,
    encode_record,
    record_key,
    record_problem,
    valid_record,
)
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.objects.memory import MemoryStore
from logstore.protocol.steps import PutRow, Steps, UpdateRow
from logstore.protocol.topics.life import BadPartitionCount, create_topic, delete_topic
from logstore.protocol.topics.topic_change import change_topic, create_partitions
from logstore.protocol.topics.topic_configs import change_topic_configs
from logstore.testing.scripted import resume, stop_before
from logstore.testing.virtual_loop import run
from tests.logstore.written import WrittenLog

ROW = PartitionRow.new(1, 1)
REQUESTS_MAX = 400


async def born(written: WrittenLog, partitions: int = 2) -> TopicRow:
    steps = create_topic("orders", [ROW] * partitions, {"a": "0"}, replicas=2)
    return (await written.runner.run(steps)).row


async def row_of(written: WrittenLog) -> TopicRow:
    row = await written.runner.registry.get(TOPIC, "orders")
    assert row is not None
    return TopicRow.of(row)


def records_of(written: WrittenLog) -> list[TopicRecord]:
    keys = [info.key for info in written.objects.list(TOPICS)]
    return [decode_record(key, written.objects.get(key)) for key in keys]


def setting(topic: TopicRow, name: str, value: str) -> Steps[TopicRow]:
    def change(configs: Mapping[str, str]) -> Mapping[str, str]:
        return {**configs, name: value}

    return change_topic_configs("orders", topic.topic_id, change)


def growing(topic: TopicRow, before: int, after: int) -> Steps[TopicRow]:
    rows = dict.fromkeys(range(before, after), ROW)
    return (yield from create_partitions("orders", topic.topic_id, rows)).topic


async def test_every_change_is_one_record_more_that_says_what_the_row_says() -> None:
    written = WrittenLog()
    topic = await born(written)
    said = [topic]
    said.append(await written.runner.run(setting(topic, "a", "1")))
    said.append(await written.runner.run(growing(topic, 2, 5)))
    assert await row_of(written) == said[-1]
    await written.runner.run(delete_topic("orders", topic.topic_id))
    said.append(await row_of(written))
    assert [record.topic for record in records_of(written)] == said
    assert [row.version for row in said] == [1, 2, 3, 4]
    assert (said[2].partitions, said[2].configs, said[2].replicas) == (5, {"a": "1"}, 2)
    assert said[3] == replace(said[2], status=TopicStatus.DELETED, version=4)


async def test_what_changes_nothing_writes_nothing() -> None:
    written = WrittenLog()
    topic = await born(written)
    await written.runner.run(setting(topic, "a", "0"))
    assert len(records_of(written)) == 1


async def test_a_change_that_died_between_its_record_and_the_row_is_passed_by() -> None:
    written = WrittenLog()
    topic = await born(written)
    await stop_before(written.runner, setting(topic, "a", "dead"), UpdateRow)
    changed = await written.runner.run(setting(topic, "b", "1"))
    assert changed.configs == {"a": "0", "b": "1"}
    assert changed.version == 3
    assert valid_record(records_of(written)).topic == changed


async def test_who_is_refused_after_losing_a_race_leaves_no_record_as_the_newest() -> None:
    written = WrittenLog()
    topic = await born(written)
    slow = growing(topic, 2, 5)
    slows = await stop_before(written.runner, slow, UpdateRow)
    fast = growing(topic, 2, 6)
    fasts = await stop_before(written.runner, fast, UpdateRow)
    await written.runner.run(resume(slow, slows))
    assert [record.topic.partitions for record in records_of(written)] == [2, 5, 6]
    with pytest.raises(BadPartitionCount, match="partitions=5"):
        await written.runner.run(resume(fast, fasts))
    row = await row_of(written)
    assert (row.partitions, row.version) == (5, 4)
    assert valid_record(records_of(written)).topic == row


async def test_what_a_decision_refuses_is_refused_and_not_recorded() -> None:
    def refuse(topic: TopicRow) -> TopicRow:
        raise Invalid("no")

    written = WrittenLog()
    topic = await born(written)
    with pytest.raises(Invalid, match="no"):
        await written.runner.run(change_topic("orders", topic.topic_id, refuse))
    assert len(records_of(written)) == 1


async def test_a_straggler_that_records_a_change_of_a_deleted_topic_does_not_revive_it() -> None:
    written = WrittenLog()
    topic = await born(written)
    await written.runner.run(delete_topic("orders", topic.topic_id))
    late = TopicRecord("orders", replace(topic, version=9))
    await MemoryStore(written.objects).create(late.key, [encode_record(late)])
    assert valid_record(records_of(written)).topic == await row_of(written)


async def test_a_deletion_is_recorded_in_the_next_free_version() -> None:
    written = WrittenLog()
    topic = await born(written)
    await stop_before(written.runner, setting(topic, "a", "dead"), UpdateRow)
    await written.runner.run(delete_topic("orders", topic.topic_id))
    assert (await row_of(written)).version == 3
    assert valid_record(records_of(written)).topic.status is TopicStatus.DELETED


async def test_a_deletion_that_died_early_has_not_said_so_in_the_store() -> None:
    """It can still be finished, and until then a lost registry costs no topic."""

    written = WrittenLog()
    topic = await born(written)
    await stop_before(written.runner, delete_topic("orders", topic.topic_id), UpdateRow)
    assert valid_record(records_of(written)).topic == topic


async def test_who_loses_a_name_leaves_no_record() -> None:
    written = WrittenLog()
    steps = create_topic("orders", [ROW], {})
    request = await stop_before(written.runner, steps, PutRow)
    topic = await born(written)
    with pytest.raises(Invalid, match="topic exists"):
        await written.runner.run(resume(steps, request))
    assert [record.key for record in records_of(written)] == [record_key(topic.topic_id, 1)]


class Writer:
    """One change, a request at a time."""

    def __init__(self, topic: TopicRow, change: str) -> None:
        self._steps = _steps(topic, change)
        self._answer: Any = None
        self.is_done = False

    async def step(self, written: WrittenLog) -> None:
        if self.is_done:
            return
        try:
            failed = isinstance(self._answer, LogstoreError)
            request = (self._steps.throw if failed else self._steps.send)(self._answer)
        except (StopIteration, LogstoreError):
            self.is_done = True
            return
        try:
            self._answer = await written.runner._perform(request)
        except LogstoreError as error:
            self._answer = error


def _steps(topic: TopicRow, change: str) -> Steps[Any]:
    match change.split():
        case ["delete"]:
            return delete_topic("orders", topic.topic_id)
        case ["grow", before, after]:
            return growing(topic, int(before), int(after))
        case _:
            name, _, value = change.partition("=")
            return setting(topic, name, value)


CHANGES = ("a=1", "a=2", "b=1", "a=0", "grow 2 4", "grow 2 5", "delete")


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(CHANGES), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), max_size=60),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_whatever_the_order_the_records_say_what_the_row_says(
    changes: list[str], order: list[int], all_finish: bool
) -> None:
    async def scenario() -> None:
        written = WrittenLog()
        topic = await born(written)
        writers = [Writer(topic, change) for change in changes]
        for number in [*order, *range(REQUESTS_MAX if all_finish else 0)]:
            await writers[number % len(writers)].step(written)
            row, records = await row_of(written), records_of(written)
            assert record_problem("orders", row, records) is None
        if all_finish:
            row, found = await row_of(written), valid_record(records_of(written)).topic
            assert all(one.is_done for one in writers)
            assert row.status is (TopicStatus.DELETED if "delete" in changes else TopicStatus.LIVE)
            assert found == row or found.status is row.status is TopicStatus.DELETED

    run(scenario())


async def test_a_new_partition_that_has_a_row_already_is_answered_with_that_row() -> None:
    """An attempt that died left it, and another broker has taken it over since."""

    written = WrittenLog()
    topic = await born(written)
    left = ROW.taken_by(broker=2, chain=99, start=0)
    place = partition_pk(topic.topic_id, 2), partition_sk(topic.topic_id, 2)
    await written.rows.put_if(*place, left.row(), [], "left")
    rows = dict.fromkeys(range(2, 4), ROW)
    grown = await written.runner.run(create_partitions("orders", topic.topic_id, rows))

    assert grown.partitions == {2: left, 3: ROW}
