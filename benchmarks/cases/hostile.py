"""One client that asks for as much work as a request may hold, and a healthy client beside it.

A contender is a request, or several on connections of their own; each has a broker of its own on a
directory. The healthy client produces one record after the other. Shown are its longest waits
before and while the hostile one is there, how long that one waited, the broker's largest RSS, and
how often it was fenced. The limits of a broker hold: a frame is at most 1 MiB.
"""

import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.contenders import Contenders, on_servers
from benchmarks.load import new_topic
from benchmarks.options import Options
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.framing.apis import encode_request_frame
from logstore.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from logstore.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from logstore.wire.messages.describe_groups import DescribeGroupsRequest
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from logstore.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logstore.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tools.full_wire import APIS, Connection

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_FETCH = 0, 1, 2, 3, 9
DESCRIBE_GROUPS, CREATE_TOPICS, DESCRIBE_CONFIGS = 15, 19, 32
BEFORE_S, AFTER_S, FIRST_WAITS = 2.0, 3.0, 5
BACKGROUND_S = 20.0
"""How long work that goes on after its answer is watched."""
ANSWER_S = 120.0
POLLS, POLLED, POLLED_TOPICS, POLLS_HELD_S = 100, 35_000, 7, 20.0
TOPICS_BEFORE = 1_000
_SIZE = struct.Struct(">i")

Act = Callable[["Target", float], None]
"""Is hostile to a server; its sizes are multiplied by the number."""


def contenders(options: Options) -> Contenders:
    acts: Mapping[str, Act] = {
        "new names": _new_names,
        "validate topics": _validate_topics,
        "create, no time": _create_without_time,
        "configs": _describe_configs,
        "offsets of groups": _offsets_of_groups,
        "groups": _describe_groups,
        "list offsets": _list_offsets,
        "long polls": _long_polls,
    }
    found: dict[str, Any] = {}
    for name, act in acts.items():
        if name.startswith(options.load):
            found |= on_servers({name: start_logstore}, partial(_run, act), options)
    return found


class Target:
    """A broker under attack; `waits` are those of its healthy client."""

    def __init__(self, server: Server) -> None:
        host, _, port = server.bootstrap.rpartition(":")
        self.address = host, int(port)
        self.topic = new_topic(server.bootstrap, partitions=1)
        self.bootstrap = server.bootstrap
        self.waits: list[float] = []
        self.before_count = 0
        """How many of `waits` were before anything hostile."""

    def begin(self) -> None:
        """The next request is a hostile one; those before only made topics."""
        self.before_count = len(self.waits)

    def connect(self) -> Connection:
        return Connection.open(*self.address, ANSWER_S)

    def ask(self, key: int, version: int, request: Any) -> None:
        """Send one request; return when its answer has come whole, or the broker has hung up."""
        with socket.create_connection(self.address, ANSWER_S) as sock:
            sock.sendall(frame_of(key, version, request))
            left = _SIZE.size
            head = sock.recv(left, socket.MSG_WAITALL)
            if len(head) == left:
                (left,) = _SIZE.unpack(head)
                while left and (part := sock.recv(min(left, 1 << 20))):
                    left -= len(part)


def frame_of(key: int, version: int, request: Any) -> bytes:
    return b"".join(encode_request_frame(1, APIS[key], version, "hostile", request))


def _run(act: Act, server: Server, options: Options) -> Mapping[str, float]:
    target = Target(server)
    prepare = getattr(_Prepared, act.__name__, None)
    if prepare is not None:
        prepare(target, options.scale)
    with healthy_client(target):
        while len(target.waits) < FIRST_WAITS:
            time.sleep(0.1)
        time.sleep(BEFORE_S)
        target.begin()
        began_s = time.monotonic()
        act(target, options.scale)
        took_s = time.monotonic() - began_s
        time.sleep(AFTER_S)
    seen = target.before_count
    (process,) = server.processes
    status = Path(f"/proc/{process.pid}/status").read_text()
    (peak_kb,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    epochs = list((server.directory / "chains").glob("*/*"))
    return {
        "before: longest wait s": max(target.waits[:seen]),
        "during: longest wait s": max(target.waits[seen:], default=0.0),
        "during: acknowledged": len(target.waits) - seen,
        "hostile: s": took_s,
        "most RSS MB": int(peak_kb) / 1e3,
        "fenced": len(epochs) - 1,
    }


@contextmanager
def healthy_client(target: Target) -> Iterator[None]:
    """A client that produces one record after the other until the end."""
    is_over = threading.Event()
    batch = encode_batch([Record(0, 1_700_000_000_000, None, b"x")])
    data = TopicProduceData(name=target.topic, partition_data=[PartitionProduceData(0, batch)])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])

    def produce() -> None:
        with target.connect() as client:
            while not is_over.is_set():
                began_s = time.monotonic()
                client.call(PRODUCE, request, 9)
                target.waits.append(time.monotonic() - began_s)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


