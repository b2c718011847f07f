"""Holds answers that would name a dead leader until the next one is known.

    a client asks who leads ──▶ all other brokers answer, or:
    a connection to a broker ends, or it is dead ──▶ unsettled ─┬─▶ no partition is led by it
    a client is sent away from a partition that   ──▶           ├─▶ and none of these is left
    is handed over here, or led by a dead broker                └─▶ `WINDOW_S` is over

A client that loses a connection asks for metadata within milliseconds, and believes the answer: if
that names the broker which has just died, or no leader, librdkafka looks again after a second or
two, franz-go after five. A takeover takes a tenth of that, on a store with the latency of S3 a
third of a second. So what names leaders waits for it, `HOLD_S` at most: later requests of the same
connection wait behind it.
The same for "not leader" of a partition that has ended here and has no other leader yet, that is to
be led here and has not begun, or whose leader is dead as far as is known here: another broker may
know the next leader already, which is this one, and has sent the client here.

A broker learns of a death up to some milliseconds after that client. So each question who leads is
answered when every other broker has answered one that was asked later: it lived then.

All that wait share one look at the partitions, every `LOOK_S`. While all is well there is none, and
a broker that flaps holds nothing: a connection that ends soon after it was made is no sign of
death.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from logstore.epoch.late_tasks import start_unless_ended
from logstore.formats.partition_row import PartitionRow

HOLD_S = 1.2
WINDOW_S = 1.5
"""After a death: later, a leader that is missing is missing for another reason."""
LOOK_S = 0.01
FORGOTTEN_S = 30.0
"""After so long the same partition may be handed over again."""


class LedTopic(Protocol):
    @property
    def rows(self) -> Sequence[PartitionRow]: ...

    @property
    def leaders(self) -> Mapping[int, "LeaderHere"]: ...

    @property
    def is_deleted(self) -> bool: ...


class LeaderHere(Protocol):
    @property
    def is_released(self) -> bool: ...


class LeaderLog(Protocol):
    """`logstore.epoch.log.Log` is one."""

    @property
    def topics(self) -> Mapping[str, LedTopic]: ...

    @property
    def epoch(self) -> int: ...

    def live_brokers(self) -> Collection[int]: ...

    def on_death(self, callback: Callable[[], None]) -> None: ...


class _LastingMove(NamedTuple):
    """A partition whose row names this broker, which does not lead it now, or a dead one."""

    topic: LedTopic
    partition: int
    until_s: float
    """After that it holds no answer: it lasts for another reason."""


class OtherBrokers(Protocol):
    """`broker.cluster.peers.TcpPeers` is one."""

    @property
    def has_any(self) -> bool: ...

    def look(self) -> None:
        """Call `LeaderSettling.lost` for connections that have ended and were not noticed."""
        ...

    async def confirm(self) -> None:
        """Return when each has answered since the call, or is known not to; in bounded time."""
        ...


class NoOthers:
    """This broker is the only one, as far as connections show."""

    has_any = False

    def look(self) -> None:
        """There is none."""

    async def confirm(self) -> None:
        """There is none."""


class LeaderSettling:
    def __init__(self, log: LeaderLog, tasks: asyncio.TaskGroup) -> None:
        self._log = log
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._lost: set[int] = set()
        """Brokers whose connection has ended, and that may be dead."""
        self._moves: dict[tuple[int, int], _LastingMove] = {}
        """By the topic's identity and the partition."""
        self._settled: asyncio.Future[None] | None = None
        self._until_s = 0.0
        self.others: OtherBrokers = NoOthers()
        log.on_death(self._begin)

    def is_settled(self) -> bool:
        """Whether all leaders are alive, and no other broker is to be asked whether it is."""
        return self._settled is None and not self.others.has_any

    async def wait(self) -> None:
        """Return when all leaders have shown that they are alive, or some 300 ms later."""
        self.others.look()
        if self._settled is None:
            await self.others.confirm()
            self.others.look()
        if self._settled is not None:
            await asyncio.wait([self._settled], timeout=HOLD_S)

    def lost(self, broker: int) -> None:
        """A connection to a broker, which held for a while, has ended."""
        self._lost.add(broker)
        self._begin()

    @property
    def has_moves(self) -> bool:
        """Whether a partition was just noted as `moving`."""
        return bool(self._moves) and self._waits_for_moves()

    def moving(self, topic: LedTopic, partition: int) -> None:
        """A client is sent away from a partition that is not led here."""
        if not self._is_moving(topic, partition):
            return
        key, now_s = (id(topic), partition), self._loop.time()
        known = self._moves.get(key)
        if known is None or now_s - known.until_s > FORGOTTEN_S:
            self._moves[key] = _LastingMove(topic, partition, now_s + WINDOW_S)
            self._begin()

    def _is_moving(self, topic: LedTopic, partition: int) -> bool:
        leader = topic.leaders.get(partition)
        if topic.is_deleted or (leader is not None and not leader.is_released):
            return False
        row = topic.rows[partition]
        return row.chain == self._log.epoch or not self._is_trusted(row.broker)

    def _is_trusted(self, broker: int) -> bool:
        return broker not in self._lost and broker in self._log.live_brokers()

    def _waits_for_moves(self) -> bool:
        now_s = self._loop.time()
        return any(one.until_s > now_s for one in self._moves.values())

    def back(self, broker: int) -> None:
        """The broker was reached again: it lives."""
        self._lost.discard(broker)

    def _begin(self) -> None:
        self._until_s = self._loop.time() + WINDOW_S
        if self._settled is None:
            self._settled = self._loop.create_future()
            if not start_unless_ended(self._tasks, self._run(self._settled)):
                self._end()

    async def _run(self, settled: "asyncio.Future[None]") -> None:
        try:
            while self._loop.time() < self._until_s and self._is_open():
                await asyncio.wait([settled], timeout=LOOK_S)
        finally:
            self._end()

    def _is_open(self) -> bool:
        """Whether a partition is led by a broker that is dead, or may be."""
        for key, one in tuple(self._moves.items()):
            if not self._is_moving(one.topic, one.partition):
                del self._moves[key]
        if self._waits_for_moves():
            return True
        trusted = frozenset(self._log.live_brokers()) - self._lost
        leaders = {row.broker for topic in self._log.topics.values() for row in topic.rows}
        return not leaders <= trusted

    def _end(self) -> None:
        self._lost.clear()
        settled, self._settled = self._settled, None
        if settled is not None and not settled.done():
            settled.set_result(None)
