"""One client that has a broker hold as much memory as it can, and a healthy client beside it.

    unfinished produces   400 connections that send 8 MiB of a Produce of 9 MiB, and no more
    slow readers          4 connections that ask 300 times for records that are not in memory, and
                          read none of the answers
    producer ids          120,000 batches, each of a producer of its own, to one partition

As `hostile`. The largest checkpoint and RSS are shown a minute after the hostile client is gone.
`--scale` is that of the counts and of the minute.
"""

import re
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cases.hostile import FETCH, FIRST_WAITS, PRODUCE, Target, frame_of, healthy_client
from benchmarks.contenders import Contenders, on_servers
from benchmarks.options import Options
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server
from logstore.records.crc32c import crc32c
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

UNFINISHED, SENT_BYTES, ANNOUNCED_BYTES = 400, 8 << 20, 9 << 20
READERS, FETCHES, STORED, STORED_BYTES = 4, 300, 400, 900_000
PRODUCERS, IN_FLIGHT = 120_000, 2_000
HELD_S, BEFORE_S, LATER_S = 20.0, 2.0, 60.0
CRC_AT, CRC_FROM, PRODUCER_AT = 17, 21, 43

Act = Callable[[Target, float], None]


def contenders(options: Options) -> Contenders:
    acts: Mapping[str, Act] = {
        "unfinished produces": _unfinished_produces,
        "slow readers": _slow_readers,
        "producer ids": _producer_ids,
    }
    found: dict[str, Any] = {}
    for name, act in acts.items():
        if name.startswith(options.load):
            found |= on_servers({name: start_logstore}, partial(_run, act), options)
    return found


def _run(act: Act, server: Server, options: Options) -> Mapping[str, float]:
    target = Target(server)
    (process,) = server.processes
    if act is _slow_readers:
        _store(target, max(8, int(STORED * options.scale)))
    with healthy_client(target):
        while len(target.waits) < FIRST_WAITS:
            time.sleep(0.1)
        time.sleep(BEFORE_S)
        target.begin()
        before_mb = process.memory_info().rss / 1e6
        act(target, options.scale)
        waits = list(target.waits)
        time.sleep(LATER_S * options.scale)
    status = Path(f"/proc/{process.pid}/status").read_text()
    (peak_kb,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    checkpoints = [path.stat().st_size for path in server.directory.glob("checkpoints/*/*")]
    seen = target.before_count
    return {
        "before: longest wait s": max(waits[:seen], default=0.0),
        "during: longest wait s": max(waits[seen:], default=0.0),
        "before: RSS MB": before_mb,
        "most RSS MB": int(peak_kb) / 1e3,
        "later: RSS MB": process.memory_info().rss / 1e6,
        "largest checkpoint MB": max(checkpoints, default=0) / 1e6,
    }


def _unfinished_produces(target: Target, scale: float) -> None:
    start = struct.pack(">ihh", ANNOUNCED_BYTES, PRODUCE, 9) + bytes(8)
    left: dict[socket.socket, memoryview] = {}
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        body = memoryview(start + bytes(SENT_BYTES))
        for _ in range(max(1, int(UNFINISHED * scale))):
            sock = stack.enter_context(socket.create_connection(target.address))
            sock.setblocking(False)
            left[sock] = body
            selector.register(sock, selectors.EVENT_WRITE)
        end_s = time.monotonic() + HELD_S
        while selector.get_map() and time.monotonic() < end_s:
            for key, _ in selector.select(timeout=1):
                sending: Any = key.fileobj
                try:
                    left[sending] = left[sending][sending.send(left[sending][: 1 << 18]) :]
                except (BlockingIOError, InterruptedError):
                    continue
                except OSError:  # the broker closed it
                    left[sending] = body[:0]
                if not left[sending]:
                    selector.unregister(sending)
        time.sleep(max(0.0, end_s - time.monotonic()))


def _store(target: Target, count: int) -> None:
    value = bytes(range(256)) * (STORED_BYTES // 256)
    batch = encode_batch([Record(0, 1_700_000_000_000, None, value)])
    with target.connect() as client:
        for _ in range(count):
            client.call(PRODUCE, _request(target, batch), 9)


def _slow_readers(target: Target, scale: float) -> None:
    fetches = max(2, int(FETCHES * scale))
    with ExitStack() as stack:
        for _ in range(READERS):
            sock = stack.enter_context(socket.create_connection(target.address))
            sock.setblocking(False)
            frames = b"".join(_fetch_frame(target, number) for number in range(fetches))
            sock.send(frames)
        time.sleep(HELD_S)


def _fetch_frame(target: Target, offset: int) -> bytes:
    wanted = FetchPartition(0, -1, offset, -1, -1, 55 << 20)
    topic = FetchTopic(target.topic, partitions=[wanted])
    return frame_of(FETCH, 11, FetchRequest(-1, 500, 1, 55 << 20, topics=[topic]))


def _producer_ids(target: Target, scale: float) -> None:
    """Pipelined: answers are counted by a thread, so that the broker never waits for them."""
    count = max(1, int(PRODUCERS * scale))
    batch = bytearray(encode_batch([Record(0, 1_700_000_000_000, None, b"x")]))
    struct.pack_into(">qhi", batch, PRODUCER_AT, 0, 0, 0)
    free = threading.Semaphore(IN_FLIGHT)
    with target.connect() as client:

        def read() -> None:
            for _ in range(count):
                client.read_frame()
                free.release()

        thread = threading.Thread(target=read)
        thread.start()
        for producer in range(1_000_000, 1_000_000 + count):
            struct.pack_into(">q", batch, PRODUCER_AT, producer)
            struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[CRC_FROM:])))
            free.acquire()
            client.send_raw(frame_of(PRODUCE, 9, _request(target, bytes(batch))))
        thread.join()


def _request(target: Target, batch: bytes) -> ProduceRequest:
    data = TopicProduceData(name=target.topic, partition_data=[PartitionProduceData(0, batch)])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
