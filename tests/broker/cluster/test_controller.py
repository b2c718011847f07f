"""Controllers of whole clusters: deaths, joins, hand-overs, zombies; and what it costs to idle."""

from collections import Counter

import pytest

from broker.cluster.action_executor import TakeoverPart
from broker.cluster.controller import CHAINS_S
from logstore.formats.broker_row import BrokerStatus
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.ports.registry import Comparison
from logstore.testing.virtual_loop import VirtualClock
from tests.broker.cluster.running_cluster import Cluster, ScriptedPeers, play

LEASE_S = 3.0


def test_one_broker_is_the_controller_and_all_know_which() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await VirtualClock().sleep_s(3)

        assert cluster.active == [1]
        assert {node.controller.holder for node in cluster.nodes.values() if node.controller} == {1}

    play(story)


@pytest.mark.parametrize("dead", [1, 2])
def test_the_partitions_of_a_dead_broker_are_led_by_others_within_a_lease(dead: int) -> None:
    """Whether the dead one was the controller or not."""

    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.create_topic("orders", [1, 2, 3] * 4)
        cluster.nodes[dead].life.process.kill()
        took_s = await cluster.until(lambda: cluster.are_all_led("orders", 12))

        assert LEASE_S - 1 <= took_s <= LEASE_S + 1.5
        counts = {broker: len(node.led()) for broker, node in cluster.nodes.items()}
        assert {count for broker, count in counts.items() if broker != dead} == {6}

    play(story)


def test_a_lease_that_ran_out_is_acted_on_at_once() -> None:
    """Not at the next look: what is waited for is a leader of every partition of that broker."""

    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        await cluster.create_topic("orders", [2])
        observer, controller = cluster.nodes[1].log, cluster.nodes[1].controller
        assert controller is not None

        async def lose_broker_2() -> float:
            before = controller.counts.takeovers
            cluster.nodes[2].life.process.kill()
            await cluster.until(lambda: not observer.liveness.is_alive(2))
            return await cluster.until(lambda: controller.counts.takeovers > before)

        for wait_s in (0.0, 0.1, 0.2, 0.3, 0.4):
            await VirtualClock().sleep_s(wait_s)
            assert await lose_broker_2() <= 0.1
            figures = controller.takeovers
            assert figures.by_reason == {"its broker is dead": controller.counts.takeovers}
            for part in TakeoverPart:
                assert sum(figures.seconds[part].counts) == controller.counts.takeovers
            await cluster.start(2)
            await cluster.until(lambda: observer.liveness.is_alive(2))

    play(story)


def test_a_broker_taken_for_dead_can_renew_no_more() -> None:
    """It answers fetches as long as it renews, so that ends before its chain is sealed."""

    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        await cluster.create_topic("orders", [1, 2])
        hung = cluster.nodes[2]
        hung.life.process.stop_for(LEASE_S + 2)
        await cluster.until(lambda: len(cluster.nodes[1].led()) == 2)

        rows = cluster.nodes[1].log
        await cluster.until(lambda: rows.brokers[2].status is BrokerStatus.FENCED)
        await cluster.until(hung.log.fenced.is_set)

    play(story)


@pytest.mark.parametrize("dead", [1, 2])
def test_with_early_notice_they_are_led_by_others_at_once(dead: int) -> None:
    async def story(cluster: Cluster) -> None:
        peers = {broker: ScriptedPeers() for broker in (1, 2, 3)}
        for broker in (1, 2, 3):
            await cluster.start(broker, peers=peers[broker])
        await cluster.create_topic("orders", [1, 2, 3] * 4)
        await VirtualClock().sleep_s(3)
        for broker in (1, 2, 3):
            assert set(peers[broker].watched) == {1, 2, 3} - {broker}
        epoch = cluster.nodes[dead].log.epoch
        cluster.nodes[dead].life.process.kill()
        for broker in {1, 2, 3} - {dead}:
            peers[broker].gone.put_nowait((dead, epoch))
        took_s = await cluster.until(lambda: cluster.are_all_led("orders", 12))

        assert took_s <= 1.0

    play(story)


def test_early_notice_of_a_broker_that_stopped_in_good_order_is_not_believed() -> None:
    async def story(cluster: Cluster) -> None:
        peers = ScriptedPeers()
        await cluster.start(1, peers=peers)
        await cluster.start(2)
        await VirtualClock().sleep_s(1)
        epoch = cluster.nodes[2].log.epoch
        cluster.nodes[2].life.stop()
        peers.gone.put_nowait((2, epoch))
        await cluster.nodes[2].life.ended.wait()

        assert cluster.nodes[2].life.closed_cleanly

    play(story)


