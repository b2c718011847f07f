"""Remove the row of a broker that will not come back: steps. Pure.

A row goes only when the chain that it names is sealed, so that nothing its broker still has in
flight can be stored, and only as it was read: one that is renewed or started again is kept. Then it
decides nothing: takeovers go by the rows of chains and partitions. A broker of that number that
starts later makes its row again.
"""

from logstore.errors import ConditionFailed, Invalid, Retryable
from logstore.formats.broker_row import BROKER, BrokerRow
from logstore.formats.chain_row import ChainStatus
from logstore.ports.registry import Comparison
from logstore.protocol.chain.seal import read_chain_row
from logstore.protocol.steps import DeleteRow, GetRow, Steps


class UnknownBroker(Invalid):
    """No broker of that number is registered."""


class BrokerNotOver(Retryable):
    """Its partitions or its chain are not taken over yet, which the controller sees to."""


def remove_broker(broker: int) -> Steps[None]:
    """Raises `UnknownBroker`, `BrokerNotOver`, and as the registry does."""
    current = yield GetRow(BROKER, str(broker))
    if current is None:
        raise UnknownBroker(f"no such broker is registered: broker={broker}")
    row = BrokerRow.of(current)
    chain = yield from read_chain_row(row.epoch)
    if chain.status is not ChainStatus.SEALED:
        raise BrokerNotOver(f"its chain is not sealed yet: broker={broker} chain={row.epoch}")
    unchanged = [
        Comparison("epoch", "=", row.epoch),
        Comparison("heartbeat", "=", row.heartbeat),
        Comparison("status", "=", row.status.value),
    ]
    try:
        yield DeleteRow(BROKER, str(broker), unchanged)
    except ConditionFailed as failed:
        if failed.current is not None:
            raise BrokerNotOver(f"the broker renews its row: broker={broker}") from failed
