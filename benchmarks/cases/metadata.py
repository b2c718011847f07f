"""Metadata of all topics, 10,000 partitions: CPU milliseconds of the broker for one answer.

`known` is asked again and again in one version; `first` in each other version for the first time,
so nothing that was encoded before helps. CPU time of all threads of the process, by the scheduler's
own count, between the request and the last byte of its answer.
"""

import socket
import struct

import psutil

from benchmarks.contenders import Contenders, beside_kafka
from benchmarks.cpu import cpu_ms
from benchmarks.load import new_topic
from benchmarks.options import Options
from benchmarks.peers.server import Server
from logstore.wire.framing.apis import encode_request_frame
from logstore.wire.messages.metadata import MetadataRequest
from tools.full_wire import APIS

PARTITIONS, TOPICS = 10_000, 10
VERSION, ASKED = 12, 200
OTHER_VERSIONS = tuple(range(1, VERSION))
TIMEOUT_S = 30.0
_SIZE = struct.Struct(">i")


def contenders(options: Options) -> Contenders:
    return beside_kafka(_run, options)


def _run(server: Server, options: Options) -> dict[str, float]:
    partitions = max(1, int(PARTITIONS * options.scale) // TOPICS)
    for _ in range(TOPICS):
        new_topic(server.bootstrap, partitions=partitions)
    host, _, port = server.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as sock:
        size = _ask(sock, VERSION)
        for _ in range(ASKED):
            _ask(sock, VERSION)
        (process,) = server.processes
        known = sorted(_spent_ms(process, sock, VERSION) for _ in range(ASKED))
        first = sorted(_spent_ms(process, sock, version) for version in OTHER_VERSIONS)
    return {
        "answer KB": size / 1000,
        "known: p50 CPU ms": known[ASKED // 2],
        "known: p99 CPU ms": known[ASKED * 99 // 100],
        "first: p50 CPU ms": first[len(first) // 2],
        "first: largest CPU ms": first[-1],
    }


def _spent_ms(process: psutil.Process, sock: socket.socket, version: int) -> float:
    before_ms = cpu_ms(process)
    _ask(sock, version)
    return cpu_ms(process) - before_ms


def _ask(sock: socket.socket, version: int) -> int:
    """Size of the answer."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    sock.sendall(b"".join(encode_request_frame(1, APIS[3], version, "bench", request)))
    (size,) = _SIZE.unpack(_receive(sock, _SIZE.size))
    _receive(sock, size)
    return int(size)


def _receive(sock: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = sock.recv(size - len(received))
        assert part, "the broker closed the connection"
        received += part
    return bytes(received)
