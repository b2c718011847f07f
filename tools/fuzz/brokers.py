"""Attacks three brokers with damaged frames: `python -m tools.fuzz.brokers --frames 100000`.

A process for each broker sends frames of its own seed, some at a time; a healthy client beside each
produces and reads. Shown are frames that a handler answered and that were refused, the longest hold
of each event loop and the longest wait of a healthy client, memory, and how often a broker was
fenced. Exit code 1: a broker was fenced, ended, or reported a fault of its own.
"""

import argparse
import multiprocessing
import random
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers.holds import longest_hold
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server, peak_rss_bytes, stop
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tools.full_wire import Connection
from tools.fuzz.frames import TOPICS, frames

BROKERS, CREATE_TOPICS = 3, 19
AT_ONCE = 8
ANSWER_S = 1.0
HEALTHY_S, HEALTHY_PAUSE_S = 30.0, 0.05
REPORT_S = 30.0
HEALTHY = "healthy"
HELD_SHOWN = 5
SETTINGS = (
    "auto.create.topics.enable=false",
    "group.initial.rebalance.delay.ms=0",
)
_SIZE = struct.Struct(">i")
_KEPT_BYTES = 1 << 16


class Tally(NamedTuple):
    """Frames by what became of them."""

    answered: int = 0
    refused: int = 0
    """The connection was closed, as for any frame that makes no sense."""
    waiting: int = 0
    """No answer within a second: a poll, a rebalance, a Produce that wants none."""

    @property
    def total(self) -> int:
        return sum(self)

    @property
    def reached(self) -> int:
        """A handler."""
        return self.answered + self.waiting


def attack(address: tuple[str, int], source: Iterator[bytes]) -> Iterator[Tally]:
    """One tally per connection; frames behind a refused one are sent again."""
    queue: deque[bytes] = deque()
    while True:
        with suppress(OSError), socket.create_connection(address, 10.0) as peer:
            peer.settimeout(ANSWER_S)
            yield from _converse(peer, source, queue)


def _converse(peer: socket.socket, source: Iterator[bytes], queue: deque[bytes]) -> Iterator[Tally]:
    while True:
        queue.extend(islice(source, AT_ONCE - len(queue)))
        try:
            peer.sendall(b"".join(queue))
            for _ in range(len(queue)):
                _skip_answer(peer)
                queue.popleft()
                yield Tally(answered=1)
        except TimeoutError:
            queue.popleft()
            yield Tally(waiting=1)
            return
        except OSError:
            queue.popleft()
            yield Tally(refused=1)
            return


def _skip_answer(peer: socket.socket) -> None:
    left = _SIZE.unpack(_exactly(peer, _SIZE.size))[0]
    while left:
        left -= len(_exactly(peer, min(left, _KEPT_BYTES)))


def _exactly(peer: socket.socket, count: int) -> bytes:
    data = peer.recv(count, socket.MSG_WAITALL)
    if not data:
        raise ConnectionResetError("the broker hung up")
    return data


def _attacker(
    address: tuple[str, int],
    seed: str,
    count: int,
    end_s: float,
    results: "multiprocessing.Queue[Tally]",
) -> None:
    tally = Tally()
    said_s = time.perf_counter()
    for one in attack(address, frames(random.Random(seed))):
        tally = Tally(*map(sum, zip(tally, one, strict=True)))
        now_s = time.perf_counter()
        if now_s - said_s > REPORT_S:
            said_s = now_s
            sys.stderr.write(f"fuzz: {address[1]}: {tally}\n")
        if tally.total >= count or now_s > end_s:
            break
    results.put(tally)


