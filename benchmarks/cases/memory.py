"""Memory of a log that lives for long, and of a broker whose consumers do not read: it stays flat.

    days            a leader and its follower, a process each, on one directory and its SQLite file,
                    with a wall clock that is put forward: 30 new producers a minute on 10
                    partitions, a topic made and deleted every ten minutes, log starts raised and
                    chains trimmed every hour, the registry away for ten minutes every six hours (of
                    the first six hours from minute 20 on). Producers stay for a day: the first day
                    grows. RSS is that of each process: it holds no store
    slow consumers  a broker process on a directory, 60 consumers that ask at other places of the
                    log and do not read the answers while 3 GB are produced, and then go

`--scale` is days / 3, and for the slow consumers the bytes. RSS is shown after 10, 20, 40 and 60
minutes, and then each half day.
"""

import asyncio
import gc
import json
import random
import socket
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import psutil

from benchmarks.contenders import Contenders, on_servers
from benchmarks.load import new_topic
from benchmarks.options import Options
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server
from broker.process.collector import Collector, thresholds
from logstore.epoch.log import Log, LogSettings, Topic
from logstore.epoch.writer import ChainLimits
from logstore.errors import Invalid, Retryable
from logstore.formats.chain_state import EpochRange
from logstore.ports.clock import SystemClock
from logstore.ports.registry import Condition, Row
from logstore.protocol.deletion.believed_time import BelievedTime
from logstore.protocol.deletion.records_deletion import Raise, raise_log_start
from logstore.protocol.deletion.trimming import Trimmer, only
from logstore.protocol.leading.start import BrokerInfo
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import outcome_of
from logstore.stores.backends import EMBEDDED_REGISTRY, Backends
from logstore.stores.location import parse_location
from logstore.wire.framing.apis import encode_request_frame
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from logstore.wiring.open import open_log
from tools.full_wire import APIS, Connection

DAYS, PARTITIONS, PRODUCERS_A_MINUTE = 3, 10, 30
LEADER, FOLLOWER = 1, 2
AWAY_FROM, FIRST_SHOWN = 20, (10, 20, 40, 60)
DAY_MINUTES, HOUR_MINUTES, AWAY_EVERY_MINUTES, MINUTE_MS = 1440, 60, 360, 60_000
WAIT_S = 60.0
CONSUMERS, BATCH_BYTES, BATCHES = 60, 900_000, 3_600
SETTLE_S = 4.0


def contenders(options: Options) -> Contenders:
    slow = on_servers({"slow consumers": partial(start_logstore)}, _slow, options)
    return {"days": partial(_days, DAYS * options.scale), **slow}


# Days


class _Clock(SystemClock):
    """Clocks on which time passes without a wait."""

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

    async def update_if(self, pk: str, sk: str, sets: Row, *conditions: Condition) -> None:
        self._check()
        await super().update_if(pk, sk, sets, *conditions)


@dataclass(slots=True)
class _World:
    clock: _Clock
    registry: _Registry
    leader: Log
    follower: "_Follower"
    topic: Topic
    producer_count: int = 0


def _days(days: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_play(days, f"{folder}/log"))


