"""Memory of a log that lives for long, and of a broker whose consumers do not read: it stays flat.

    days            a leader and its follower in this process, a wall clock that is put forward: 30
                    new producers a minute on 10 partitions, a topic made and deleted every ten
                    minutes, log starts raised and chains trimmed every hour, the registry away for
                    ten minutes every six hours. Producers stay for a day: the first day grows. The
                    store is in this process too: RSS has all objects that are not deleted
    slow consumers  a broker process on a directory, 60 consumers that ask at other places of the
                    log and do not read the answers while 3 GB are produced, and then go

`--scale` is days / 3, and for the slow consumers the bytes.
"""

import asyncio
import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psutil

from benchmarks.contenders import Contenders, on_servers
from benchmarks.load import new_topic
from benchmarks.options import Options
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server
from logstore.believed_time import BelievedTime
from logstore.chains.identity import ensure_identity
from logstore.chains.replay import Stretch
from logstore.chains.writer import ChainLimits
from logstore.clock import SystemClock
from logstore.errors import Retryable
from logstore.location import DirectoryLocation
from logstore.log.log import Log, LogSettings, Topic
from logstore.log.records_deletion import Raise, raise_log_start
from logstore.log.start import Self
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.objects.metered import StoreCounts
from logstore.perform import Performer, outcome_of
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.registry.store import Row, Term
from logstore.trimming import Trimmer, only
from logstore.wire.apis import encode_request_frame
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from logstore.wiring import OpenLog
from tools.full_wire import APIS, Connection

DAYS, PARTITIONS, PRODUCERS_A_MINUTE = 3, 10, 30
DAY_MINUTES, HOUR_MINUTES, AWAY_EVERY_MINUTES, MINUTE_MS = 1440, 60, 360, 60_000
WAIT_S = 60.0
CONSUMERS, BATCH_BYTES, BATCHES = 60, 900_000, 3_600
SETTLE_S = 4.0


def contenders(options: Options) -> Contenders:
    slow = on_servers({"slow consumers": partial(start_logstore)}, _slow, options)
    return {"days": partial(_days, max(1, round(DAYS * options.scale))), **slow}


# Days


class _Clock(SystemClock):
    """Clocks on which time passes for which nobody waits."""

    later_ms = 0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.later_ms / 1000

    def now_ms(self) -> int:
        return super().now_ms() + self.later_ms


class _Registry(RetryingRegistry):
    is_away = False

    def _check(self) -> None:
        if self.is_away:
            raise Retryable("the registry is away")

    async def get(self, pk: str, sk: str) -> Row | None:
        self._check()
        return await super().get(pk, sk)

    async def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        self._check()
        return await super().query(pk, prefix)

    async def update_if(self, pk: str, sk: str, sets: Row, *terms: Term) -> None:
        self._check()
        await super().update_if(pk, sk, sets, *terms)


@dataclass(slots=True)
class _World:
    clock: _Clock
    registry: _Registry
    leader: Log
    follower: Log
    topic: Topic
    producer_count: int = 0


def _days(days: int) -> dict[str, float]:
    return asyncio.run(_play(days))