class _Prepared:
    """Topics that some of them need, made before the healthy client begins."""

    @staticmethod
    def _new_names(target: Target, scale: float) -> None:
        topics = _topics("known", int(TOPICS_BEFORE * scale))
        with target.connect() as client:
            client.call(CREATE_TOPICS, CreateTopicsRequest(topics, 100_000), 7)

    _validate_topics = _new_names


def _topics(prefix: str, count: int, partitions: int = 1) -> list[CreatableTopic]:
    return [CreatableTopic(f"{prefix}-{number}", partitions, 1) for number in range(count)]


def _new_names(target: Target, scale: float) -> None:
    names = [MetadataRequestTopic(name=f"new_{number}") for number in range(int(20_000 * scale))]
    target.ask(METADATA, 12, MetadataRequest(names, allow_auto_topic_creation=False))


def _validate_topics(target: Target, scale: float) -> None:
    topics = [CreatableTopic(f"n_{number}", 1, 1) for number in range(int(2_000 * scale))]
    target.ask(CREATE_TOPICS, 7, CreateTopicsRequest(topics, 30_000, validate_only=True))


def _create_without_time(target: Target, scale: float) -> None:
    target.ask(CREATE_TOPICS, 7, CreateTopicsRequest(_topics("t", int(5_000 * scale)), 0))
    time.sleep(BACKGROUND_S * scale)


def _describe_configs(target: Target, scale: float) -> None:
    with target.connect() as client:
        topics = _topics("shown", int(2_000 * scale))
        client.call(CREATE_TOPICS, CreateTopicsRequest(topics, 100_000), 7)
    named = [DescribeConfigsResource(2, topic.name, None) for topic in topics]
    time.sleep(1)
    target.begin()
    target.ask(DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(named, include_synonyms=True))


def _offsets_of_groups(target: Target, scale: float) -> None:
    groups = [OffsetFetchRequestGroup(f"g{number}") for number in range(int(60_000 * scale))]
    target.ask(OFFSET_FETCH, 8, OffsetFetchRequest(groups=groups))


def _describe_groups(target: Target, scale: float) -> None:
    groups = [f"g{number}" for number in range(int(90_000 * scale))]
    target.ask(DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups))


def _list_offsets(target: Target, scale: float) -> None:
    some = [ListOffsetsPartition(0, -1, -1) for _ in range(int(60_000 * scale))]
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(target.topic, some)])
    target.ask(LIST_OFFSETS, 6, request)


def _long_polls(target: Target, scale: float) -> None:
    """Each waits for many partitions, and records of the healthy client's topic wake all."""
    count = max(1, int(POLLED * scale) // POLLED_TOPICS)
    topics = [new_topic(target.bootstrap, partitions=count) for _ in range(POLLED_TOPICS)]
    target.begin()
    polled = [FetchPartition(number) for number in range(count)]
    request = FetchRequest(
        -1,
        60_000,
        1 << 20,
        1 << 20,
        topics=[FetchTopic(name, partitions=polled) for name in topics],
    )
    frame = frame_of(FETCH, 4, request)
    with ExitStack() as stack:
        for _ in range(max(1, int(POLLS * scale))):
            sock = stack.enter_context(socket.create_connection(target.address, ANSWER_S))
            sock.sendall(frame)
        with target.connect() as client:
            for _ in range(5):
                time.sleep(POLLS_HELD_S * scale / 5)
                client.call(PRODUCE, _record_for(topics[0]), 9)


def _record_for(topic: str) -> ProduceRequest:
    batch = encode_batch([Record(0, 1_700_000_000_000, None, b"x")])
    data: Sequence[TopicProduceData] = [
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch)])
    ]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=list(data))
