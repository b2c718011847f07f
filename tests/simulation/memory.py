"""What a simulated broker holds in memory for clients and stores, against its budget.

Counted: bodies of segments in the cache, what is on its way to the store, answers that wait to be
written, with all of the buffers that they are views of, and what sockets have not taken. The budget
is what the settings allow: the cache, the backlog and one segment more, the unsent answers of each
connection, and two arenas for each connection whose reader is slow (`broker.network.slow_readers`).
"""

from broker.network.connection import UNSENT_BYTES_MAX
from logstore.epoch.log import LogSettings
from logstore.testing.simulated_network import SimulatedTransport
from tests.simulation.served import ServedBroker

FRAME_BYTES = 256 * 1024
"""One request of a client, as large as they are here, and its buffers."""


def held_bytes(life: ServedBroker) -> int:
    if life.serving is None:
        return 0
    broker = life.serving.broker
    log, owners = broker.log, {}
    unsent = 0
    for connection in broker.clients.connections:
        transport = connection.transport
        unsent += len(transport.unsent) if isinstance(transport, SimulatedTransport) else 0
        for buffer in connection.outbox:
            owner = buffer.obj if isinstance(buffer, memoryview) else buffer
            owners[id(owner)] = memoryview(owner).nbytes
    return log.cache.byte_count + log.writer.backlog_bytes + unsent + sum(owners.values())


def budget_bytes(life: ServedBroker, settings: LogSettings) -> int:
    assert life.serving is not None
    flush, limits = settings.flush, settings.limits
    connections = len(life.serving.broker.clients.connections)
    each = UNSENT_BYTES_MAX + FRAME_BYTES + 2 * limits.arena_bytes
    return (
        settings.cache_bytes_max
        + limits.arena_bytes
        + flush.backlog_bytes_max
        + flush.segment_bytes_max
        + connections * each
    )
