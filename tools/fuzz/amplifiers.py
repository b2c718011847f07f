"""Few bytes that ask for much work: counts, repeats, inflation, names, time-outs, connections.

An act follows from its `random.Random` and is hostile to one broker; `scale` makes its counts and
times smaller. What the broker answers is read and thrown away, or not read at all.
"""

import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

from benchmarks.largest_requests import WIDE, largest, of_size, paths
from logstore.ports.clock import blocking_sleep_s
from logstore.records.batch import CODECS
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.framing.apis import encode_request_frame
from logstore.wire.messages.api_versions import ApiVersionsRequest
from logstore.wire.messages.create_topics import CreateTopicsRequest
from logstore.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from logstore.wire.messages.find_coordinator import FindCoordinatorRequest
from logstore.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tools.full_wire import APIS
from tools.fuzz.frames import RARE

COMPACTED = "compacted"
"""A topic whose records must have keys, so that they are looked into."""
LONGEST_MS = 2**31 - 1
ANSWER_S, HELD_S, CONNECT_S = 60.0, 5.0, 10.0
WRITTEN_MAX = 200
"""Items of requests that make topics or partitions."""
ZEROS, RECORDS, HEADERS = 60 << 20, 100_000, 100_000
POLLS, HALF_OPEN, SLOW, PIPELINED, IDLE, CHURNED = 100, 1_000, 200, 5_000, 1_500, 2_000
READERS, UNREAD = 20, 300
NAME_CHARS, NAMES = 32_000, 30
ANNOUNCED = struct.pack(">ihh", 100 << 20, 0, 9)
"""The first bytes of a Produce of 100 MiB."""
PACKED = [codec for codec in CODECS if codec != "none"]
_SIZE = struct.Struct(">i")
_READ_BYTES = 1 << 16
_PATHS = tuple(paths())


class Attack(NamedTuple):
    address: tuple[str, int]
    rng: random.Random
    scale: float

    def count(self, most: int) -> int:
        return max(1, int(most * self.scale * self.rng.uniform(0.5, 1.0)))

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, CONNECT_S)

    def hold(self) -> None:
        blocking_sleep_s(HELD_S * self.scale)


Act = Callable[[Attack], None]


def many_items(attack: Attack) -> None:
    """Any array of any request, up to its limit."""
    key, path = attack.rng.choice(_PATHS)
    count = attack.count(largest(key, path).item_count)
    _ask(attack, of_size(key, path, min(count, WRITTEN_MAX) if key in RARE else count).frame())


def repeats(attack: Attack) -> None:
    """The same with one item, as often."""
    key, path = attack.rng.choice(_PATHS)
    one = of_size(key, path, 1)
    owner, *names = one.request, *path.split(".")
    for name in names[:-1]:
        owner = getattr(owner, name)[0]
    items = getattr(owner, names[-1])
    items *= attack.count(largest(key, path).item_count)
    _ask(attack, one.frame())


def inflation(attack: Attack) -> None:
    """A batch of few bytes with one large record, many records, or many headers."""
    codec = attack.rng.choice(PACKED)
    kind = attack.rng.choice(("value", "records", "headers"))
    value = bytes(attack.count(ZEROS)) if kind == "value" else b""
    headers = [("", b"")] * (attack.count(HEADERS) if kind == "headers" else 0)
    count = attack.count(RECORDS) if kind == "records" else 1
    records = [Record(n, 1_790_000_000_000, b"k", value, headers) for n in range(count)]
    _ask(attack, _produce(encode_batch(records, compression=codec)))


def long_names(attack: Attack) -> None:
    name = "x" * attack.count(NAME_CHARS)
    metadata = MetadataRequest([MetadataRequestTopic(name=name + str(n)) for n in range(NAMES)])
    protocol = JoinGroupRequestProtocol(name, bytes(attack.count(900_000)))
    join = JoinGroupRequest(name, 30_000, 30_000, "", None, "consumer", [protocol])
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=[name] * NAMES)
    key, version, request = attack.rng.choice(((3, 12, metadata), (11, 5, join), (10, 4, find)))
    _ask(attack, _frame(key, version, request, name))


