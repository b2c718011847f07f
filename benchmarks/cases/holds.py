"""How long the largest requests hold the event loop that serves clients and renews the lease.

For each array of each API that is served, a request with that array at its limit
(`benchmarks.largest_requests`), one after the other to one broker on a directory: CPU time of the
longest callback of its loop until the answer has come. A broker's goal is 20 ms
(`broker.network.loop_holds`). `--load Produce` takes the requests whose name begins so.
"""

import random
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from benchmarks.contenders import Contenders, on_servers
from benchmarks.largest_requests import (
    KNOWN,
    WIDE,
    WIDE_PARTITIONS,
    Largest,
    largest,
    paths,
    produce_of,
)
from benchmarks.options import Options
from benchmarks.peers.holds import longest_hold
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server
from logstore.records.batch import CODECS, Codec
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tools.full_wire import APIS, Connection

CREATE_TOPICS = 19
ANSWER_S = 300.0
IDLE_S = 15.0
"""Long enough for a look at all rows."""
PACKED = ("gzip", "lz4", "zstd", "uncompressed")
"""Topics with this compression.type, each of `PACKED_PARTITIONS`."""
PACKED_PARTITIONS = 10
_SIZE = struct.Struct(">i")


def contenders(options: Options) -> Contenders:
    return on_servers({"logstore": partial(start_logstore, is_held=True)}, _run, options)


def requests() -> Iterator[tuple[str, Callable[[], Largest]]]:
    """By name; made when they are sent."""
    for size in (1, 100, 10_000):
        for codec in CODECS:
            batch = _batch(codec, size)
            name = f"Produce batches of {size} B, {codec}"
            yield name, partial(produce_of, batch, WIDE, WIDE_PARTITIONS)
        for target in PACKED:
            batch = _batch("zstd" if target == "uncompressed" else "none", size)
            name = f"Produce batches of {size} B to {target}"
            yield name, partial(produce_of, batch, target, PACKED_PARTITIONS)
    for key, path in paths():
        request = partial(largest, key, path)
        yield f"{_api_name(key)} {path}", request


def _run(server: Server, options: Options) -> Mapping[str, float]:
    host, _, port = server.bootstrap.rpartition(":")
    longest_hold(server)
    _create(host, int(port))
    figures = {"creation of the topics: ms": longest_hold(server).ms}
    time.sleep(IDLE_S)
    longest_hold(server)
    time.sleep(IDLE_S)
    idle = longest_hold(server)
    print(f"idle: {idle}", file=sys.stderr)
    figures["nothing asked: ms"] = idle.ms
    for name, make in requests():
        if not name.startswith(options.load):
            continue
        request = make()
        frame = request.frame()
        longest_hold(server)
        answer_bytes = _ask((host, int(port)), frame)
        hold = longest_hold(server)
        print(
            f"{name}: items={request.item_count} bytes={len(frame)} answer={answer_bytes} "
            f"ms={hold.ms:.1f} collector={hold.collector_ms:.1f} {hold.what}",
            file=sys.stderr,
        )
        figures[f"{name}, {request.item_count}: ms"] = hold.ms
    return figures


def _create(host: str, port: int) -> None:
    wide = [CreatableTopic(WIDE, WIDE_PARTITIONS, 1)]
    known = [CreatableTopic(f"known-{number:06}", 1, 1) for number in range(KNOWN)]
    for codec in PACKED:
        config = CreatableTopicConfig("compression.type", codec)
        known.append(CreatableTopic(codec, PACKED_PARTITIONS, 1, configs=[config]))
    with Connection.open(host, port, ANSWER_S) as client:
        for topics in (known, wide):
            client.call(CREATE_TOPICS, CreateTopicsRequest(topics, 100_000), 7)


def _batch(codec: Codec, size: int) -> bytes:
    value = random.Random(size).randbytes(size)
    return encode_batch([Record(0, 1_790_000_000_000, b"k", value)], compression=codec)


def _ask(address: tuple[str, int], frame: bytes) -> int:
    """Bytes of the answer; 0 where the broker hung up."""
    with socket.create_connection(address, ANSWER_S) as sock:
        sock.sendall(frame)
        head = sock.recv(_SIZE.size, socket.MSG_WAITALL)
        if len(head) < _SIZE.size:
            return 0
        (size,) = _SIZE.unpack(head)
        left = size
        while left and (part := sock.recv(min(left, 1 << 20))):
            left -= len(part)
        return int(size)


def _api_name(key: int) -> str:
    return APIS[key].name
