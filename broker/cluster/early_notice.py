"""Reports processes that died to the liveness view, before their leases run out.

Every broker watches all others: the controller to fence them, the next controller to replace it,
and all of them so that no client is sent to a broker that is gone. A client that gets different
answers from two brokers believes the second, and asks again only after a second. A port that is
closed on purpose, by a broker that stops, is not a death: the row says which it is.
"""

import asyncio
import logging

from broker.cluster.decisions.row_steps import read_broker
from broker.cluster.log_port import ClusterLog
from broker.cluster.peers import Peer, Peers
from logstore.errors import LogstoreError
from logstore.formats.broker_row import Address, BrokerStatus
from logstore.runners.step_runner import outcome_of

logger = logging.getLogger(__name__)


class EarlyNotice:
    def __init__(self, log: ClusterLog, peers: Peers) -> None:
        self._log = log
        self._peers = peers
        self._asked: set[tuple[int, int]] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:

            def seems_gone(broker: int, epoch: int) -> None:
                if (broker, epoch) not in self._asked and self._log.liveness.is_alive(broker):
                    self._asked.add((broker, epoch))
                    tasks.create_task(self._confirm(broker, epoch))

            await self._peers.run(seems_gone)

    def watch(self) -> None:
        """Watch every broker that is there."""
        peers = {}
        for broker, row in self._log.brokers.items():
            is_there = row.status is BrokerStatus.SERVING and self._log.liveness.is_alive(broker)
            if broker != self._log.me.broker and is_there:
                first = Address(row.host, row.port)
                host, port = row.listeners.get(self._peers.listener, first)
                peers[broker] = Peer(broker, row.epoch, host, port)
        self._peers.watch(peers)

    async def _confirm(self, broker: int, epoch: int) -> None:
        row = await outcome_of(self._log.runner.run(read_broker(broker)))
        self._asked.discard((broker, epoch))
        if row is None or isinstance(row, LogstoreError) or row.epoch != epoch:
            return
        if row.status is BrokerStatus.SERVING and self._log.mark_dead(broker, epoch):
            logger.warning("process is gone: broker=%d epoch=%d", broker, epoch)
