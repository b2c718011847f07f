"""Name the next leader of a partition in its row, as long as the row's leadership is the one seen.

What others may change meanwhile stays as they left it: log start is not written, and replicas,
reassigning and target are terms of the change, so that it is decided again from what they say now.
"""

from logstore.errors import ConditionFailed, Retryable
from logstore.registry.store import Condition
from logstore.rows import PartitionRow, partition_pk, partition_sk
from logstore.steps import Steps, UpdateRow

ATTEMPTS_MAX = 20
PLACEMENT = ("replicas", "reassigning", "target")


def change_leader(
    key: tuple[bytes, int],
    row: PartitionRow,
    *,
    broker: int,
    chain: int,
    start: int,
    known_from: int,
) -> Steps[PartitionRow]:
    """The row afterwards. Raises `ConditionFailed` when its leadership is another by now."""
    pk, sk = partition_pk(*key), partition_sk(*key)
    for _ in range(ATTEMPTS_MAX):
        taken = row.taken_by(broker=broker, chain=chain, start=start, known_from=known_from)
        seen = row.row()
        terms = [
            Condition("chain", "=", row.chain),
            Condition("leader_epoch", "=", row.leader_epoch),
            *(Condition(name, "=", seen[name]) for name in PLACEMENT),
        ]
        try:
            yield UpdateRow(pk, sk, taken.leadership(), terms)
        except ConditionFailed as failed:
            if failed.current is None:
                raise  # the topic is gone
            now = PartitionRow.of(failed.current)
            if now.stretches[-1] == taken.stretches[-1]:
                return now  # an earlier attempt of ours
            if (now.chain, now.leader_epoch) != (row.chain, row.leader_epoch):
                raise
            row = now
        else:
            return taken
    raise Retryable(f"the row of a partition keeps changing: sk={sk}")