def time_outs(attack: Attack) -> None:
    """Requests that may wait for weeks, on connections that end in the meantime."""
    poll = FetchRequest(
        -1,
        LONGEST_MS,
        LONGEST_MS,
        LONGEST_MS,
        topics=[FetchTopic(WIDE, partitions=[FetchPartition(n) for n in range(100)])],
    )
    join = JoinGroupRequest("waits", 1_800_000, LONGEST_MS, "", None, "consumer", [])
    join.protocols = [JoinGroupRequestProtocol("range", b"")]
    check = CreateTopicsRequest([], LONGEST_MS, True)
    frames = [_frame(1, 4, poll), _frame(11, 0, join), _frame(19, 4, check)]
    with _connections(attack, attack.count(POLLS)) as some:
        for one in some:
            _send(one, attack.rng.choice(frames))
        attack.hold()
        for one in some[::2]:  # no FIN, as from a host that was cut off
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def half_open(attack: Attack) -> None:
    """Large requests are announced, and never come."""
    with _connections(attack, attack.count(HALF_OPEN)) as some:
        for one in some:
            _send(one, ANNOUNCED)
        attack.hold()


def slow(attack: Attack) -> None:
    """A byte now and then on each connection."""
    frame = _frame(3, 12, MetadataRequest(None))
    with _connections(attack, attack.count(SLOW)) as some:
        for byte in frame[: max(2, int(len(frame) * attack.scale))]:
            for one in some:
                _send(one, bytes([byte]))
            blocking_sleep_s(attack.scale * HELD_S / len(frame))


def pipelining(attack: Attack) -> None:
    """Thousands of requests at once, whose answers are read when all are sent, or never."""
    described = DescribeConfigsRequest([DescribeConfigsResource(2, WIDE, None)])
    frame = attack.rng.choice(
        (
            _frame(18, 3, ApiVersionsRequest("fuzz", "1")),
            _frame(3, 12, MetadataRequest(None)),
            _frame(32, 4, described),
            _frame(1, 4, _fetch()),
        )
    )
    count = attack.count(PIPELINED)
    with _connections(attack, 1) as some:
        for one in some:
            sending = threading.Thread(target=_send, args=(one, frame * count), daemon=True)
            sending.start()
            if attack.rng.random() < 0.5:
                _skip_answers(one, count)
            attack.hold()
            one.shutdown(socket.SHUT_RDWR)
            sending.join(ANSWER_S)


def idle_connections(attack: Attack) -> None:
    with _connections(attack, attack.count(IDLE)):
        attack.hold()


def connections_that_end(attack: Attack) -> None:
    for _ in range(attack.count(CHURNED)):
        with suppress(OSError):
            attack.connect().close()


def unread_answers(attack: Attack) -> None:
    """Records are asked for and not read."""
    frame = _frame(1, 4, _fetch())
    with _connections(attack, attack.count(READERS)) as some:
        for one in some:
            _send(one, frame * attack.count(UNREAD))
        attack.hold()


ACTS: Mapping[str, Act] = {
    act.__name__: act
    for act in (
        many_items,
        repeats,
        inflation,
        long_names,
        time_outs,
        half_open,
        slow,
        pipelining,
        idle_connections,
        connections_that_end,
        unread_answers,
    )
}


def _fetch() -> FetchRequest:
    topics = [FetchTopic(COMPACTED, partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])]
    return FetchRequest(-1, 0, 0, 1 << 20, topics=topics)


def _produce(batch: bytes) -> bytes:
    data = [TopicProduceData(COMPACTED, partition_data=[PartitionProduceData(0, batch)])]
    return _frame(0, 9, ProduceRequest(None, -1, LONGEST_MS, data))


def _frame(key: int, version: int, request: Any, client_id: str = "fuzz") -> bytes:
    return b"".join(encode_request_frame(1, APIS[key], version, client_id, request))


def _ask(attack: Attack, frame: bytes) -> None:
    with suppress(OSError), attack.connect() as one:
        one.settimeout(ANSWER_S)
        _send(one, frame)
        _skip_answers(one, 1)


@contextmanager
def _connections(attack: Attack, count: int) -> Iterator[Sequence[socket.socket]]:
    """As many as the broker lets in."""
    with ExitStack() as stack:
        some = []
        for _ in range(count):
            with suppress(OSError):
                some.append(stack.enter_context(attack.connect()))
        yield some


def _send(one: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        one.sendall(data)


def _skip_answers(one: socket.socket, count: int) -> None:
    """Up to `count`, or as many as come before the broker hangs up."""
    with suppress(OSError):
        for _ in range(count):
            head = one.recv(_SIZE.size, socket.MSG_WAITALL)
            left = _SIZE.unpack(head)[0] if len(head) == _SIZE.size else 0
            if not head:
                return
            while left and (part := one.recv(min(left, _READ_BYTES))):
                left -= len(part)
