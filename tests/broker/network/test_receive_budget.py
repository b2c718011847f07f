"""Requests that arrive share one budget: all that arrive finish, and memory is bounded."""

import asyncio
from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from broker.network.buffers import FIRST_BYTES, BufferPool, Inbox
from broker.network.receive_budget import STALL_S, ReceiveBudget
from broker.network.timers import Timers
from logstore.ports.clock import SystemClock
from logstore.testing.virtual_loop import run
from tests.broker.network.test_connection import frame
from tests.broker.running import PRODUCE, batch_of, produce_request, running_broker

KiB, MiB = 1024, 1024 * 1024
BUDGET = 512 * KiB


class Peer:
    """A connection whose peer sends one request, some bytes at a time."""

    def __init__(self, budget: ReceiveBudget, size: int) -> None:
        self.is_read, self.is_done, self.refused = True, False, ""
        self._budget = budget
        self._inbox = Inbox(
            BufferPool(0),
            produce_bytes_max=100 * MiB,
            frame_bytes_max=MiB,
            changed=budget.changed,
        )
        self._left = memoryview(size.to_bytes(4, "big") + bytes(size))

    @property
    def growth_bytes(self) -> int:
        return self._inbox.growth_bytes

    @property
    def unfinished_bytes(self) -> int:
        return 0 if self.refused else self._inbox.unfinished_bytes

    @property
    def arrived_bytes(self) -> int:
        return self._inbox.arrived_bytes

    def send(self, count: int) -> None:
        """Send up to `count` bytes, as far as they are taken."""
        while count and self.is_read and self._left:
            room = self._inbox.buffer()
            taken = min(count, len(room), len(self._left))
            room[:taken], self._left = self._left[:taken], self._left[taken:]
            count -= taken
            self._inbox.received(taken)
            if self._inbox.next() is not None:
                self.is_done = True
                self._inbox.next()
            elif self._inbox.growth_bytes:
                self._budget.ask(self)

    def hold_back(self) -> None:
        self.is_read = False

    def grow(self) -> None:
        self._inbox.grow()
        self.is_read = True

    def refuse(self, why: str) -> None:
        self.refused = why
        self._budget.left(self)
        self._inbox.close()


async def peers_of(sizes: Sequence[int]) -> tuple[ReceiveBudget, list[Peer]]:
    loop = asyncio.get_running_loop()
    peers: list[Peer] = []
    budget = ReceiveBudget(loop, Timers(loop), BUDGET, peers)
    peers += [Peer(budget, size) for size in sizes]
    return budget, peers


@given(
    st.lists(st.integers(65 * KiB, 700 * KiB), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 300 * KiB)), max_size=20),
)
@example(  # the one that may grow beyond the budget asks again while another waits
    [66560, 524289, 98305, 375806], [(2, 98306), (3, 2), (0, 49156), (3, 295939)]
)
def test_requests_that_wait_for_one_another_all_finish_within_the_budget_and_one_request(
    sizes: list[int], order: list[tuple[int, int]]
) -> None:
    async def scenario() -> None:
        budget, peers = await peers_of(sizes)
        largest = 0
        finish = [(number, MiB) for _ in range(20) for number in range(len(peers))]
        for number, count in order + finish:
            peers[number % len(peers)].send(count)
            largest = max(largest, budget.used_bytes)
            await SystemClock().sleep_s(0)
        assert [peer.is_done for peer in peers] == [True] * len(peers)
        assert budget.used_bytes == budget.waiting_count == 0
        first_parts = len(peers) * 2 * FIRST_BYTES
        assert largest <= (BUDGET + max(sizes)) * 5 // 4 + first_parts

    run(scenario())


async def test_requests_that_do_not_arrive_are_closed_while_others_wait_the_largest_first() -> None:
    budget, peers = await peers_of([MiB, 2 * MiB, 200 * KiB])
    small, large, waits = peers
    small.send(65 * KiB)
    large.send(300 * KiB)
    assert budget.used_bytes > BUDGET
    waits.send(150 * KiB)
    assert budget.waiting_count == 1
    await SystemClock().sleep_s(STALL_S + 1)
    assert large.refused
    assert not (small.refused or waits.refused)
    assert budget.waiting_count == 0
    waits.send(MiB)
    assert waits.is_done


async def test_requests_may_take_their_time_while_there_is_room() -> None:
    budget, peers = await peers_of([MiB, MiB])
    for peer in peers:
        peer.send(70 * KiB)
    await SystemClock().sleep_s(10 * STALL_S)
    assert not any(peer.refused for peer in peers)
    assert budget.used_bytes == sum(peer.unfinished_bytes for peer in peers)


def test_small_batches_pass_while_unfinished_requests_hold_the_budget() -> None:
    with running_broker({"queued.max.request.bytes": str(MiB)}) as running:
        running.create_topic("held")
        budget = running.broker.clients.receive_budget
        whole = frame(PRODUCE, produce_request("held", batch_of(b"x" * 900_000)))
        hostile = [running.connect() for _ in range(4)]
        for client in hostile:
            client.send_raw(whole[:400_000])
        running.wait_until(lambda: budget.waiting_count > 0)
        with running.connect() as client:
            client.send_raw(frame(PRODUCE, produce_request("held", batch_of(b"y"))))
            assert client.read_frame()
        assert running.do(lambda: budget.used_bytes) <= 3 * MiB
        for client in hostile:
            client.close()
        running.wait_until(lambda: budget.used_bytes == 0)
        with running.connect() as client:
            client.send_raw(whole)
            assert client.read_frame()
