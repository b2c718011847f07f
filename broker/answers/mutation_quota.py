"""The quota of changes of the cluster that a client makes: `controller_mutation_rate` (KIP-599).

A change counts as many partitions as are created or deleted. From a version on a request gets
THROTTLING_QUOTA_EXCEEDED for what is too much; older ones are done and throttled afterwards.
"""

from broker.answers.broker import Broker
from broker.answers.decisions.refuse import Refuse
from broker.network.call import Call
from logstore.wire.errors import ErrorCode


class MutationQuota:
    """That of the client of one request, which is strict from version `strict_from` on."""

    def __init__(self, broker: Broker, call: Call, strict_from: int) -> None:
        self._broker = broker
        self._call = call
        self._is_strict = call.version >= strict_from
        self._throttle_ms = 0

    def take(self, partition_count: int) -> None:
        """Before a change. Raises `Refuse` where it is too much."""
        call, quotas = self._call, self._broker.clients.quotas
        if not quotas.is_active:
            return
        now_s = self._broker.loop.time()
        throttle_ms = quotas.mutation_ms(call.principal, call.client_id, now_s)
        if throttle_ms and self._is_strict:
            self._throttle_ms = max(self._throttle_ms, throttle_ms)
            raise Refuse(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"too many changes: quota controller_mutation_rate wait_ms={throttle_ms}",
            )
        quotas.mutated(call.principal, call.client_id, partition_count, now_s)
        if not self._is_strict:
            throttle_ms = quotas.mutation_ms(call.principal, call.client_id, now_s)
            self._throttle_ms = max(self._throttle_ms, throttle_ms)

    def end(self) -> None:
        """Before the answer, which says how long the client is throttled."""
        if self._throttle_ms:
            self._broker.clients.quotas.note_mutations(self._throttle_ms)
            time_ms = self._call.connection.time_throttle_ms(self._call)
            self._call.throttle_ms = max(self._throttle_ms, time_ms)


def may_change_cluster(broker: Broker, call: Call, partition_count: int) -> bool:
    """Whether a change that is not asked for by itself is done; it counts then."""
    try:
        MutationQuota(broker, call, strict_from=0).take(partition_count)
    except Refuse:
        return False
    return True