class Healthy(threading.Thread):
    """A client that produces a record now and then, and notes its longest wait."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(daemon=True)
        self.longest_s = 0.0
        self.failures: list[str] = []
        self.is_over = threading.Event()
        self._address = address

    def run(self) -> None:
        records = encode_batch([Record(0, 1_790_000_000_000, b"k", b"v")])
        data = [PartitionProduceData(0, records)]
        request = ProduceRequest(
            None, -1, 30_000, [TopicProduceData(HEALTHY, bytes(16), [data[0]])]
        )
        client: Connection | None = None
        while not self.is_over.wait(HEALTHY_PAUSE_S):
            began_s = time.perf_counter()
            try:
                client = client or Connection.open(*self._address, HEALTHY_S)
                client.call(0, request, 9)
            except Exception as error:  # noqa: BLE001 - reported
                self.failures.append(repr(error))
                client = None
            self.longest_s = max(self.longest_s, time.perf_counter() - began_s)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz.brokers", description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="logstore-fuzz-"))
    try:
        server = start_logstore(directory, brokers=BROKERS, is_held=True, settings=SETTINGS)
        try:
            return _run(server, directory, options)
        finally:
            stop(server.processes)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _run(server: Server, directory: Path, options: argparse.Namespace) -> int:
    topics = [CreatableTopic(name, 2, 1) for name in (*TOPICS, HEALTHY)]
    with Connection.open(*address_of(server), HEALTHY_S) as admin:
        admin.call(CREATE_TOPICS, CreateTopicsRequest(topics, 30_000), 7)
    each = each_of(server)
    addresses = [address_of(one) for one in each]
    for one in each:
        longest_hold(one)
    before = [one.rss_bytes() for one in each]
    healthy = [Healthy(address) for address in addresses]
    for client in healthy:
        client.start()
    tallies, took_s = _attack_all(addresses, options)
    for client in healthy:
        client.is_over.set()
        client.join(HEALTHY_S)
    _show(tallies, took_s)
    return report(each, directory, healthy, before)


def _attack_all(
    addresses: Sequence[tuple[str, int]], options: argparse.Namespace
) -> tuple[Sequence[Tally], float]:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[Tally] = context.Queue()
    count, began_s = options.frames // len(addresses) + 1, time.perf_counter()
    end_s = began_s + options.minutes * 60
    children = [
        context.Process(
            target=_attacker, args=(address, f"{options.seed} {number}", count, end_s, results)
        )
        for number, address in enumerate(addresses)
    ]
    for child in children:
        child.start()
    tallies = [results.get() for _ in children]
    for child in children:
        child.join()
    return tallies, time.perf_counter() - began_s


def _show(tallies: Sequence[Tally], took_s: float) -> None:
    total = Tally(*map(sum, zip(*tallies, strict=True)))
    share = total.reached / max(total.total, 1)
    sys.stdout.write(
        f"frames={total.total} reached_a_handler={share:.0%} answered={total.answered} "
        f"refused={total.refused} waiting={total.waiting} seconds={took_s:.0f}\n"
    )


def report(
    each: Sequence[Server], directory: Path, healthy: Sequence[Healthy], before: Sequence[int]
) -> int:
    """Show how each broker fared; 1 if one was fenced, ended, or reported a fault, else 0."""
    faults = 0
    for number, (one, client, began) in enumerate(zip(each, healthy, before, strict=True), 1):
        log = (directory / f"broker-{number}.log").read_text(errors="replace")
        is_alive = one.processes[0].is_running()
        fenced, broken = log.count("fenced"), log.count("Traceback")
        hold = longest_hold(one) if is_alive else None
        peak = peak_rss_bytes(one.processes[0].pid) if is_alive else 0
        sys.stdout.write(
            f"broker {number}: alive={is_alive} fenced={fenced} faults={broken} "
            f"hold_ms={hold.ms if hold else -1:.1f} in={hold.what if hold else ''} "
            f"rss_mib={began >> 20} peak_mib={peak >> 20} "
            f"healthy_longest_ms={client.longest_s * 1e3:.0f} failures={client.failures[:2]}\n"
        )
        held = [line for line in log.splitlines() if "event loop held" in line]
        sys.stdout.write("".join(f"  {line}\n" for line in held[:HELD_SHOWN]))
        if broken or fenced or not is_alive:
            faults += 1
            sys.stdout.write(_first_fault(log))
    return 1 if faults else 0


def _first_fault(log: str) -> str:
    at = max(log.find("Traceback"), 0)
    return log[max(at - 400, 0) : at + 2_500] + "\n"


def each_of(server: Server) -> list[Server]:
    """Its brokers, one by one."""
    return [
        replace(server, processes=[process], counts=[path], bootstrap=address)
        for process, path, address in zip(
            server.processes, server.counts, server.bootstrap.split(","), strict=True
        )
    ]


def address_of(server: Server) -> tuple[str, int]:
    """Of the first of its brokers."""
    host, _, port = server.bootstrap.split(",")[0].rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    sys.exit(main())