async def _play(days: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    async with _world() as world:
        trimmer = Trimmer(world.leader.cluster_id, grace_ms=1)
        for minute in range(days * DAY_MINUTES):
            await _one_minute(world, minute)
            if minute % HOUR_MINUTES == HOUR_MINUTES - 1:
                await _one_hour(world, trimmer)
            if minute % DAY_MINUTES == DAY_MINUTES - 1:
                figures |= _figures_of(world, minute // DAY_MINUTES + 1)
    return figures


async def _one_minute(world: _World, minute: int) -> None:
    log, away = world.leader, minute % AWAY_EVERY_MINUTES
    world.clock.later_ms += MINUTE_MS
    world.registry.is_away = 200 <= away < 210
    if away % 10 == 5 and not world.registry.is_away:
        name = f"comes-and-goes-{minute}"
        await log.create_topic(name, 1, {})
        await log.delete_topic(name)
    for number in range(PRODUCERS_A_MINUTE):
        leader = world.topic.leaders[number % PARTITIONS]
        world.producer_count += 1
        data = memoryview(
            encode_batch(
                [Record(0, world.clock.now_ms(), None, b"x" * 100)],
                producer_id=world.producer_count,
                producer_epoch=0,
                base_sequence=0,
            )
        )
        leader.append(data, check_batch(data, 0, len(data)))
    log.writer.flush()
    await _until(lambda: log.writer.committed_end > log.writer.appended_seq)


async def _one_hour(world: _World, trimmer: Trimmer) -> None:
    log, topic = world.leader, world.topic
    followers = world.follower.topics[topic.name].followers
    await _until(
        lambda: all(
            followers[number].high_watermark == leader.high_watermark
            for number, leader in topic.leaders.items()
        )
    )
    for number, leader in topic.leaders.items():
        wanted = Raise(
            topic.topic_id, number, log.epoch, leader.leader_epoch, leader.high_watermark
        )
        await log.performer.run(raise_log_start(wanted))
    # The wall clock runs ahead of all others here: each pass asks the store for the time anew.
    performer = replace(log.performer, believed=BelievedTime())
    for _ in range(2):
        await outcome_of(performer.run(trimmer.steps(only(log.epoch))))
        await asyncio.sleep(0.01)
    await log.forget_ended()


def _figures_of(world: _World, day: int) -> dict[str, float]:
    chain = world.leader.writer.chain
    followed = world.follower.followed_chain(world.leader.epoch)
    assert followed is not None
    return {
        f"day {day}: RSS MB": psutil.Process().memory_info().rss / 1e6,
        f"day {day}: producers led": _producers(chain.stretches.values()),
        f"day {day}: producers followed": _producers(followed.stretches.values()),
        f"day {day}: stretches": len(chain.stretches),
        f"day {day}: checkpoints listed": len(chain.checkpoints),
    }


def _producers(stretches: Iterable[Stretch]) -> int:
    return sum(len(one.state.producers) for one in stretches)


@asynccontextmanager
async def _world() -> AsyncIterator[_World]:
    clock, chance = _Clock(), random.Random(1)
    registry = _Registry(MemoryRows(), lambda: f"{chance.getrandbits(64):016x}", clock, chance)
    performer = Performer(
        MemoryStore(MemoryObjects(clock)), registry, clock, chance, lambda: chance.randbytes(16)
    )
    identity = await performer.run(ensure_identity("memory"))
    opened = OpenLog(DirectoryLocation(Path("/memory")), performer, identity, StoreCounts())
    try:
        async with asyncio.TaskGroup() as tasks:
            settings = LogSettings(limits=ChainLimits(checkpoint_segments=64))
            one, two = [
                await Log.start(
                    opened,
                    Self(broker, "localhost", 9091 + broker, "", f"the lock of {broker}"),
                    settings,
                    tasks,
                )
                for broker in (1, 2)
            ]
            await _until(lambda: len(one.live_brokers()) == len(two.live_brokers()) == 2)
            topic = await one.create_topic(
                "orders", PARTITIONS, {}, replicas=2, assignments=[(1, 2)] * PARTITIONS
            )
            await _until(lambda: topic.name in two.topics)
            yield _World(clock, registry, one, two, topic)
            raise _Over
    except* _Over:
        pass


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - nothing tells of all these
            await asyncio.sleep(0.001)


class _Over(Exception):
    """Ends both brokers where they stand."""


# Slow consumers


def _slow(server: Server, options: Options) -> dict[str, float]:
    host, _, port = server.bootstrap.rpartition(":")
    topic = new_topic(server.bootstrap, partitions=1)
    batch = encode_batch([Record(0, 1_700_000_000_000, None, b"x" * BATCH_BYTES)])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch)])
    produce = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    count = max(CONSUMERS, int(BATCHES * options.scale))
    figures = {"before: RSS MB": server.rss_bytes() / 1e6}
    peak_bytes, slow = 0, list[socket.socket]()
    with Connection.open(host, int(port)) as client:
        client.negotiate()
        for number in range(count):
            client.call(0, produce, 9)
            if number % (count // CONSUMERS) == 0 and len(slow) < CONSUMERS:
                slow.append(_ask(host, int(port), topic, number))
            peak_bytes = max(peak_bytes, server.rss_bytes())
    figures["produced GB"] = count * BATCH_BYTES / 1e9
    figures["most: RSS MB"] = peak_bytes / 1e6
    time.sleep(SETTLE_S)
    figures["with slow consumers: RSS MB"] = server.rss_bytes() / 1e6
    for one in slow:
        one.close()
    time.sleep(SETTLE_S)
    figures["after them: RSS MB"] = server.rss_bytes() / 1e6
    return figures


def _ask(host: str, port: int, topic: str, offset: int) -> socket.socket:
    """A consumer that asks for 16 answers at the tail and reads none."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((host, port))
    request = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=offset)])],
    )
    sock.sendall(b"".join(encode_request_frame(1, APIS[1], 12, "bench", request)) * 16)
    return sock
