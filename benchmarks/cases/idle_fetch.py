"""Fetches of 1,000 and 10,000 partitions that have nothing new: CPU milliseconds of the broker.

`idle` is a Fetch that does not wait. `woken` is the rest of one that waits, from a Produce of one
record to both answers. The client asks for a fetch session (KIP-227); where it gets one, its later
requests name no partitions. CPU time of all threads of the process, by the scheduler's own count.
"""

import socket
import statistics
import struct
import time
from typing import Any

import psutil

from benchmarks.contenders import Contenders, beside_kafka
from benchmarks.cpu import cpu_ms
from benchmarks.load import new_topic
from benchmarks.options import Options
from benchmarks.peers.server import Server
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.framing.apis import decode_response_header, encode_request_frame
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tools.full_wire import APIS

SIZES = (1_000, 10_000)
ASKED, WOKEN = 50, 10
WAIT_MS, HELD_S = 10_000, 0.3
PRODUCE, FETCH = (0, 9), (1, 12)
TIMEOUT_S = 30.0
_SIZE = struct.Struct(">i")


def contenders(options: Options) -> Contenders:
    return beside_kafka(_run, options)


def _run(server: Server, options: Options) -> dict[str, float]:
    figures: dict[str, float] = {}
    for size in SIZES:
        count = max(2, int(size * options.scale))
        topic = new_topic(server.bootstrap, partitions=count)
        idle, woken = _measure(server, topic, count)
        figures[f"{size:,} partitions: idle CPU ms"] = idle
        figures[f"{size:,} partitions: woken CPU ms"] = woken
    return figures


def _measure(server: Server, topic: str, count: int) -> tuple[float, float]:
    (process,) = server.processes
    with _Consumer(server.bootstrap, topic, count) as consumer:
        consumer.poll(0)  # it begins the session
        idle = [_spent_ms(process, consumer) for _ in range(ASKED)]
    woken = [_woken_ms(server, topic, count, number) for number in range(WOKEN)]
    return statistics.median(idle), statistics.median(woken)


def _spent_ms(process: psutil.Process, consumer: "_Consumer") -> float:
    before_ms = cpu_ms(process)
    consumer.poll(0)
    return cpu_ms(process) - before_ms


def _woken_ms(server: Server, topic: str, count: int, written: int) -> float:
    (process,), bootstrap = server.processes, server.bootstrap
    batch = encode_batch([Record(0, 1_700_000_000_000, None, b"x")])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(count // 2, batch)])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    with _Consumer(bootstrap, topic, count, written) as consumer, _connect(bootstrap) as producer:
        consumer.poll(0)
        consumer.send(WAIT_MS)
        time.sleep(HELD_S)
        before_ms = cpu_ms(process)
        _send(producer, PRODUCE, request)
        _receive(producer)
        consumer.receive()
        return cpu_ms(process) - before_ms


class _Consumer:
    """At the ends of all partitions, in a session if the server grants one."""

    def __init__(self, bootstrap: str, topic: str, count: int, written: int = 0) -> None:
        """`written` records are in the partition in the middle."""
        self._sock = _connect(bootstrap)
        self._session_id = self._epoch = 0
        ends = [FetchPartition(number, partition_max_bytes=1 << 20) for number in range(count)]
        ends[count // 2].fetch_offset = written
        self._everything = [FetchTopic(topic, partitions=ends)]

    def __enter__(self) -> "_Consumer":
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def poll(self, wait_ms: int) -> None:
        self.send(wait_ms)
        self.receive()

    def send(self, wait_ms: int) -> None:
        request = FetchRequest(-1, wait_ms, 1, 1 << 20)
        request.session_id, request.session_epoch = self._session_id, self._epoch
        request.topics = [] if self._session_id else self._everything
        _send(self._sock, FETCH, request)

    def receive(self) -> None:
        key, version = FETCH
        frame = memoryview(_receive(self._sock))
        if self._session_id:
            self._epoch += 1
        elif not self._epoch:
            _, at = decode_response_header(frame, APIS[key], version)
            self._session_id = APIS[key].decode_response(version, frame, at).session_id
            self._epoch = 1 if self._session_id else 0


def _connect(bootstrap: str) -> socket.socket:
    host, _, port = bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def _send(sock: socket.socket, api: tuple[int, int], request: Any) -> None:
    key, version = api
    sock.sendall(b"".join(encode_request_frame(1, APIS[key], version, "bench", request)))


def _receive(sock: socket.socket) -> bytes:
    (size,) = _SIZE.unpack(_exactly(sock, _SIZE.size))
    return _exactly(sock, int(size))


def _exactly(sock: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = sock.recv(size - len(received))
        assert part, "the broker closed the connection"
        received += part
    return bytes(received)
