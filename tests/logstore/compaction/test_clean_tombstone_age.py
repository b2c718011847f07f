"""When tombstones go: brokers may serve the older records for some time after these went."""

import json
import os

import pytest

from logstore.compaction.session import RunOptions
from logstore.formats.table_row import POINTER_AGAIN_S
from logstore.history.forms.names import log_prefix
from tests.logstore.compaction.keyed import KeyedTopic
from tests.logstore.compaction.world import World

SHORT = {"delete.retention.ms": "1", "logstore.clean.dead.ratio": "0"}
BELIEVED_MS = int(1000 * POINTER_AGAIN_S)


class _Killed(BaseException):
    pass


@pytest.fixture
def topic(world: World) -> KeyedTopic:
    """Cleaned once: the older record of the tombstone at 2 is gone."""
    topic = KeyedTopic.create(world, "state", SHORT)
    topic.write((b"a", b"1"), (b"b", b"1"), (b"a", None))
    topic.clean()
    assert topic.kept() == [1, 2]
    return topic


def age(topic: KeyedTopic, by_ms: int) -> None:
    """Every commit of the table is so much older, by its maker and by the store."""
    folder = topic.world.directory / log_prefix(topic.world.topic_ids[topic.name])
    for path in folder.glob("*.json"):
        before = path.stat()
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] -= by_ms
        path.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns - by_ms * 1_000_000))


def behind_ms(topic: KeyedTopic) -> int:
    return topic.world.table_pointers()[topic.world.topic_ids[topic.name]].behind_ms


def test_a_tombstone_outlives_every_brokers_belief_in_the_version_before(topic: KeyedTopic) -> None:
    age(topic, BELIEVED_MS - 5_000)  # its millisecond is long over
    topic.clean()
    assert topic.kept() == [1, 2]

    age(topic, 6_000)
    topic.clean()
    assert topic.kept() == [1]
    topic.check()


def test_a_tombstone_outlives_a_pointer_that_was_behind(topic: KeyedTopic) -> None:
    """A run takes a record out and dies before it says so; brokers serve the record until the next
    run begins, however late that is.
    """
    topic.write((b"b", None))

    def dies(step: str) -> None:
        if step == "table pointer: state" and topic.kept() == [2, 3]:
            raise _Killed

    with pytest.raises(_Killed):
        topic.world.compact(RunOptions(topics=("state",), now=True), watch=dies)
    assert behind_ms(topic) == 0
    age(topic, 10 * BELIEVED_MS)

    for _ in range(2):
        topic.clean()
        age(topic, 2 * BELIEVED_MS)
    assert topic.kept() == [2, 3]
    assert behind_ms(topic) > 0


def test_a_pointer_behind_commits_that_took_nothing_out_keeps_no_tombstone(
    topic: KeyedTopic,
) -> None:
    topic.write((b"c", b"1"))
    topic.move()

    def dies(step: str) -> None:
        if step == "table pointer: state":
            raise _Killed

    topic.write((b"d", b"1"))
    with pytest.raises(_Killed):
        topic.world.compact(RunOptions(topics=("state",), now=True, cleans=False), watch=dies)
    age(topic, 2 * BELIEVED_MS)
    topic.clean()

    assert behind_ms(topic) == 0
    assert topic.kept() == [1, 3, 4]
