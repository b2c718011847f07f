"""Wall clocks that are wrong, and the rows in which retention shows whether it believed one."""

import random
from collections.abc import Callable, Sequence

from logstore.formats.partition_row import StartReason
from logstore.ports.registry import Condition, Row
from logstore.registry.memory import MemoryRows
from logstore.testing.virtual_loop import VirtualClock

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
JUMPS_MS = (MINUTE_MS, 60 * MINUTE_MS, DAY_MS, 30 * DAY_MS)
PARTITION = "partition/"

OnRetention = Callable[[bytes, int, int], None]
"""Is given topic id, partition and the new log start."""


class JumpingClock(VirtualClock):
    """A machine's clock whose date can be set; its monotonic time goes on."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


def draw_jump_ms(rng: random.Random) -> int:
    """How wrong a clock is: not at all in half of the cases, else ahead or behind."""
    if rng.random() < 0.5:
        return 0
    return rng.choice((-1, 1)) * rng.choice(JUMPS_MS)


class RetentionRows(MemoryRows):
    """Rows that call `on_retention` at the moment in which retention raises a log start."""

    def __init__(self, on_retention: OnRetention) -> None:
        super().__init__()
        self._on_retention = on_retention

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        before = self._rows.get((pk, sk))
        await super().update_if(pk, sk, sets, conditions, write_id)
        if not pk.startswith(PARTITION) or before is None or "log_start" not in sets:
            return
        offset, is_mine = sets["log_start"], self._rows[pk, sk] != before
        assert isinstance(offset, int)
        if is_mine and sets.get("start_reason") == StartReason.RETENTION.to(offset):
            topic, number = sk.split("/")
            self._on_retention(bytes.fromhex(topic), int(number), offset)