async def _play(days: float, url: str) -> dict[str, float]:
    figures: dict[str, float] = {}
    async with _world(url) as world:
        trimmer = Trimmer(world.leader.cluster_id, grace_ms=1)
        for minute in range(1, round(days * DAY_MINUTES) + 1):
            await _one_minute(world, minute)
            if minute % HOUR_MINUTES == 0:
                await _one_hour(world, trimmer)
            if minute in FIRST_SHOWN or minute % (DAY_MINUTES // 2) == 0:
                figures |= await _figures_of(world, f"{minute / HOUR_MINUTES:.2g} h")
    return figures


async def _one_minute(world: _World, minute: int) -> None:
    log, away = world.leader, minute % AWAY_EVERY_MINUTES
    world.clock.later_ms += MINUTE_MS
    world.registry.is_away = AWAY_FROM <= away < AWAY_FROM + 10
    await world.follower.pass_to(world.clock.later_ms, is_away=world.registry.is_away)
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
    await world.follower.reach(_watermarks(topic))
    for number, leader in topic.leaders.items():
        wanted = Raise(
            topic.topic_id, number, log.epoch, leader.leader_epoch, leader.high_watermark
        )
        await log.runner.run(raise_log_start(wanted))
    # The wall clock runs ahead of all others here: each pass asks the store for the time again.
    runner = replace(log.runner, believed=BelievedTime())
    for _ in range(2):
        await outcome_of(runner.run(trimmer.steps(only(log.epoch))))
        await asyncio.sleep(0.01)
    await log.forget_ended()


async def _figures_of(world: _World, after: str) -> dict[str, float]:
    chain = world.leader.writer.chain
    await world.follower.reach(_watermarks(world.topic))
    followed = await world.follower.figures()
    return {
        f"{after}: leader RSS MB": psutil.Process().memory_info().rss / 1e6,
        f"{after}: follower RSS MB": followed["rss_bytes"] / 1e6,
        f"{after}: producers led": _producers(chain.epoch_ranges.values()),
        f"{after}: producers followed": followed["producers"],
        f"{after}: stretches": len(chain.epoch_ranges),
        f"{after}: checkpoints listed": len(chain.checkpoints),
    }


def _watermarks(topic: Topic) -> int:
    return sum(leader.high_watermark for leader in topic.leaders.values())


def _producers(epoch_ranges: Iterable[EpochRange]) -> int:
    return sum(len(one.state.producers) for one in epoch_ranges)


@asynccontextmanager
async def _world(url: str) -> AsyncIterator[_World]:
    async with _life(url, LEADER) as (clock, registry, one), _follower(url) as follower:
        await _until(lambda: len(one.live_brokers()) == 2)
        topic = await one.create_topic(
            "orders", PARTITIONS, {}, replicas=2, assignments=[(LEADER, FOLLOWER)] * PARTITIONS
        )
        yield _World(clock, registry, one, follower, topic)


@asynccontextmanager
async def _life(url: str, broker: int) -> AsyncIterator[tuple[_Clock, _Registry, Log]]:
    """One broker on the log at `url`, with its clock and registry."""
    clock, rng = _Clock(), random.Random(broker)
    opened = await open_log(url, clock=clock, rng=rng)
    rows = Backends(parse_location(url)).rows(EMBEDDED_REGISTRY, "create")
    registry = _Registry(rows, lambda: f"{rng.getrandbits(64):016x}", clock, rng)
    opened = replace(opened, runner=replace(opened.runner, registry=registry))
    me = BrokerInfo(broker, "localhost", 9091 + broker, "", f"the lock of {broker}")
    settings = LogSettings(limits=ChainLimits(checkpoint_segments=64))
    Collector().collect_everything(0.0)
    gc.set_threshold(*thresholds())
    try:
        async with asyncio.TaskGroup() as tasks:
            yield clock, registry, await Log.start(opened, me, settings, tasks)
            raise _Over
    except* _Over:
        pass


class _Follower:
    """A broker in a process of its own, asked by lines: `pass`, `reach`, `figures`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def pass_to(self, later_ms: int, *, is_away: bool) -> None:
        await self._ask("pass", later_ms, is_away)

    async def reach(self, watermarks: int) -> None:
        await self._ask("reach", watermarks)

    async def figures(self) -> dict[str, float]:
        found: dict[str, float] = await self._ask("figures")
        return found

    async def _ask(self, *words: object) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        async with asyncio.timeout(WAIT_S):
            return json.loads(await self._process.stdout.readline())


@asynccontextmanager
async def _follower(url: str) -> AsyncIterator[_Follower]:
    command = [sys.executable, "-m", "benchmarks.cases.memory", url]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    try:
        yield _Follower(process)
    finally:
        process.kill()
        await process.wait()


async def _follow(url: str) -> None:
    """The follower's process: answers a line for each line until there are no more."""
    async with _life(url, FOLLOWER) as (clock, registry, log):
        while line := await asyncio.to_thread(sys.stdin.readline):
            answer: object = None
            match json.loads(line):
                case ["pass", later_ms, is_away]:
                    clock.later_ms, registry.is_away = later_ms, is_away
                case ["reach", watermarks]:
                    await _until(partial(_has_reached, log, watermarks))
                case ["figures"]:
                    answer = {
                        "rss_bytes": psutil.Process().memory_info().rss,
                        "producers": _producers(_followed(log)),
                    }
                case unknown:
                    raise Invalid(f"no such command: {unknown}")
            print(json.dumps(answer), flush=True)


def _has_reached(log: Log, watermarks: int) -> bool:
    topic = log.topics.get("orders")
    followers = () if topic is None else topic.followers.values()
    return sum(one.high_watermark for one in followers) == watermarks


def _followed(log: Log) -> Iterable[EpochRange]:
    for row in log.topics["orders"].rows[:1]:
        chain = log.followed_chain(row.chain)
        if chain is not None:
            yield from chain.epoch_ranges.values()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - nothing tells of all these
            await asyncio.sleep(0.001)


class _Over(Exception):
    """Ends a broker where it stands."""


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


if __name__ == "__main__":
    asyncio.run(_follow(sys.argv[1]))
