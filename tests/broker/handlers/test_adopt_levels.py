"""A cluster whose format level has no Spark sinks copies none, until the level is finalized."""

from logstore.formats.cluster_row import CLUSTER
from logstore.formats.keys import segment_key
from logstore.formats.segment import EntryKind, decode_front
from logstore.protocol.rows.changes import begin_feed_again
from logstore.testing.simulated_rows import at_once
from logstore.wire.adopt import AdoptOutcome
from tests.broker.running import Running
from tests.broker.staging import adopt, outcome, staging, values

ADOPTED, ALREADY, BUSY = AdoptOutcome.ADOPTED, AdoptOutcome.ALREADY, AdoptOutcome.BUSY


def put_level(running: Running, level: int) -> None:
    at_once(running.shared.rows.update_if(CLUSTER, CLUSTER, {"format_level": level}, [], "test"))


def begin_with_level(running: Running, level: int) -> None:
    """As if the log were of the release before."""
    put_level(running, level)
    running.log.writer.format_level = level


def kinds_written(running: Running) -> set[int]:
    writer = running.log.writer
    fronts = [
        decode_front(running.shared.objects.get(segment_key(writer.chain.epoch, seq)))
        for seq in range(1, writer.committed_end)
    ]
    return {entry.kind for front in fronts for entry in front.entries}


def test_nothing_of_a_newer_form_is_written_before_the_level_is_finalized(
    running: Running,
) -> None:
    topic = running.create_topic("level")
    begin_with_level(running, 1)
    found = staging(running, topic, "level")
    found.task({0: [["a"]]})
    found.put(running.shared.objects)

    (refused,) = adopt(running, found.request())
    assert refused.outcome == BUSY
    assert "the cluster writes format level 1" in (refused.message or "")
    assert "logstore upgrade --url URL --finalize" in (refused.message or "")
    assert values(running, "level") == []
    assert EntryKind.ADOPT_END not in kinds_written(running)

    put_level(running, 2)
    running.wait_for(running.log.runner.run(begin_feed_again()))
    running.wait_until(lambda: running.log.format_level == 2)
    assert outcome(running, found.request()) == (ADOPTED, 0, 1)
    assert EntryKind.ADOPT_END in kinds_written(running)


def test_what_was_copied_before_is_answered_at_any_level(running: Running) -> None:
    """A log of level 1 may know sinks, of builds between releases: a repeat is not copied again."""
    topic = running.create_topic("carried")
    found = staging(running, topic, "carried")
    found.small_task({0: [["a"]]})
    found.put(running.shared.objects)
    assert outcome(running, found.request()) == (ADOPTED, 0, 1)

    begin_with_level(running, 1)
    assert outcome(running, found.request()) == (ALREADY, 0, 1)
    assert values(running, "carried") == ["a"]
