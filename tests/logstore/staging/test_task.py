"""A task of a sink: what it puts, what travels to the driver, and what stays in memory."""

import pytest

from logstore.errors import Invalid
from logstore.formats.staged_object import StagedBuilder
from logstore.formats.staging_keys import SinkBatch, place_of
from logstore.formats.topic_partition import TopicPartition
from logstore.records.encode import encode_batch, records_of
from logstore.staging.task import INLINE_BYTES_MAX, StagedTask
from tests.logstore.staging.driving import ORDERS, SINK, Query

BATCH = SinkBatch(SINK, 7)
KEY = TopicPartition(ORDERS, 1)


def staged(query: Query, value_bytes: int, count: int) -> StagedTask:
    return query.stage_task(BATCH, 4, [(KEY, [bytes(value_bytes)])] * count)


def test_little_travels_inline() -> None:
    query = Query()
    query.object_bytes = 8 << 20
    task = staged(query, 10, 5)

    assert task.rows == {KEY: 5} and len(task.inline) == 5 and not task.objects
    assert not list(query.objects.list(""))
    assert task.inline_bytes < INLINE_BYTES_MAX


def test_more_is_put_when_the_task_ends() -> None:
    query = Query()
    query.object_bytes = 8 << 20
    task = staged(query, INLINE_BYTES_MAX, 1)

    (info,) = query.objects.list("")
    (ref,) = task.objects
    assert (info.key, info.size_bytes) == (ref.name.key(BATCH), ref.size_bytes)
    assert task.rows == {KEY: 1} and not task.inline


def test_an_object_is_put_as_soon_as_it_is_full_and_the_rest_at_the_end() -> None:
    query = Query()
    query.object_bytes = 1000
    task = staged(query, 900, 5)

    assert [ref.name.number for ref in task.objects] == [0, 1, 2]
    assert task.rows == {KEY: 5}
    assert {place_of(info.key) for info in query.objects.list("")} == {
        (BATCH, ref.name) for ref in task.objects
    }


def test_two_attempts_share_no_name() -> None:
    query = Query()
    first, second = staged(query, 900, 3), staged(query, 900, 3)

    assert not {ref.name for ref in first.objects} & {ref.name for ref in second.objects}


def test_nothing_written_is_nothing_staged() -> None:
    query = Query()
    assert query.stage_task(BATCH, 0, []) == StagedTask(0, {}, [], [])
    assert not list(query.objects.list(""))


def test_a_batch_of_a_producer_is_refused() -> None:
    batch = encode_batch(records_of([(None, b"v")], timestamp=1), producer_id=1, producer_epoch=0)
    with pytest.raises(Invalid, match="may not be staged"):
        StagedBuilder().add(KEY, batch)
