"""The pages of a broker process: metrics, health, the console. It outlives fenced epochs."""

import asyncio
import logging

from broker.answers.broker import Broker
from broker.cluster.controller import Controller
from broker.cluster.peers import TcpPeers
from broker.http.console import Console
from broker.http.decisions.health import ServingStatus, why_not_healthy, why_not_ready
from broker.http.decisions.hosts import HOSTS, parse_hosts
from broker.http.loop_lag import LoopLag
from broker.http.observe import Observer
from broker.http.observed import Observed, serving_status, state_of
from broker.http.scrape import Scrape
from broker.http.server import Answer, HttpPage, HttpServer
from broker.http.stepped import Stepped
from broker.network.listeners import Listener
from broker.upkeep.compaction_counts import CompactionCounts
from broker.upkeep.trim_task import Trimming
from logstore.cli.main import installed_version
from logstore.config.broker import BrokerSettings
from logstore.objects.metered import StoreCounts
from logstore.wiring.open import PortTimes

logger = logging.getLogger(__name__)


class HttpApp:
    def __init__(
        self, settings: BrokerSettings, compaction: CompactionCounts, open_listeners: int = 0
    ) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._watched: Observed | None = None
        self._loop_lag = LoopLag(loop)
        version = installed_version()
        observer = Observer(version, settings, self._loop_lag.lateness, compaction, open_listeners)
        scrape = Scrape(loop, lambda: observer.read(self._watched))
        console = Console(loop, version, lambda: self._watched)
        probes = {"/healthz": self._healthz, "/readyz": self._readyz}
        self._names = parse_hosts(settings.text(HOSTS))
        self._server = HttpServer(
            loop,
            {"/metrics": scrape.ask, **probes, **console.routes()},
            console.families(),
            probes=probes,
            names=self._names,
        )

    async def open(self, listener: Listener) -> None:
        """Serve at the listener, also under its host if that is a name."""
        self._server.names = self._names | {listener.host.lower()}
        await self._server.listen(listener.socket)
        self._loop_lag.start()
        logger.info("metrics and health are served: address=%s", listener)

    def watch(
        self,
        *,
        broker: Broker,
        controller: Controller,
        peers: TcpPeers,
        trimming: Trimming,
        counts: StoreCounts,
        times: PortTimes,
        stop: asyncio.Event,
    ) -> None:
        """Tell of this epoch from now on."""
        self._watched = Observed(
            broker=broker,
            controller=controller,
            peers=peers,
            trimming=trimming,
            counts=counts,
            times=times,
            stop=stop,
        )

    def close(self) -> None:
        self._loop_lag.stop()
        self._server.close()

    def _healthz(self, answer: Answer) -> None:
        trouble = why_not_healthy(state_of(self._watched))
        answer(HttpPage(503, f"{trouble}\n".encode()) if trouble else HttpPage(200, b"healthy\n"))

    def _readyz(self, answer: Answer) -> None:
        def done(status: ServingStatus) -> None:
            lines = "".join(f"{reason}\n" for reason in why_not_ready(status))
            answer(HttpPage(503, lines.encode()) if lines else HttpPage(200, b"ready\n"))

        def failed(error: Exception) -> None:
            logger.error("readiness cannot be looked at", exc_info=error)
            answer(HttpPage(500, b"fault in the broker\n"))

        Stepped(self._loop, serving_status(self._watched), done, failed).step()
