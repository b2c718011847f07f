"""Work is bounded before it is done: what a request of each API may ask for. Pure.

A request is planned against two budgets before its handler begins: work units (items times the cost
of one) and bytes of the answer. What does not fit gets an error of Kafka's for that item, or for
the request where Kafka refuses it whole; never a larger answer. A request within its budgets may
still be long: its items are handled in slices (`broker.network.turns`).

A unit is about a microsecond of one core. `items_max` bounds each array of a request while it is
decoded, and all arrays of a Produce above 8 KiB together: beyond it the connection is closed, as
for any other frame that makes no sense.
"""

from collections.abc import Mapping
from typing import NamedTuple

from broker.answers.decisions.refuse import Refuse
from logstore.protocol.topics.life import PARTITIONS_MAX
from logstore.wire.adopt import ADOPT_KEY
from logstore.wire.errors import ErrorCode
from logstore.wire.read_feed import READ_FEED_KEY

ITEMS_MAX = 100_000
"""Most items of one array of a request; its frame is at most `logstore.request.max.bytes`."""

PRODUCE_ITEMS_MAX = 10_000
"""The same for Produce, whose frames may be large."""

PROTOCOLS_MAX = 1_000
"""The same of the protocols of a member of a group, which are kept: clients have one to three."""

UNITS_MAX = 20_000_000
ANSWER_BYTES_MAX = 64 * 1024 * 1024


class Budget(NamedTuple):
    item_units: int
    """Cost of one item: a partition, else a group, a resource, a name."""
    units_max: int = UNITS_MAX
    answer_bytes_max: int = ANSWER_BYTES_MAX
    items_max: int = ITEMS_MAX

    @property
    def fitting(self) -> int:
        """How many items fit."""
        return self.units_max // self.item_units


_REGISTRY_UNITS = 2_000
"""An item that is written to the registry; 10,000 of them is Kafka's own bound for one request
(`ReplicationControlManager.MAX_PARTITIONS_PER_BATCH`)."""

BUDGETS: Mapping[int, Budget] = {
    0: Budget(20, items_max=PRODUCE_ITEMS_MAX),
    1: Budget(10),
    2: Budget(10),
    3: Budget(20),
    8: Budget(10),
    9: Budget(20),
    10: Budget(20),
    11: Budget(20, items_max=PROTOCOLS_MAX),
    12: Budget(10),
    13: Budget(50),
    14: Budget(20),
    15: Budget(50),
    16: Budget(10),
    17: Budget(50),
    18: Budget(50),
    19: Budget(_REGISTRY_UNITS),
    20: Budget(_REGISTRY_UNITS),
    21: Budget(_REGISTRY_UNITS),
    22: Budget(50),
    23: Budget(10),
    29: Budget(10),
    30: Budget(_REGISTRY_UNITS),
    31: Budget(_REGISTRY_UNITS),
    32: Budget(250),
    33: Budget(_REGISTRY_UNITS),
    34: Budget(10),
    35: Budget(20),
    36: Budget(50),
    37: Budget(_REGISTRY_UNITS),
    42: Budget(50),
    43: Budget(_REGISTRY_UNITS),
    44: Budget(_REGISTRY_UNITS),
    45: Budget(_REGISTRY_UNITS),
    46: Budget(10),
    47: Budget(10),
    48: Budget(10),
    49: Budget(_REGISTRY_UNITS),
    50: Budget(10),
    51: Budget(_REGISTRY_UNITS),
    55: Budget(10),
    57: Budget(_REGISTRY_UNITS),
    60: Budget(50),
    61: Budget(20, answer_bytes_max=8 * 1024 * 1024),
    64: Budget(_REGISTRY_UNITS),
    66: Budget(10),
    74: Budget(5),
    75: Budget(10),
    ADOPT_KEY: Budget(20),
    READ_FEED_KEY: Budget(1),
}
"""By API key; every key that is served has one."""


def over_budget(key: int, count: int) -> Refuse | None:
    """The refusal of a request with `count` items if they do not fit: POLICY_VIOLATION, as Kafka.

    Handlers ask about items that cost much. Of the others a frame of `logstore.request.max.bytes`
    cannot hold more than fit.
    """
    fitting = BUDGETS[key].fitting
    if count <= fitting:
        return None
    return Refuse(
        ErrorCode.POLICY_VIOLATION,
        f"the request asks for too much work: items={count} most={fitting}; split it up",
    )


def clamp_partitions(count: int) -> int:
    """Partitions to plan for: a number that no topic may have is refused for that topic alone."""
    return min(max(1, count), PARTITIONS_MAX)


def check_answer(key: int, byte_count: int) -> None:
    """Raises `Refuse` for a further item of an answer that has `byte_count` bytes already."""
    most = BUDGETS[key].answer_bytes_max
    if byte_count >= most:
        raise Refuse(
            ErrorCode.POLICY_VIOLATION,
            f"the answer would be too large: bytes={byte_count} most={most}; ask for fewer at once",
        )
