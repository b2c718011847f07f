"""Answers that clients do not take share one budget, whichever client and address asks for them."""

import asyncio
from collections.abc import Sequence

from broker.network.slow_readers import (
    CONNECTION_BYTES_MAX,
    FAIR_BYTES,
    STALL_S,
    UNSENT_BYTES_MAX,
    SlowReaders,
)
from broker.network.timers import Timers
from logstore.ports.clock import SystemClock
from logstore.reading.brokers.read import Chunk, compact
from logstore.testing.virtual_loop import run
from tests.broker.network.test_connection import _Sender, answered_ids, frame
from tests.broker.running import (
    FETCH,
    batch_of,
    fetch_request,
    produce,
    running_broker,
)

MiB = 1024 * 1024


class Debtor:
    """A connection whose peer takes nothing."""

    def __init__(self, readers: SlowReaders, unsent_bytes: int) -> None:
        self.unsent_bytes, self.refused = unsent_bytes, ""
        self._readers = readers
        readers.changed(unsent_bytes)
        readers.blocked(self)

    def copy_unsent(self) -> int:
        return 0

    def release_fetch(self) -> None:
        pass

    def refuse(self, why: str) -> None:
        self.refused = why
        self._readers.left(self)


def refused_of(sizes: Sequence[int]) -> list[bool]:
    """Which debtors of these sizes are closed in time."""

    async def scenario() -> list[bool]:
        loop = asyncio.get_running_loop()
        readers = SlowReaders(loop, Timers(loop))
        debtors = [Debtor(readers, size) for size in sizes]
        taking = Debtor(readers, 2 * max(sizes))
        for _ in range(6):
            await SystemClock().sleep_s(STALL_S / 2)
            readers.unblocked(taking)
            readers.blocked(taking)
        assert not taking.refused
        readers.unblocked(taking)
        for debtor in debtors:
            readers.unblocked(debtor)
        return [bool(debtor.refused) for debtor in debtors]

    return run(scenario())


def test_the_largest_debtors_that_take_nothing_are_closed_until_the_rest_is_within_the_budget() -> (
    None
):
    tenth = UNSENT_BYTES_MAX // 10
    assert refused_of([tenth, 3 * tenth, 2 * tenth, tenth]) == [False, True, False, False]
    assert refused_of([tenth, tenth]) == [False, False]


async def test_a_share_is_what_the_connection_and_all_of_them_have_left() -> None:
    loop = asyncio.get_running_loop()
    readers = SlowReaders(loop, Timers(loop))
    assert readers.share_bytes(0) == UNSENT_BYTES_MAX
    assert readers.share_bytes(MiB) == CONNECTION_BYTES_MAX - MiB
    readers.changed(UNSENT_BYTES_MAX)
    assert readers.share_bytes(MiB) == FAIR_BYTES
    assert readers.share_bytes(CONNECTION_BYTES_MAX) == 0


def test_no_fetch_is_begun_while_answers_take_twice_their_budget() -> None:
    with running_broker() as running, running.connect() as client:
        running.create_topic("full")
        assert produce(client, "full", batch_of(b"x")).error_code == 0
        readers = running.broker.clients.slow_readers
        running.do(lambda: readers.changed(2 * UNSENT_BYTES_MAX + 1))
        client.send_raw(frame(FETCH, fetch_request("full")))
        running.wait_until(lambda: bool(readers._held))
        with running.connect() as other:
            assert other.negotiate()
            assert produce(other, "full", batch_of(b"y")).error_code == 0
        running.do(lambda: readers.changed(-UNSENT_BYTES_MAX - 1))
        assert answered_ids(client, 1) == [1]


def test_fetches_that_read_the_store_are_answered_one_after_the_other() -> None:
    count = 60
    with running_broker(cache_bytes_max=1) as running, running.connect() as client:
        running.create_topic("cold")
        for _ in range(3):
            assert produce(client, "cold", batch_of(b"x" * 900_000)).error_code == 0
        (connection,) = running.broker.clients.connections
        sender = _Sender(client, frame(FETCH, fetch_request("cold", max_bytes=1000)) * count)
        running.wait_until(lambda: connection.unsent_bytes > MiB)
        assert running.do(lambda: connection.unsent_bytes) < 8 * MiB
        sender.join()
        assert answered_ids(client, count) == [1] * count


def test_a_view_of_a_segment_is_copied_where_it_is_a_small_part_of_it() -> None:
    segment = memoryview(bytes(MiB))
    small, large = segment[:1000], segment[1000 : MiB // 2]
    chunk = compact(Chunk([small, large], MiB // 2, 7))
    assert [bytes(buffer) for buffer in chunk.buffers] == [bytes(small), bytes(large)]
    assert len(memoryview(chunk.buffers[0].obj)) == 1000
    assert chunk.buffers[1].obj is segment.obj
