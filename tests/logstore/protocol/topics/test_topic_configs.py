"""Changing a topic's configs: no client's change is lost, and none outlives the topic."""

import json
from collections.abc import Mapping

import pytest

from logstore.errors import ConditionFailed, Retryable
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.ports.registry import Row, RowAbsent
from logstore.protocol.steps import BackOff, Create, GetRow, Steps, UpdateRow
from logstore.protocol.topics.life import UnknownTopic
from logstore.protocol.topics.topic_change import ATTEMPTS_MAX
from logstore.protocol.topics.topic_configs import change_topic_configs
from logstore.testing.virtual_loop import run
from tests.logstore.written import WrittenLog

TOPIC_ID = b"t" * 16


def topic_row(configs: Mapping[str, str], status: TopicStatus = TopicStatus.LIVE) -> Row:
    return TopicRow(TOPIC_ID, status, 3, configs, 2).row()


def change(before: Row | None, topic_id: bytes, **sets: str) -> TopicRow:
    """What becomes of a topic whose row is `before`; also checks that it is what is stored."""

    async def scenario() -> TopicRow:
        written = WrittenLog()
        if before is not None:
            await written.runner.registry.put_if(TOPIC, "orders", before, RowAbsent())
        steps = change_topic_configs("orders", topic_id, lambda configs: {**configs, **sets})
        changed = await written.runner.run(steps)
        stored = await written.runner.registry.get(TOPIC, "orders")
        assert stored is not None
        assert TopicRow.of(stored) == changed
        return changed

    return run(scenario())


def test_the_rest_of_the_row_stays() -> None:
    changed = change(topic_row({"a": "1", "b": "2"}), TOPIC_ID, b="3", c="4")

    configs = {"a": "1", "b": "3", "c": "4"}
    assert changed == TopicRow(TOPIC_ID, TopicStatus.LIVE, 3, configs, 2, version=1)


def test_a_row_from_before_there_were_versions_gets_one() -> None:
    before = {name: value for name, value in topic_row({"a": "1"}).items() if name != "version"}

    assert change(before, TOPIC_ID, a="2").version == 1


def test_nothing_is_written_where_nothing_changes() -> None:
    steps = change_topic_configs("orders", TOPIC_ID, dict)

    assert isinstance(next(steps), GetRow)
    with pytest.raises(StopIteration):
        steps.send(topic_row({"a": "1"}))


@pytest.mark.parametrize(
    "before",
    [
        None,
        topic_row({}, TopicStatus.DELETING),
        topic_row({}, TopicStatus.DELETED),
        TopicRow(b"o" * 16, TopicStatus.LIVE, 3, {}).row(),
    ],
    ids=["none", "deleting", "deleted", "another life"],
)
def test_a_life_that_is_over_is_not_changed(before: Row | None) -> None:
    with pytest.raises(UnknownTopic):
        change(before, TOPIC_ID, a="1")


def lose(steps: Steps[TopicRow], seen: Row) -> None:
    """Up to the read that follows a lost race, from a read that finds `seen`."""
    assert isinstance(steps.send(seen), Create)
    assert isinstance(steps.send(None), UpdateRow)
    assert isinstance(steps.throw(ConditionFailed("lost", None)), BackOff)
    assert isinstance(steps.send(None), GetRow)


def test_of_two_changes_at_once_both_are_kept() -> None:
    steps = change_topic_configs("orders", TOPIC_ID, lambda configs: {**configs, "mine": "1"})
    next(steps)
    lose(steps, topic_row({}))
    assert isinstance(steps.send(topic_row({"theirs": "2"})), Create)
    update = steps.send(None)

    assert isinstance(update, UpdateRow)
    assert json.loads(str(update.sets["configs"])) == {"mine": "1", "theirs": "2"}


def test_who_loses_every_race_gives_up() -> None:
    steps = change_topic_configs("orders", TOPIC_ID, lambda configs: {**configs, "mine": "1"})
    next(steps)
    for number in range(ATTEMPTS_MAX - 1):
        lose(steps, topic_row({"theirs": str(number)}))
    steps.send(topic_row({"theirs": "last"}))
    steps.send(None)
    steps.throw(ConditionFailed("lost", None))
    with pytest.raises(Retryable):
        steps.send(None)