def test_a_broker_that_stopped_in_good_order_stays_stopped_when_its_chain_is_sealed() -> None:
    """A broker that starts when all others have stopped takes over everything, and by itself."""

    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        epoch = cluster.nodes[2].log.epoch
        cluster.nodes[2].life.stop()
        await cluster.nodes[2].life.ended.wait()
        controller = cluster.nodes[1].controller
        assert controller is not None
        await cluster.until(lambda: controller.counts.takeovers > 0)
        row = await cluster.rows.get(CHAIN, chain_sk(epoch))
        assert row is not None
        assert ChainRow.of(row).status is ChainStatus.SEALED
        await VirtualClock().sleep_s(1)  # until it has looked again

        assert cluster.nodes[1].log.brokers[2].status is BrokerStatus.STOPPED

    play(story)


def test_two_brokers_survive_the_death_of_either() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        await cluster.create_topic("orders", [1, 2])
        cluster.nodes[1].life.process.kill()
        await cluster.until(lambda: len(cluster.nodes[2].led()) == 2)
        assert cluster.active == [2]
        await cluster.start(1)
        await cluster.until(lambda: len(cluster.nodes[1].led()) == 1)

        assert cluster.are_all_led("orders", 2)

    play(story)


def test_a_broker_that_joins_is_given_its_share() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1)
        await cluster.create_topic("orders", [1] * 9)
        await cluster.start(2, 3)
        await cluster.until(lambda: all(len(n.led()) == 3 for n in cluster.nodes.values()))
        assert cluster.are_all_led("orders", 9)
        for number, row in enumerate(cluster.nodes[1].topic("orders").rows):
            assert row.replicas == (row.broker,), number
        controller = cluster.nodes[1].controller
        assert controller is not None
        assert controller.counts.moves == 6

    play(story)


def test_replicas_are_filled_up_when_brokers_join() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1)
        await cluster.create_topic("orders", [1] * 3, replicas=2)
        await cluster.start(2)

        def are_full() -> bool:
            return all(len(row.replicas) == 2 for row in cluster.nodes[2].topic("orders").rows)

        await cluster.until(are_full)

    play(story)


def test_a_controller_that_stops_hands_its_lease_over_at_once() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        await VirtualClock().sleep_s(3)
        first = cluster.nodes[1]
        assert first.controller is not None
        assert first.running is not None
        first.controller.stop()
        await cluster.until(first.running.done)
        took_s = await cluster.until(lambda: cluster.active == [2])

        assert took_s <= 1.0
        assert (await cluster.lease()).epoch == 2

    play(story)


@pytest.mark.parametrize("update_s", [1.6, 2.0])
def test_a_controller_that_renews_too_slowly_to_act_hands_its_lease_over(update_s: float) -> None:
    """It would keep the lease for ever, and never know in time that it has it."""

    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.until(lambda: cluster.active == [1])
        cluster.nodes[1].rows.update_s = update_s
        await cluster.until(lambda: cluster.active in ([2], [3]))

        # It applies again once its turn has come, and hands over as often as it is too slow.
        cluster.nodes[1].rows.update_s = 0.0
        active = cluster.active[0]
        cluster.nodes[active].rows.update_s = update_s
        await cluster.until(lambda: len(cluster.active) == 1 and cluster.active != [active])

    play(story)


def test_a_controller_that_wakes_from_a_long_sleep_does_no_harm() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.create_topic("orders", [1, 2, 3] * 2)
        zombie = cluster.nodes[1]
        zombie.life.process.stop_for(20)
        await cluster.until(lambda: sum(len(cluster.nodes[n].led()) for n in (2, 3)) == 6)
        seen = {n: cluster.nodes[n].log.epoch for n in (2, 3)}
        await zombie.life.ended.wait()
        await VirtualClock().sleep_s(20)

        assert cluster.active in ([2], [3])
        for broker, epoch in seen.items():
            assert not cluster.nodes[broker].log.fenced.is_set()
            assert cluster.nodes[broker].log.brokers[broker].epoch == epoch
        assert sum(len(cluster.nodes[n].led()) for n in (2, 3)) == 6

    play(story)


def test_a_broker_that_the_store_does_not_answer_loses_its_partitions() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.create_topic("orders", [1, 2, 3])
        for node in cluster.nodes.values():
            node.store.takes_s = 0.3
        deaf = cluster.nodes[2]
        deaf.store.answers.clear()
        epoch = deaf.log.epoch
        for tenth in range(300):
            for number, broker in enumerate((1, 2, 3)):
                node = cluster.nodes[broker]
                if ("orders", number) in node.led():
                    await node.life.ask(lambda log, n=node, p=number: n.write("orders", p))  # type: ignore[misc]
            await VirtualClock().sleep_s(0.1)
            if tenth < 90:
                assert cluster.nodes[1].topic("orders").rows[1].chain == epoch

        assert cluster.nodes[1].topic("orders").rows[1].broker in (1, 3)
        assert [cluster.nodes[n].log.fenced.is_set() for n in (1, 3)] == [False, False]

    play(story)


