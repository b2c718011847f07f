"""Connections that are not read for a time: as long as the last answer said, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

from broker.network.mutes import DELAYED_MAX, Mutes
from broker.network.pauses import Pause
from broker.network.timers import TICK_S, Timers
from logstore.ports.clock import SystemClock
from logstore.testing.virtual_loop import run


class Peer:
    """A connection that notes when it is read again, and why it is closed."""

    def __init__(self) -> None:
        self.paused = 0
        self.read_at_s: float | None = None
        self.refused = ""

    def pause(self, why: Pause) -> None:
        self.paused |= why

    def resume(self, why: Pause) -> None:
        self.paused &= ~why
        self.read_at_s = asyncio.get_running_loop().time()

    def refuse(self, why: str) -> None:
        self.refused = why

    def abort(self) -> None:
        raise AssertionError("its client has not left")

    descriptor = None


def play(story: Callable[[Mutes], Awaitable[None]]) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        timers = Timers(loop)
        await story(Mutes(loop.time, timers))
        timers.close()

    run(scenario())


def is_about(at_s: float | None, expected_s: float) -> bool:
    return at_s is not None and 0 <= at_s - expected_s <= TICK_S


def test_a_connection_is_read_again_when_its_time_is_over() -> None:
    async def story(mutes: Mutes) -> None:
        peer, other = Peer(), Peer()
        mutes.mute(peer, 30.0)
        mutes.mute(other, 3_600.0)
        assert (peer.paused, mutes.count) == (Pause.THROTTLED, 2)
        await SystemClock().sleep_s(29.9)
        assert peer.paused
        await SystemClock().sleep_s(0.2)
        assert (peer.paused, mutes.count) == (0, 1)
        assert is_about(peer.read_at_s, 30.0)

    play(story)


def test_the_longest_of_several_answers_counts() -> None:
    async def story(mutes: Mutes) -> None:
        peer = Peer()
        mutes.hold(peer)
        assert (peer.paused, mutes.count) == (Pause.THROTTLED, 0)
        mutes.mute(peer, 10.0)
        await SystemClock().sleep_s(5.0)
        mutes.mute(peer, 1.0)
        mutes.mute(peer, 20.0)
        assert mutes.count == 1
        await SystemClock().sleep_s(30.0)
        assert is_about(peer.read_at_s, 25.0)

    play(story)


def test_a_connection_that_ends_is_not_called_again() -> None:
    async def story(mutes: Mutes) -> None:
        peer = Peer()
        mutes.mute(peer, 10.0)
        mutes.left(peer)
        mutes.left(peer)
        await SystemClock().sleep_s(20.0)
        assert (mutes.count, peer.read_at_s) == (0, None)

    play(story)


def test_connections_to_be_closed_later_are_bounded_and_closed() -> None:
    async def story(mutes: Mutes) -> None:
        peers = [Peer() for _ in range(DELAYED_MAX)]
        assert all(mutes.close_later(peer, 1.0, "too many") for peer in peers)
        assert not mutes.close_later(Peer(), 1.0, "too many")
        mutes.left(peers[0])
        assert mutes.close_later(Peer(), 1.0, "too many")
        await SystemClock().sleep_s(1.1)
        assert mutes.count == 0
        assert {peer.refused for peer in peers[1:]} == {"too many"}
        assert (peers[0].refused, peers[1].read_at_s) == ("", None)

        kept = Peer()
        mutes.close_later(kept, 1.0, "too many")
        mutes.close_delayed()
        assert kept.refused

    play(story)
