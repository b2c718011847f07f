"""Three brokers under attack, a healthy client beside each, and how they fared."""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from benchmarks.peers.holds import longest_hold
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server, peak_rss_bytes, running
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tools.full_wire import Connection

BROKERS, CREATE_TOPICS = 3, 19
HEALTHY_S, HEALTHY_PAUSE_S = 30.0, 0.05
HEALTHY = "healthy"
HELD_SHOWN = 5
SETTINGS = (
    "auto.create.topics.enable=false",
    "group.initial.rebalance.delay.ms=0",
)


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


@contextmanager
def attacked(topics: Sequence[CreatableTopic]) -> Iterator[list[Server]]:
    """Brokers with these topics and the one of healthy clients, one by one."""
    start = partial(start_logstore, brokers=BROKERS, is_held=True, settings=SETTINGS)
    asked = [*topics, CreatableTopic(HEALTHY, BROKERS, 1)]
    with running(start) as server:
        with Connection.open(*address_of(server), HEALTHY_S) as admin:
            admin.call(CREATE_TOPICS, CreateTopicsRequest(asked, 30_000), 7)
        yield each_of(server)


@contextmanager
def healthy_beside(each: Sequence[Server]) -> Iterator[list[Healthy]]:
    """A healthy client of each broker, while it is attacked."""
    clients = [Healthy(address_of(one)) for one in each]
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        for client in clients:
            client.is_over.set()
            client.join(HEALTHY_S)


def report(each: Sequence[Server], healthy: Sequence[Healthy], before: Sequence[int]) -> int:
    """Show how each broker fared; 1 if one was fenced, ended, or reported a fault, else 0."""
    faults = 0
    for number, (one, client, began) in enumerate(zip(each, healthy, before, strict=True), 1):
        log = (one.directory.parent / f"broker-{number}.log").read_text(errors="replace")
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
