"""Which brokers have yet to say that they know a change: safety rule 20. Pure, but for two reads.

A name is served as one life of a topic. So a deletion is answered, and the name used again, when
every broker that might still serve the old life has read the change feed up to the deletion, or can
serve nothing any more:

    its chain is sealed                    it acknowledges nothing, and looks for the seal before it
                                           answers; `fenced` is not enough, since a broker that
                                           cannot renew produces until its next put meets the seal
    its broker row says `stopped`          it ended by itself, all of it committed
    its broker row says `feed` >= version  by its heartbeat
    it answered ReadFeed with >= version   the same sooner (`logstore.wire.read_feed`)
    it has no broker row of its epoch yet  it starts, and reads all topics after this

Brokers whose chains are opened after the first look read all topics after it, too. A broker of a
release that cannot say is waited for during two more heartbeats: it reads the feed four times as
often, but nothing proves it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from logstore.formats.broker_row import BrokerRow, BrokerStatus
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus
from logstore.protocol.rows.metadata import read_brokers
from logstore.protocol.steps import QueryRows, Steps

HEARTBEATS_WITHOUT_FEED = 2


class Unconfirmed(NamedTuple):
    """A broker epoch that may not know the change. `can_answer`: it is worth asking."""

    broker: int
    epoch: int
    can_answer: bool


class Confirmation:
    """One change, the feed's `version`: who has confirmed it, over several looks."""

    def __init__(self, version: int, own_epoch: int) -> None:
        self.version = version
        self._own_epoch = own_epoch
        self._left: set[int] | None = None
        """Epochs that have not confirmed; None before the first look."""
        self._first_heartbeats: dict[int, int] = {}

    def look(
        self, chains: Mapping[int, ChainRow], brokers: Mapping[int, BrokerRow]
    ) -> list[Unconfirmed]:
        """Returns the brokers that have not confirmed. `chains` were read before `brokers`."""
        if self._left is None:
            self._left = set(chains) - {self._own_epoch}
        unconfirmed: list[Unconfirmed] = []
        for epoch in sorted(self._left):
            chain = chains.get(epoch)
            row = None if chain is None else brokers.get(chain.broker)
            if chain is None or row is None or self._is_done(epoch, chain, row):
                self._left.discard(epoch)
            else:
                is_it = row.epoch == epoch and row.status is not BrokerStatus.FENCED
                can_answer = is_it and row.says_feed  # else it hangs up
                unconfirmed.append(Unconfirmed(chain.broker, epoch, can_answer))
        return unconfirmed

    def answered(self, epoch: int, version: int) -> None:
        """The broker of `epoch` says that it has read the feed up to `version`."""
        if version >= self.version and self._left is not None:
            self._left.discard(epoch)

    @property
    def is_complete(self) -> bool:
        return self._left is not None and not self._left

    def _is_done(self, epoch: int, chain: ChainRow, row: BrokerRow) -> bool:
        if chain.status is ChainStatus.SEALED or row.epoch < epoch:
            return True
        if row.epoch > epoch:
            return False  # of a predecessor that its successor is about to seal
        if row.status is BrokerStatus.STOPPED:
            return True
        if row.says_feed:
            return row.feed >= self.version
        first = self._first_heartbeats.setdefault(epoch, row.heartbeat)
        return row.heartbeat >= first + HEARTBEATS_WITHOUT_FEED


def look_for_unconfirmed(confirmation: Confirmation) -> Steps[list[Unconfirmed]]:
    """Returns the brokers that have not confirmed, by their rows as they are now. Two reads."""
    chains = {int(sk): ChainRow.of(row) for sk, row in (yield QueryRows(CHAIN))}
    brokers = yield from read_brokers()
    return confirmation.look(chains, brokers)
