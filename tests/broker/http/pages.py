"""Asks a broker's pages over a real socket."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from broker.cluster.controller import Controller
from broker.cluster.peers import NoPeers, TcpPeers
from broker.cluster.settings import ControllerSettings
from broker.http.app import HttpApp
from broker.http.observed import Observed
from broker.network.listeners import Listener, bind, parse_address
from broker.upkeep.compaction_counts import CompactionCounts
from broker.upkeep.trim_task import Trimming
from logstore.config.broker import BrokerSettings
from logstore.epoch.table_queries import VerifiedEnds
from logstore.objects.metered import StoreCounts
from logstore.wiring.open import PortTimes
from tests.broker.running import DEADLINE_S, Running
from tests.logstore.written import NoTables

Labels = frozenset[tuple[str, str]]


class Answered(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: str


def ask(port: int, path: str, method: str = "GET") -> Answered:
    connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return Answered(response.status, dict(response.headers), response.read().decode())
    finally:
        connection.close()


class Scraped:
    """A page of metrics, as Prometheus's own parser understands it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.kinds: dict[str, str] = {}
        self.samples: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(text):
            total = "_total" if family.type == "counter" else ""
            self.kinds[family.name + total] = family.type
            for sample in family.samples:
                of_name = self.samples.setdefault(sample.name, {})
                labels = frozenset(sample.labels.items())
                assert labels not in of_name, f"twice: {sample.name} {sample.labels}"
                of_name[labels] = sample.value

    def value(self, name: str, **labels: str) -> float:
        return self.samples[name][frozenset(labels.items())]

    def values(self, name: str, label: str) -> dict[str, float]:
        found = self.samples.get(name, {}).items()
        return {dict(labels)[label]: value for labels, value in found}


def scrape(port: int) -> Scraped:
    answered = ask(port, "/metrics")
    assert answered.status == 200
    return Scraped(answered.body)


class NewTables(NoTables):
    """Tables that held nothing a grace ago."""

    async def held(self, marks: Mapping[bytes, int], grace_ms: int, now_ms: int) -> VerifiedEnds:
        return VerifiedEnds({}, [], {})


class Pages:
    """A running broker's door; `watch` tells it of the broker."""

    def __init__(self, running: Running, settings: Mapping[str, str]) -> None:
        self.running = running
        self.settings = BrokerSettings(settings)
        self.counts = StoreCounts()
        self.times = PortTimes()
        self.stop = asyncio.Event()
        self.controller: Controller
        self.peers: TcpPeers
        self.trimming: Trimming
        self.listener: Listener = bind(parse_address("127.0.0.1:0"), None, "--http")
        self.door: HttpApp = running.wait_for(self._open())

    async def _open(self) -> HttpApp:
        door = HttpApp(self.settings, CompactionCounts())
        await door.open(self.listener)
        return door

    @property
    def port(self) -> int:
        return self.listener.port

    def watch(self) -> None:
        self.running.do(self._watch)

    @property
    def observed(self) -> Observed:
        """As the door has it, once it watches."""
        return Observed(
            broker=self.running.broker,
            controller=self.controller,
            peers=self.peers,
            trimming=self.trimming,
            counts=self.counts,
            times=self.times,
            stop=self.stop,
        )

    def _watch(self) -> None:
        log, runner = self.running.log, self.running.log.runner
        self.trimming = Trimming(log, self.settings, lambda: False, NewTables())
        self.controller = Controller(log, ControllerSettings.of(self.settings), NoPeers())
        self.peers = TcpPeers(runner.clock, runner.rng)
        self.door.watch(
            broker=self.running.broker,
            controller=self.controller,
            peers=self.peers,
            trimming=self.trimming,
            counts=self.counts,
            times=self.times,
            stop=self.stop,
        )


@contextmanager
def pages_of(running: Running, settings: Mapping[str, str] | None = None) -> Iterator[Pages]:
    pages = Pages(running, settings or {})
    try:
        pages.watch()
        yield pages
    finally:
        running.do(pages.door.close)
