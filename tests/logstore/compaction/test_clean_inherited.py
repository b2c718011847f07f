"""Topics that inherit their cleanup policy from brokers, which compaction runs beside."""

from pathlib import Path

from logstore.cli.inspect.topic_view import RecordSelection, view_topic
from logstore.wiring.open import open_readable
from tests.logstore.compaction.keyed import KeyedTopic
from tests.logstore.compaction.world import TIME_MS, World
from tests.spark_source.log_on_disk import LogOnDisk

COMPACTED = {"cleanup.policy": "compact"}
TWICE = ((b"a", b"1"), (b"a", b"2"), (b"b", b"1"))


def keyed(world: World, name: str, configs: dict[str, str] | None = None) -> KeyedTopic:
    world.create(name, 1, configs)
    topic = KeyedTopic(world, name, 0, [])
    topic.write(*TWICE)
    return topic


def test_a_topic_is_cleaned_by_the_policy_that_its_broker_gives(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    with LogOnDisk(directory, topic_defaults=COMPACTED) as log:
        world = World(log, directory)
        heir = keyed(world, "heir")
        own = keyed(world, "own", {"cleanup.policy": "delete"})

        world.compact()

        assert (heir.kept(), own.kept()) == ([1, 2], [0, 1, 2])
        heir.check()
    readable = open_readable(str(directory))
    try:
        views = [
            view_topic(readable, name, RecordSelection(0), now_ms=TIME_MS)
            for name in ("heir", "own")
        ]
        assert [len(view.cleaning) for view in views] == [1, 0]
    finally:
        readable.close()


def test_the_leader_that_started_last_says_it(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    with LogOnDisk(directory, topic_defaults=COMPACTED) as log:
        topic = keyed(World(log, directory), "heir")
    with LogOnDisk(directory) as log:
        world = World(log, directory)
        world.topic_ids = topic.world.topic_ids
        later = KeyedTopic(world, "heir", 0, topic.records)

        world.compact()
        assert later.kept() == [0, 1, 2]

    with LogOnDisk(directory, topic_defaults=COMPACTED):
        world.compact()
    assert later.kept() == [1, 2]
