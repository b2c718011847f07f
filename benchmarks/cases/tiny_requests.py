"""Tiny Produce requests, pipelined on a few connections: requests per broker CPU-second.

The sender is a plain selector loop with frames encoded beforehand, so that it, not the broker, may
be slow; only the broker's CPU time counts.
"""

import selectors
import socket
import struct
from dataclasses import dataclass, field

from benchmarks.contenders import Contenders, beside_kafka
from benchmarks.load import new_topic
from benchmarks.options import Options
from benchmarks.peers.server import Server
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.framing.apis import encode_request_frame
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tools.full_wire import APIS

CONNECTIONS, DEPTH, REQUESTS = 16, 100, 300_000
VERSION = 9
_SIZE = struct.Struct(">i")


@dataclass(slots=True)
class _Connection:
    sock: socket.socket
    frame: bytes
    received: bytearray = field(default_factory=bytearray)
    answers: int = 0

    def send(self, count: int) -> None:
        self.sock.sendall(self.frame * count)

    def receive(self) -> int:
        """Whole answers that came with this read."""
        self.received += self.sock.recv(1 << 16)
        count, at = 0, 0
        while len(self.received) - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self.received, at)
            if len(self.received) - at < _SIZE.size + size:
                break
            at += _SIZE.size + size
            count += 1
        del self.received[:at]
        return count


def contenders(options: Options) -> Contenders:
    return beside_kafka(run, options)


def run(server: Server, options: Options) -> dict[str, float]:
    host, _, port = server.bootstrap.rpartition(":")
    topic = new_topic(server.bootstrap)
    frames = [_frame(topic, number % 4) for number in range(CONNECTIONS)]
    connections = [
        _Connection(socket.create_connection((host, int(port))), frame) for frame in frames
    ]
    requests = int(REQUESTS * options.scale)
    _drive(connections, requests // 20)
    cpu_s = server.cpu_s()
    _drive(connections, requests)
    cpu_s = server.cpu_s() - cpu_s
    for connection in connections:
        connection.sock.close()
    return {"requests per broker CPU-s": requests / cpu_s}


def _drive(connections: list[_Connection], total: int) -> None:
    sent, answered = 0, 0
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.sock, selectors.EVENT_READ, connection)
            connection.send(DEPTH)
            sent += DEPTH
        while answered < sent:
            for key, _ in selector.select(10):
                count = key.data.receive()
                answered += count
                if sent < total and count:
                    key.data.send(count)
                    sent += count


def _frame(topic: str, partition: int) -> bytes:
    batch = encode_batch([Record(0, 1_700_000_000_000, None, b"x" * 100, ())])
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
    )
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    return b"".join(encode_request_frame(1, APIS[0], VERSION, "bench", request))
