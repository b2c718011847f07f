"""After a death answers wait for the next leaders, for a bounded time; else for nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from broker.answers.leader_settling import HOLD_S, WINDOW_S, LeaderSettling
from logstore.formats.partition_row import PartitionRow
from logstore.testing.virtual_loop import VirtualClock, run

SLACK_S = 0.02


@dataclass(frozen=True)
class Here:
    """This broker leads, or did."""

    is_released: bool = False


@dataclass
class Topic:
    rows: list[PartitionRow]
    leaders: dict[int, Here] = field(default_factory=lambda: {0: Here()})
    is_deleted: bool = False


@dataclass
class Cluster:
    """Broker 2 leads one of two partitions; all brokers of `live` are alive."""

    epoch: int = 11
    live: set[int] = field(default_factory=lambda: {1, 2, 3})
    topics: dict[str, Topic] = field(
        default_factory=lambda: {"t": Topic([PartitionRow.new(1, 11), PartitionRow.new(2, 12)])}
    )
    deaths: list[Callable[[], None]] = field(default_factory=list)

    def release(self) -> None:
        self.topics["t"].leaders[0] = Here(is_released=True)

    def hand_over(self) -> None:
        self.topics["t"].rows[0] = PartitionRow.new(3, 13)

    def live_brokers(self) -> set[int]:
        return self.live

    def on_death(self, callback: Callable[[], None]) -> None:
        self.deaths.append(callback)

    def die(self, broker: int) -> None:
        self.live.discard(broker)
        for callback in self.deaths:
            callback()

    def take_over(self) -> None:
        self.topics["t"].rows[1] = PartitionRow.new(3, 13)


Story = Callable[[Cluster, LeaderSettling, asyncio.TaskGroup], Awaitable[None]]


def play(story: Story) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            cluster = Cluster()
            await story(cluster, LeaderSettling(cluster, tasks), tasks)

    run(main())


async def waited_s(settling: LeaderSettling) -> float:
    began_s = VirtualClock().monotonic_s()
    await settling.wait()
    return VirtualClock().monotonic_s() - began_s


def holds(settling: LeaderSettling) -> bool:
    return settling.has_moves


async def pause(seconds: float) -> None:
    await VirtualClock().sleep_s(seconds)


def test_while_all_is_well_nothing_waits() -> None:
    async def story(_: Cluster, settling: LeaderSettling, _tasks: asyncio.TaskGroup) -> None:
        assert settling.is_settled()
        assert await waited_s(settling) == 0.0

    play(story)


def test_an_answer_waits_for_the_next_leader() -> None:
    async def story(cluster: Cluster, settling: LeaderSettling, tasks: asyncio.TaskGroup) -> None:
        settling.lost(2)
        assert not settling.is_settled()
        waiting = tasks.create_task(waited_s(settling))
        await pause(0.05)
        cluster.die(2)
        await pause(0.05)
        cluster.take_over()

        assert 0.1 <= await waiting < 0.1 + SLACK_S
        assert settling.is_settled()

    play(story)


@dataclass
class Others:
    """Broker 2 answers after `answer_s`, or has ended by then, which a look shows."""

    settling: LeaderSettling
    answer_s: float = 0.002
    has_ended: bool = False
    has_any: bool = True

    def look(self) -> None:
        if self.has_ended:
            self.settling.lost(2)

    async def confirm(self) -> None:
        await pause(self.answer_s)


def test_an_end_that_is_seen_while_the_others_are_asked_holds_the_answer() -> None:
    """A client knew of it before: a process that dies ends its connections one after the other."""

    async def story(cluster: Cluster, settling: LeaderSettling, tasks: asyncio.TaskGroup) -> None:
        settling.others = others = Others(settling)
        assert not settling.is_settled()
        waiting = tasks.create_task(waited_s(settling))
        await pause(0.001)
        others.has_ended = True
        await pause(0.05)
        others.has_ended = False
        cluster.die(2)
        cluster.take_over()

        assert 0.05 <= await waiting < 0.05 + SLACK_S

    play(story)


def test_while_all_others_answer_only_that_is_waited_for() -> None:
    async def story(_: Cluster, settling: LeaderSettling, _tasks: asyncio.TaskGroup) -> None:
        settling.others = Others(settling, 0.001)
        assert 0 < await waited_s(settling) < 0.01

    play(story)


def test_no_answer_is_held_longer_than_promised_and_none_long_after_a_death() -> None:
    async def story(cluster: Cluster, settling: LeaderSettling, _tasks: asyncio.TaskGroup) -> None:
        cluster.die(2)
        assert abs(await waited_s(settling) - HOLD_S) < SLACK_S
        await pause(WINDOW_S)
        assert settling.is_settled(), "its partition has no leader for another reason"
        assert await waited_s(settling) == 0.0

    play(story)


def test_a_broker_that_was_reached_again_is_waited_for_no_longer() -> None:
    async def story(_: Cluster, settling: LeaderSettling, tasks: asyncio.TaskGroup) -> None:
        settling.lost(2)
        waiting = tasks.create_task(waited_s(settling))
        await pause(0.05)
        settling.back(2)

        assert await waiting < 0.05 + SLACK_S

    play(story)


def test_a_broker_that_leads_nothing_is_waited_for_by_no_answer() -> None:
    async def story(cluster: Cluster, settling: LeaderSettling, _tasks: asyncio.TaskGroup) -> None:
        settling.lost(3)
        cluster.die(3)

        assert await waited_s(settling) < SLACK_S

    play(story)


def test_who_is_sent_away_waits_for_the_next_leader_of_a_partition_that_is_handed_over() -> None:
    async def story(cluster: Cluster, settling: LeaderSettling, _: asyncio.TaskGroup) -> None:
        settling.moving(cluster.topics["t"], 0)
        assert not holds(settling), "it is led here"
        cluster.release()
        settling.moving(cluster.topics["t"], 0)
        assert holds(settling)
        asyncio.get_running_loop().call_later(0.05, cluster.hand_over)
        assert 0.05 <= await waited_s(settling) <= 0.05 + SLACK_S
        assert not holds(settling)
        assert settling.is_settled()

    play(story)


def test_a_client_that_was_sent_here_before_the_takeover_is_known_waits_for_the_news() -> None:
    async def story(cluster: Cluster, settling: LeaderSettling, _: asyncio.TaskGroup) -> None:
        topic = cluster.topics["t"]
        settling.moving(topic, 1)
        assert not holds(settling), "broker 2 leads it and is alive"
        cluster.die(2)
        settling.moving(topic, 1)
        assert holds(settling)
        asyncio.get_running_loop().call_later(0.05, cluster.take_over)
        assert 0.05 <= await waited_s(settling) <= 0.05 + SLACK_S
        assert not holds(settling)

    play(story)


def test_a_partition_that_no_broker_takes_holds_answers_for_a_while_and_no_more() -> None:
    async def story(cluster: Cluster, settling: LeaderSettling, _: asyncio.TaskGroup) -> None:
        cluster.release()
        settling.moving(cluster.topics["t"], 0)
        assert HOLD_S <= await waited_s(settling) <= HOLD_S + SLACK_S
        await pause(WINDOW_S)
        settling.moving(cluster.topics["t"], 0)
        assert not holds(settling)
        assert await waited_s(settling) == 0.0

    play(story)
