"""Adopt requests beside takeovers: a frozen leader says nothing that may be wrong, no row twice."""

from collections.abc import Iterator

import pytest

from logstore.epoch.log import Topic
from logstore.formats.partition_state import SINK_EXPIRATION_MS
from logstore.protocol.leading.takeover import RecoveredPartition, Successor, take_over
from logstore.wire.adopt import AdoptOutcome
from tests.broker.handlers.test_adopt import copy_in_part, receive, send
from tests.broker.running import NOW_MS, Running
from tests.broker.running_cluster import running_cluster
from tests.broker.staging import Staging, connect, outcome, refusal, staging, values

ADOPTED, ALREADY = AdoptOutcome.ADOPTED, AdoptOutcome.ALREADY
NOT_LEADER = AdoptOutcome.NOT_LEADER

Cluster = dict[int, Running]


@pytest.fixture
def brokers() -> Iterator[Cluster]:
    """Three of them; the first leads topic "orders"."""
    with running_cluster(3) as found:
        found[1].create_topic("orders")
        yield found


def topic_at(running: Running) -> Topic:
    return running.log.topics["orders"]


def seal(brokers: Cluster, dead: int, successor: int) -> list[RecoveredPartition]:
    """A broker's partitions get another leader; it does not notice before it looks."""
    one, two = brokers[dead], brokers[successor]
    known = Successor(successor, two.log.epoch)
    return two.wait_for(
        two.log.runner.run(
            take_over(two.log.cluster_id, one.log.epoch, successor, lambda *_: known)
        )
    )


def lead(successor: Running, taken: list[RecoveredPartition]) -> None:
    successor.wait_for(successor.log.lead_recovered(taken))
    successor.wait_until(
        lambda: "orders" in successor.log.topics and 0 in topic_at(successor).leaders
    )


def take(brokers: Cluster, dead: int, successor: int) -> None:
    lead(brokers[successor], seal(brokers, dead, successor))


def waiters(running: Running) -> int:
    """How many wait for a commit."""
    writer = running.log.writer
    waiting = [one for segment in writer._in_flight.values() for one in segment.waiters]
    return len(waiting) + len(writer._open_waiters)


def outcome_of_a_zombie(brokers: Cluster, found: Staging) -> int:
    """The answer of broker 1, which is replaced by broker 2 after the request came."""
    one = brokers[1]
    reads = one.broker.store_reads
    count = one.broker.settings.number("logstore.cold.reads.max")

    async def hold_reads() -> None:
        for _ in range(count):
            await reads.acquire()

    def let_reads_go() -> None:
        for _ in range(count):
            reads.release()

    one.wait_for(hold_reads())
    with connect(one) as client:
        send(client, found.request())
        one.wait_until(lambda: found.sink_batch in one.broker.staged_manifests._kept._reading)
        taken = seal(brokers, 1, 2)
        one.do(let_reads_go)
        (result,) = receive(client).topics[0].partitions
    lead(brokers[2], taken)
    return result.outcome


def stage(running: Running, batch: int, rows: list[list[str]]) -> Staging:
    found = staging(running, topic_at(running), "sink", batch)
    found.task({0: rows})
    return found.put(running.shared.objects)


def test_a_sink_is_known_to_the_leader_after_the_next(brokers: Cluster) -> None:
    first = stage(brokers[1], 0, [["a"], ["b"]])
    assert outcome(brokers[1], first.request()) == (ADOPTED, 0, 2)
    take(brokers, 1, 2)
    take(brokers, 2, 3)

    assert outcome(brokers[3], first.request()) == (ALREADY, 0, 2)
    second = stage(brokers[3], 1, [["c"]])
    assert outcome(brokers[3], second.request()) == (ADOPTED, 2, 3)
    assert outcome(brokers[3], first.request()) == (ALREADY, -1, -1)
    assert values(brokers[3], "orders") == ["a", "b", "c"]


def test_a_leader_that_was_replaced_copies_nothing_more(brokers: Cluster) -> None:
    """It takes the batch for new; its chain is sealed, and says so."""
    found = stage(brokers[1], 0, [["a"]])
    assert outcome_of_a_zombie(brokers, found) == NOT_LEADER
    assert outcome(brokers[2], found.request()) == (ADOPTED, 0, 1)
    assert values(brokers[2], "orders") == ["a"]


def test_a_frozen_leader_that_wakes_does_not_answer_for_what_it_could_not_store(
    brokers: Cluster,
) -> None:
    one, two = brokers[1], brokers[2]
    found = stage(one, 0, [["a"], ["b"]])
    one.hold_store()
    with connect(one) as client:
        send(client, found.request())
        one.wait_until(lambda: topic_at(one).leaders[0].log_end == 2)
        take(brokers, 1, 2)
        assert outcome(two, found.request()) == (ADOPTED, 0, 2)
        one.let_store_go()
        (result,) = receive(client).topics[0].partitions

    assert result.outcome == NOT_LEADER
    assert outcome(two, found.request()) == (ALREADY, 0, 2)
    assert values(two, "orders") == ["a", "b"]


def test_a_repeat_at_a_frozen_leader_is_not_answered_from_its_memory(brokers: Cluster) -> None:
    """The batch is in its state and in no segment: another leader copies it, or it is lost."""
    one = brokers[1]
    found = stage(one, 0, [["a"]])
    one.hold_store()
    with connect(one) as first, connect(one) as second:
        send(first, found.request())
        one.wait_until(lambda: topic_at(one).leaders[0].log_end == 1)
        send(second, found.request())
        one.wait_until(lambda: waiters(one) == 2)
        take(brokers, 1, 2)
        one.let_store_go()
        results = [receive(client).topics[0].partitions[0].outcome for client in (first, second)]

    assert results == [NOT_LEADER, NOT_LEADER]
    assert outcome(brokers[2], found.request()) == (ADOPTED, 0, 1)


def test_a_refusal_that_ends_a_query_comes_after_a_look_for_a_seal(brokers: Cluster) -> None:
    one = brokers[1]
    found = staging(one, topic_at(one), "old", 0)
    found.created_ms = NOW_MS - SINK_EXPIRATION_MS
    found.small_task({0: [["a"]]})
    found.put(one.shared.objects)
    assert outcome_of_a_zombie(brokers, found) == NOT_LEADER
    refusal(brokers[2], found.request(), AdoptOutcome.INVALID)


def test_the_next_leader_goes_on_between_two_parts(brokers: Cluster) -> None:
    """The first leader's answer was lost, and its memory with it; its segment was not."""
    one, two = brokers[1], brokers[2]
    found = stage(one, 0, [["a"], ["b"], ["c"]])
    copy_in_part(one, found, "orders", [b"a"], 3)
    one.wait_until(lambda: topic_at(one).leaders[0].high_watermark == 1)
    take(brokers, 1, 2)

    assert outcome(two, found.request()) == (ADOPTED, 0, 3)
    assert values(two, "orders") == ["a", "b", "c"]