def test_each_time_that_chains_cannot_be_read_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1)
        for _ in range(2):
            cluster.nodes[1].rows.denied = CHAIN
            await VirtualClock().sleep_s(2 * CHAINS_S)
            cluster.nodes[1].rows.denied = ""
            await VirtualClock().sleep_s(2 * CHAINS_S)

    play(story)
    lines = [line for line in caplog.messages if "cannot read the cluster" in line]
    assert lines == [f"the controller cannot read the cluster: access denied: pk={CHAIN}"] * 2


@pytest.mark.slow
def test_what_died_half_done_is_cleared_away() -> None:
    half_created, half_deleted = b"c" * 16, b"d" * 16

    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        epoch = cluster.nodes[1].log.epoch
        row = PartitionRow.new(1, epoch).row()
        deleting = TopicRow(half_deleted, TopicStatus.DELETING, 1, {})
        await cluster.rows.put_if(TOPIC, "old", deleting.row(), [], "w")
        # Its creator died; this put came after the rows of its partitions had been cleared away.
        late = TopicRow(b"l" * 16, TopicStatus.LIVE, 2, {})
        await cluster.rows.put_if(TOPIC, "late", late.row(), [], "w")
        for topic_id in (half_created, half_deleted):
            key = partition_pk(topic_id, 0), partition_sk(topic_id, 0)
            await cluster.rows.put_if(*key, row, [], "w")
        await VirtualClock().sleep_s(900)

        for topic_id in (half_created, half_deleted):
            assert await cluster.rows.get(partition_pk(topic_id, 0), partition_sk(topic_id, 0)) is (
                None
            )
        for name in ("old", "late"):
            found = await cluster.rows.get(TOPIC, name)
            assert found is not None
            assert TopicRow.of(found).status is TopicStatus.DELETED
            assert all(name not in node.log.topics for node in cluster.nodes.values())

    play(story)


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["topic", "partition"])
def test_rows_that_were_lost_are_not_taken_for_what_died_half_done(lost: str) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        await cluster.create_topic("orders", [1])
        topic_id = cluster.nodes[1].topic("orders").topic_id
        await cluster.until(lambda: len(cluster.nodes[1].led()) == 1)
        key = partition_pk(topic_id, 0), partition_sk(topic_id, 0)
        place, left = ((TOPIC, "orders"), key) if lost == "topic" else (key, (TOPIC, "orders"))
        await VirtualClock().sleep_s(5)
        await cluster.rows.delete_if(*place, [], "w")
        await VirtualClock().sleep_s(900)

        assert await cluster.rows.get(*left) is not None

    play(story)


def test_a_move_that_its_leader_never_heard_of_is_sent_again() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        await cluster.create_topic("orders", [1, 2])
        topic_id = cluster.nodes[1].topic("orders").topic_id
        await cluster.rows.update_if(
            partition_pk(topic_id, 0),
            partition_sk(topic_id, 0),
            {"target": 2},
            [Comparison("broker", "=", 1)],
            "w",
        )
        await cluster.until(lambda: len(cluster.nodes[2].led()) == 2)

    play(story)


def test_a_row_that_changed_without_a_hint_is_read_when_its_old_chain_is_taken_over() -> None:
    """A change of leader that was given up as lost came late, and its broker died."""

    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.create_topic("orders", [1, 2, 3])
        topic = cluster.nodes[1].topic("orders")
        successor = cluster.nodes[2].log.epoch
        late = topic.rows[2].taken_by(broker=2, chain=successor, start=0).leadership()
        key = partition_pk(topic.topic_id, 2), partition_sk(topic.topic_id, 2)
        await cluster.rows.update_if(*key, late, [], "w")
        cluster.nodes[3].life.process.kill()
        took_s = await cluster.until(lambda: cluster.are_all_led("orders", 3))

        assert took_s <= LEASE_S + 1.5
        assert ("orders", 2) in cluster.nodes[2].led()

    play(story)


@pytest.mark.slow
def test_idle_brokers_ask_little_of_the_registry() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.create_topic("orders", [1, 2, 3] * 4)
        await VirtualClock().sleep_s(30)
        before = {broker: Counter(node.rows.counts) for broker, node in cluster.nodes.items()}
        await VirtualClock().sleep_s(240)
        rates = {
            broker: {
                what: count / 240 for what, count in (node.rows.counts - before[broker]).items()
            }
            for broker, node in cluster.nodes.items()
        }

        totals = {broker: sum(found.values()) for broker, found in rates.items()}
        assert cluster.active == [1]
        assert totals[2] <= 9.5
        assert totals[3] <= 9.5
        assert totals[1] <= 10.0

    play(story)
